"""Changes a table's columns for records that need it: one change of the catalog for all tasks.

Rules:
- Others may change the table meanwhile: after a refusal, and if no answer came, it is read again, and only what it
  still lacks is changed.
- Files that were written before stay as they are.
- Fields of structs count as columns, so that objects with ever new names come to an end.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID, TableRequirement, TableUpdate
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from chsink.errors import halts, preflight
from chsink.mirror.lacking_parts import promoted
from chsink.mirror.nested_types import fields_in
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
    columns = ", ".join(f"{name} {field.field_type}" for name, field in wanted.items())
    known = {"table": table.identifier, "columns": columns, "reason": refused and said(refused)}
    raise preflight.MIRROR_COLUMNS_NOT_ADDED(**known) from refused


@dataclass(frozen=True)
class _Change:
    """Of one field: the type of a new one, or the wider type of one that the table has, or no longer ``required``."""

    path: tuple[str, ...]
    added: IcebergType | None = None
    wider: IcebergType | None = None

    def __str__(self) -> str:
        return ".".join(self.path)

    def stage(self, update: UpdateSchema) -> None:
        """Add it to the update."""
        if self.added is not None:
            update.add_column(self.path, self.added)
        elif self.wider is not None:
            update.update_column(self.path, field_type=self.wider)
        else:
            update.make_column_optional(self.path)


def _change(
    table: Table, wanted: Mapping[str, NestedField], most: int, name: str
) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
    have, identifiers = table.schema().as_struct(), table.schema().identifier_field_ids
    changes = list(_within((), have, StructType(*wanted.values()), identifiers))
    if not changes:
        return (), ()
    added = {str(each): 1 + fields_in(each.added) for each in changes if each.added is not None}
    if added and fields_in(have) + sum(added.values()) > most:
        raise preflight.TOO_MANY_COLUMNS(tp="the Iceberg mirror", table=name, columns=", ".join(added))
    _log.info("changing columns of the Iceberg table %s: %s", name, ", ".join(map(str, changes)))
    update = table.update_schema()
    for each in changes:
        each.stage(update)
    return update._commit()


def _within(
    path: tuple[str, ...], have: IcebergType, wanted: IcebergType, identifiers: Collection[int]
) -> Iterator[_Change]:
    """What makes the present type at this path the wanted one."""
    match have, wanted:
        case StructType(), StructType():
            fields = {field.name: field for field in have.fields}
            for field in wanted.fields:
                if (mine := fields.get(field.name)) is None:
                    yield _Change((*path, field.name), added=field.field_type)
                else:
                    yield from _of_field(path, mine, field, identifiers)
        case ListType(), ListType():
            yield from _of_field(path, have.element_field, wanted.element_field, identifiers)
        case MapType(), MapType():
            yield from _of_field(path, have.value_field, wanted.value_field, identifiers)
        case _ if (wider := promoted(have, wanted)) is not None:
            yield _Change(path, wider=wider)


def _of_field(
    path: tuple[str, ...], have: NestedField, wanted: NestedField, identifiers: Collection[int]
) -> Iterator[_Change]:
    at = (*path, have.name)
    yield from _within(at, have.field_type, wanted.field_type, identifiers)
    if have.required and not wanted.required and have.field_id not in identifiers:
        yield _Change(at)


def _commit(
    catalog: Catalog, table: Table, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...]
) -> None:
    """A table that was recreated meanwhile is another one."""
    same = AssertTableUUID(uuid=table.metadata.table_uuid)
    catalog.commit_table(table, (same, *requirements), updates)
