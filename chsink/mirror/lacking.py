"""What a table lacks for records: columns for their fields, and wider types of the columns that it has.

Rules:
- A column is wanted as a field without an id.  Where the table has the column, its type and ``required`` are what it
  should become; of a struct, list or map, the type holds only what is new or changes
  (:mod:`chsink.mirror.lacking_parts`).
- Types widen as Iceberg allows it without rewriting files: ``int`` to ``long``, ``float`` to ``double``, more digits of
  a decimal, required to optional.  Nothing else changes, and no identifier field becomes optional.
- They widen for a record that does not fit and would then, or for the schema of an Avro or Protobuf record.
- What is wanted does not depend on the order of records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, NestedField

from chsink.errors import ChsinkError, preflight, services
from chsink.formats.record_fields import Offered, offered_by
from chsink.formats.settings import Avro, Protobuf
from chsink.mirror.column_types import ICEBERG
from chsink.mirror.lacking_parts import GuidedTypes, lacking_part, needed, widest
from chsink.mirror.names import given_names, named
from chsink.mirror.nested_types import fields_in
from chsink.mirror.types import TableColumns
from chsink.notation.metadata_columns import METADATA_COLUMNS, is_column_name
from chsink.ports import BadValue

Wanted = dict[str, NestedField]
"""By column."""


class ColumnsLack(Exception):
    """Records need columns that tables lack, so the worker handed over nothing.  ``wanted`` is keyed by table."""

    def __init__(self, wanted: Mapping[str, Wanted]) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class TablesLack(Exception):
    """Records name tables that do not exist yet, so the worker handed over nothing.  ``wanted``: by table, the columns
    for these records.
    """

    def __init__(self, wanted: Mapping[str, Wanted]) -> None:
        super().__init__(wanted)
        self.wanted = wanted


@dataclass(frozen=True)
class ColumnLook:
    """Looks at the records of one range, for one table."""

    columns: TableColumns

    @cached_property
    def _offered(self) -> Offered[IcebergType] | None:
        types = GuidedTypes(self.columns.schema.as_struct(), self.columns.names)
        return offered_by(self.columns.format, types)

    def lacking(self, records: pa.RecordBatch, bad: Sequence[BadValue]) -> Wanted:
        """What the table lacks for these records, of which ``bad`` do not fit it."""
        return joined([self._fields(records), _widened(self.columns, records, bad)])

    def _fields(self, records: pa.RecordBatch) -> Wanted:
        """Columns for fields that have none, and what those lack that the table has: fields of their structs, and the
        types that a schema declares.
        """
        columns = self.columns
        if self._offered is None:
            return {}
        known = {*columns.format.named, *(columns.keys.columns if columns.keys else ())}
        declared = isinstance(columns.format, Avro | Protobuf)
        for field in columns.schema.fields:
            if field.field_type.is_primitive if declared else not fields_in(field.field_type):
                known.update(columns.names.get(field.field_id, ()))  # not looked for by the names of the mapping
                if not declared:
                    known.add(field.name)
        have, found = columns.schema.as_struct(), list[Wanted]()
        for name, kind in self._offered.columns(records.column("value"), known).items():
            if kind is None or not is_column_name(name):
                continue
            mine = named(have, name, columns.names)
            if mine is None:
                found.append({name: _wanted(name, kind)})
            elif (part := lacking_part(mine.field_type, kind, columns.names)) is not None:
                found.append({mine.name: _wanted(mine.name, part, required=mine.required)})
        return joined(found)


def joined(all_wanted: Iterable[Wanted]) -> Wanted:
    """What several records want together."""
    found: Wanted = {}
    for wanted in all_wanted:
        for name, field in wanted.items():
            other = found.get(name, field)
            kind = ICEBERG.wider(other.field_type, field.field_type)
            found[name] = _wanted(name, kind, required=other.required and field.required)
    return found


def _wanted(name: str, kind: IcebergType, *, required: bool = False) -> NestedField:
    return NestedField(0, name, kind, required=required)


def _widened(columns: TableColumns, records: pa.RecordBatch, bad: Sequence[BadValue]) -> Wanted:
    """What the table needs so that records fit which do not: only those that then fit as a whole count."""
    schema, fixed = columns.schema, columns.schema.identifier_field_ids
    wide = [field if field.name in METADATA_COLUMNS else widest(field, fixed) for field in schema.fields]
    able = {
        field.name: given_names(field, columns.names)
        for field, most in zip(schema.fields, wide, strict=True)
        if field != most
    }
    names = {*able, *(name for given in able.values() for name in given)}
    rows = sorted({each.row for each in bad if each.column in names and not each.tombstone})
    if not rows:
        return {}
    fitting = replace(columns, schema=Schema(*wide, identifier_field_ids=fixed)).decode(records.take(pa.array(rows)))
    found: Wanted = {}
    for at, field in enumerate(schema.fields):
        wanted = needed(field, fitting.batch.column(at).combine_chunks(), fixed) if field.name in able else None
        if wanted is not None:
            found[field.name] = wanted
    return found


# --- from tasks to the driver -----------------------------------------------------------------------------------------


def encoded(wanted: Mapping[str, Wanted]) -> str:
    """As a parameter of an error: the fields by table and column."""
    return json.dumps(
        {
            table: {name: field.model_dump(mode="json") for name, field in of_table.items()}
            for table, of_table in wanted.items()
        }
    )


def wanted_by(error: ChsinkError) -> dict[str, Wanted]:
    """By table: what tasks reported as missing."""
    found: dict[str, Wanted] = {}
    for one in _reported(error, preflight.MIRROR_COLUMNS_MISSING.name):
        _add(found, one.params["columns"])
    return found


def tables_named_by(error: ChsinkError) -> dict[str, dict[str, Wanted]]:
    """By topic: the tables that its records name and that do not exist yet, with their columns."""
    found: dict[str, dict[str, Wanted]] = {}
    for one in _reported(error, services.MIRROR_TABLES_BEGIN.name):
        _add(found.setdefault(one.params["tp"].rpartition("-")[0], {}), one.params["tables"])
    return found


def _reported(error: ChsinkError, name: str) -> list[ChsinkError]:
    return [one for one in error.single or error.parts or (error,) if one.name == name]


def _add(found: dict[str, Wanted], text: str) -> None:
    """Join what :func:`encoded` made to what was found."""
    for table, columns in json.loads(text).items():
        mine = {name: NestedField.model_validate(said) for name, said in columns.items()}
        found[table] = joined([found.get(table, {}), mine])
