"""What a table lacks for records: columns for their fields, and wider types of the columns that it has.

Rules:
- A column is wanted as a field without an id.  Where the table has the column, its type and ``required`` are what it
  should become.
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
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, DoubleType, FloatType, IcebergType, IntegerType, LongType, NestedField

from chsink.errors import ChsinkError, preflight
from chsink.formats.record_fields import Offered, offered_by
from chsink.formats.settings import Avro, Protobuf
from chsink.mirror.column_types import ICEBERG
from chsink.mirror.types import TableColumns
from chsink.notation.metadata_columns import METADATA_COLUMNS, is_column_name
from chsink.ports import BadValue

Wanted = dict[str, NestedField]
"""By column."""
_FLOAT_MAX: Final = float(np.finfo(np.float32).max)
_MOST_DIGITS: Final = 38


class ColumnsLack(Exception):
    """Records need columns that tables lack, so the worker handed over nothing.  ``wanted`` is keyed by table."""

    def __init__(self, wanted: Mapping[str, Wanted]) -> None:
        super().__init__(wanted)
        self.wanted = wanted


@dataclass(frozen=True)
class ColumnLook:
    """Looks at the records of one range, for one table."""

    columns: TableColumns

    @cached_property
    def _offered(self) -> Offered[IcebergType] | None:
        return offered_by(self.columns.format, ICEBERG)

    def lacking(self, records: pa.RecordBatch, bad: Sequence[BadValue]) -> Wanted:
        """What the table lacks for these records, of which ``bad`` do not fit it."""
        return joined([self._fields(records), _widened(self.columns, records, bad)])

    def _fields(self, records: pa.RecordBatch) -> Wanted:
        """Columns for fields that have none, and the types that a schema declares for those that have one."""
        columns = self.columns
        if self._offered is None:
            return {}
        known = {*columns.format.named, *(columns.keys.columns if columns.keys else ())}
        have = {field.name: field for field in columns.schema.fields}
        for field in columns.schema.fields:  # a column is not looked for by the names that the table's mapping gives it
            known.update(columns.names.get(field.field_id, ()))
        if not isinstance(columns.format, Avro | Protobuf):
            known |= have.keys()
        found: Wanted = {}
        for name, kind in self._offered.columns(records.column("value"), known).items():
            if kind is None or not is_column_name(name):
                continue
            if name not in have:
                found[name] = _wanted(name, kind)
            elif (wider := promoted(have[name].field_type, kind)) is not None:
                found[name] = _wanted(name, wider, required=have[name].required)
        return found


def promoted(kind: IcebergType, wanted: IcebergType) -> IcebergType | None:
    """The wider type that a column gets for values of the wanted one; None if it stays as it is."""
    match kind, wanted:
        case IntegerType(), LongType():
            return wanted
        case FloatType(), DoubleType():
            return wanted
        case DecimalType(), DecimalType() if wanted.scale == kind.scale and wanted.precision > kind.precision:
            return wanted
    return None


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
    schema = columns.schema
    wide = [_widest(field, schema) for field in schema.fields]
    able = {field.name for field, most in zip(schema.fields, wide, strict=True) if field != most}
    rows = sorted({each.row for each in bad if each.column in able and not each.tombstone})
    if not rows:
        return {}
    widest = replace(columns, schema=Schema(*wide, identifier_field_ids=schema.identifier_field_ids))
    fitting = widest.decode(records.take(pa.array(rows))).batch
    found: Wanted = {}
    for at, field in enumerate(schema.fields):
        values = fitting.column(at).combine_chunks()
        kind = _needed(field.field_type, values) if field.name in able else None
        null = field.required and field.field_id not in schema.identifier_field_ids and values.null_count > 0
        if kind is not None or null:
            found[field.name] = _wanted(field.name, kind or field.field_type, required=field.required and not null)
    return found


def _widest(field: NestedField, schema: Schema) -> NestedField:
    if field.name in METADATA_COLUMNS:
        return field
    kind: IcebergType = field.field_type
    match kind:
        case IntegerType():
            kind = LongType()
        case FloatType():
            kind = DoubleType()
        case DecimalType():
            kind = DecimalType(_MOST_DIGITS, kind.scale)
    required = field.required and field.field_id in schema.identifier_field_ids
    return NestedField(field.field_id, field.name, kind, required=required)


def _needed(kind: IcebergType, values: pa.Array) -> IcebergType | None:
    """The wider type that these values need, None if they fit."""
    match kind:
        case IntegerType():
            narrow = pc.and_(pc.greater_equal(values, -(2**31)), pc.less(values, 2**31))
            return None if pc.all(narrow, min_count=0).as_py() else LongType()
        case FloatType():
            numbers = np.asarray(values.filter(pc.is_valid(values)))
            return None if (np.abs(numbers[np.isfinite(numbers)]) <= _FLOAT_MAX).all() else DoubleType()
        case DecimalType():
            digits = max((len(v.as_tuple().digits) for v in values.filter(pc.is_valid(values)).to_pylist()), default=0)
            return DecimalType(digits, kind.scale) if digits > kind.precision else None
    return None


# --- from tasks to the driver -----------------------------------------------------------------------------------------


def encoded(wanted: Mapping[str, Wanted]) -> str:
    """As a parameter of an error: by table and column, its type and whether it is required."""
    return json.dumps(
        {
            table: {name: [str(field.field_type), field.required] for name, field in of_table.items()}
            for table, of_table in wanted.items()
        }
    )


def wanted_by(error: ChsinkError) -> dict[str, Wanted]:
    """By table: what tasks reported as missing."""
    found: dict[str, Wanted] = {}
    for one in error.parts or error.single or (error,):
        if one.name == preflight.MIRROR_COLUMNS_MISSING.name:
            for table, columns in json.loads(one.params["columns"]).items():
                mine = {name: _parsed(name, *said) for name, said in columns.items()}
                found[table] = joined([found.get(table, {}), mine])
    return found


def _parsed(name: str, kind: str, required: bool) -> NestedField:
    return NestedField.model_validate({"id": 0, "name": name, "type": kind, "required": required})
