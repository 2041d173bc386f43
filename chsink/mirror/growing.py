"""Changes a table's columns for records that need it: one change of the catalog for all tasks.

Rules:
- Others may change the table meanwhile: after a refusal, and if no answer came, it is read again, and only what it
  still lacks is changed.
- Files that were written before stay as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID, TableRequirement, TableUpdate
from pyiceberg.types import NestedField

from chsink.errors import halts, preflight
from chsink.mirror.lacking import promoted
from chsink.mirror.tables import MirrorTable, said

ATTEMPTS: Final = 5
_log = logging.getLogger(__name__)


def grow(table: MirrorTable, wanted: Mapping[str, NestedField], most: int) -> None:
    """Change what the table lacks.

    Raises PreflightError CHS-282 if the catalog refuses the change, CHS-289 if the table would have more than ``most``
    columns, HaltError CHS-343 if it is gone, and ``CatalogFailed``.
    """
    refused: Exception | None = None
    for _ in range(ATTEMPTS):
        found = table.load()
        if found is None:
            raise halts.MIRROR_TABLE_GONE(tables=table.identifier)
        updates, requirements = _change(found, wanted, most, table.identifier)
        if not updates:
            return
        try:
            _commit(table.catalog, found, updates, requirements)
        except Exception as error:  # refused, or the answer was lost: the table is read again
            refused = error
        else:
            return
    known = {"table": table.identifier, "columns": ", ".join(wanted), "reason": refused and said(refused)}
    raise preflight.MIRROR_COLUMNS_NOT_ADDED(**known) from refused


def _change(
    table: Table, wanted: Mapping[str, NestedField], most: int, name: str
) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
    schema = table.schema()
    have = {field.name: field for field in schema.fields}
    new = [column for column in wanted if column not in have]
    if new and len(have) + len(new) > most:
        raise preflight.TOO_MANY_COLUMNS(tp="the Iceberg mirror", table=name, columns=", ".join(new))
    change, changed = table.update_schema(), list(new)
    for column in new:
        change.add_column((column,), wanted[column].field_type)
    for column in wanted.keys() & have.keys():
        field, want = have[column], wanted[column]
        if (wider := promoted(field.field_type, want.field_type)) is not None:
            change.update_column((column,), field_type=wider)
            changed.append(column)
        if field.required and not want.required and field.field_id not in schema.identifier_field_ids:
            change.make_column_optional((column,))
            changed.append(column)
    if not changed:
        return (), ()
    _log.info("changing columns of the Iceberg table %s: %s", name, ", ".join(changed))
    return change._commit()


def _commit(
    catalog: Catalog, table: Table, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...]
) -> None:
    """A table that was recreated meanwhile is another one."""
    same = AssertTableUUID(uuid=table.metadata.table_uuid)
    catalog.commit_table(table, (same, *requirements), updates)
