"""Kafka's records to the columns of an Iceberg table: exact, or a bad value; never rounded, never wrapped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.types import (
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from chsink.decode.codec import Mask
from chsink.decode.fields import Field
from chsink.formats.format_reader import FormatReader
from chsink.formats.readers import reader_of
from chsink.formats.settings import JSON, FormatSettings, KeyColumns
from chsink.mirror.arrays import cast, narrow
from chsink.mirror.codecs import beyond_calendar, codec_of
from chsink.mirror.names import MISSING, MaskedFaults, RecordNames, asked, gathered
from chsink.mirror.partitions import Partitioning
from chsink.notation.metadata_columns import METADATA_COLUMNS
from chsink.ports import BadValue

_METADATA: dict[str, type[IcebergType]] = {
    "_kafka_topic": StringType,
    "_kafka_partition": IntegerType,
    "_kafka_offset": LongType,
    "_kafka_timestamp": TimestamptzType,
}
"""Columns that take Kafka's own fields, and their type."""


def unsupported(schema: Schema) -> tuple[str, ...]:
    """Why the table cannot be written: unsupported columns with the reason, or no column for the record's fields."""
    found = []
    for column in schema.fields:
        expected = _METADATA.get(column.name)
        if expected is not None and not isinstance(column.field_type, expected):
            found.append(f"{column.name}: {column.field_type}, must be {expected()}")
        elif expected is None and column.name in METADATA_COLUMNS:
            found.append(f"{column.name}: {column.field_type}")
        else:
            found += _refused(column, "")
    if all(column.name in METADATA_COLUMNS for column in schema.fields):
        found.append("no column for the fields of a record")
    return tuple(found)


def _refused(column: NestedField, place: str) -> Iterator[str]:
    """What cannot be written of a field at this place, each with its name and the reason."""
    name = place + column.name
    if "." in column.name:
        yield f"{name}: a dot in its name"
    if column.write_default is not None:
        yield f"{name}: a write-default"
    kind = column.field_type
    match kind:
        case StructType():
            inner = kind.fields
        case ListType():
            inner = (kind.element_field,)
        case MapType():
            inner = (kind.key_field, kind.value_field)
        case _:
            if codec_of(kind) is None:
                yield f"{name}: {kind}"
            return
    if not inner:
        yield f"{name}: a struct without fields"
    if isinstance(kind, MapType) and not kind.key_type.is_primitive:
        yield f"{name}: a map whose keys are not single values"
    for each in inner:
        yield from _refused(each, f"{name}.")


def _field(column: NestedField) -> Field:
    codec = codec_of(column.field_type, optional=column.optional)
    assert codec is not None, column
    return Field(column.name, codec, MISSING if column.required else None)


@dataclass(frozen=True, slots=True)
class TableRows:
    """The records that fit, as rows of the table's schema; ``rows`` holds their numbers, ``bad`` the other records."""

    batch: pa.Table
    rows: pa.Array
    bad: list[BadValue]


@dataclass(frozen=True)
class TableColumns:
    """Decodes records of Kafka's source to Arrow tables of an Iceberg schema.  Picklable.  A record that the partition
    spec refuses does not fit.  ``names``: by which records give the fields, where these are not the fields' own.
    """

    schema: Schema
    format: FormatSettings = JSON
    keys: KeyColumns | None = None
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC
    names: RecordNames = field(default_factory=dict)

    def __reduce__(self) -> tuple[object, ...]:
        return TableColumns, (self.schema, self.format, self.keys, self.spec, self.names)

    def of_no_table(self) -> TableColumns:
        """For a table that does not exist yet, and has no columns."""
        return replace(self, schema=Schema(), spec=UNPARTITIONED_PARTITION_SPEC, names={})

    @cached_property
    def arrow(self) -> pa.Schema:
        """The schema of the table's files: with field ids, by the names that files use."""
        return pa.schema(list(map(narrow, schema_to_pyarrow(sanitize_column_names(self.schema)))))

    @property
    def filled(self) -> dict[str, bool]:
        """The columns that a record fills, each with whether it is required."""
        return {f.name: f.required for f in self._filled.fields}

    @cached_property
    def _metadata(self) -> dict[str, str]:
        """Column name → the field of the Kafka record that it takes."""
        return {f.name: METADATA_COLUMNS[f.name].source for f in self.schema.fields if f.name in METADATA_COLUMNS}

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The stream's columns that :meth:`decode` reads."""
        return (*self._reader.record_fields, *self._metadata.values())

    @cached_property
    def _reader(self) -> FormatReader:
        return reader_of(self.format, list(map(_field, asked(self._filled, self.names).fields)), self.keys)

    @cached_property
    def _filled(self) -> StructType:
        """The columns that a record fills."""
        return StructType(*(f for f in self.schema.fields if f.name not in METADATA_COLUMNS))

    def decode(self, records: pa.RecordBatch) -> TableRows:
        """The rows that fit, and why the others do not."""
        found = self._reader.decode(records)
        kept = records if found.rows is None else records.take(found.rows)
        arrays, faults, where = gathered(found.batch.columns, self._filled, self.names)
        columns = {f.name: array for f, array in zip(self._filled.fields, arrays, strict=True)}
        columns |= {name: kept.column(source) for name, source in self._metadata.items()}
        arrays = [cast(columns[f.name], kind) for f, kind in zip(self.schema.fields, self.arrow, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=self.arrow)
        rows = pa.array(np.arange(records.num_rows)) if found.rows is None else found.rows
        decoded = self._timely(_but(TableRows(table, rows, found.bad), faults, where))
        for check in self._partitioning.checks:
            decoded = _without(decoded, check.refused(decoded.batch), check.column, check.reason)
        return decoded

    @cached_property
    def _partitioning(self) -> Partitioning:
        return Partitioning(self.spec, self.schema)

    def _timely(self, decoded: TableRows) -> TableRows:
        """Drop the records whose Kafka timestamp, which a producer may choose, is outside the years 1 to 9999."""
        name = "_kafka_timestamp"
        if name not in self._metadata:
            return decoded
        wrong = beyond_calendar(decoded.batch.column(name).combine_chunks())
        return _without(decoded, wrong, name, f"out of range for {TimestamptzType()}")


def _but(decoded: TableRows, faults: MaskedFaults, where: Sequence[str]) -> TableRows:
    """Without the rows of these faults; the first one says what is wrong with a row."""
    left: Mask = np.ones(decoded.batch.num_rows, np.bool_)
    for (mask, reason), column in zip(faults, where, strict=True):
        decoded = _without(decoded, mask[left], column, reason)
        left &= ~mask
    return decoded


def _without(decoded: TableRows, wrong: Mask, column: str, reason: str) -> TableRows:
    """The rows but those that are wrong, which are bad for this reason."""
    if not wrong.any():
        return decoded
    keep = pa.array(~wrong)
    late = decoded.rows.filter(pa.array(wrong)).to_pylist()
    bad = [*decoded.bad, *(BadValue(row, column, reason) for row in late)]
    return TableRows(decoded.batch.filter(keep), decoded.rows.filter(keep), sorted(bad, key=_row))


def _row(bad: BadValue) -> int:
    return bad.row
