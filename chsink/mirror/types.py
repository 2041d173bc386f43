"""Kafka JSON to the columns of an Iceberg table: exact, or a bad value.

Each flat Iceberg type is read by the decoder of the ClickHouse type that takes the same values; what that does not take
is a bad value, never rounded or wrapped.  Types without such a counterpart are refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from chsink.decode.columns import Column
from chsink.decode.conform import conform
from chsink.decode.json_decoder import JsonDecoder
from chsink.notation.metadata_columns import METADATA_COLUMNS
from chsink.ports import BadValue, Decoded

UTC = "UTC"
_PLAIN: dict[type[IcebergType], str] = {
    BooleanType: "Bool",
    IntegerType: "Int32",
    LongType: "Int64",
    FloatType: "Float32",
    DoubleType: "Float64",
    DateType: "Date32",
    TimestampType: "DateTime64(6, 'UTC')",
    TimestamptzType: "DateTime64(6, 'UTC')",
    StringType: "String",
    UUIDType: "UUID",
}
_METADATA: dict[str, type[IcebergType]] = {
    "_kafka_topic": StringType,
    "_kafka_partition": IntegerType,
    "_kafka_offset": LongType,
    "_kafka_timestamp": TimestamptzType,
}
"""Columns that take Kafka's own fields, and their type."""


def unsupported(schema: Schema) -> tuple[str, ...]:
    """The columns that cannot be written, each with the reason."""
    found = []
    for field in schema.fields:
        expected = _METADATA.get(field.name)
        if expected is not None and not isinstance(field.field_type, expected):
            found.append(f"{field.name}: {field.field_type}, must be {expected()}")
        elif expected is None and (field.name in METADATA_COLUMNS or _read_as(field.field_type) is None):
            found.append(f"{field.name}: {field.field_type}")
        elif "." in field.name:
            found.append(f"{field.name}: a dot in its name")
    return tuple(found)


def _read_as(kind: IcebergType) -> str | None:
    """The ClickHouse type with the same values."""
    if isinstance(kind, DecimalType):
        return f"Decimal({kind.precision}, {kind.scale})"
    return _PLAIN.get(type(kind))


def _column(field: NestedField) -> Column:
    name = _read_as(field.field_type)
    assert name is not None, field
    return Column(field.name, name if field.required else f"Nullable({name})")


@dataclass(frozen=True)
class TableColumns:
    """Records of Kafka's source to Arrow tables of an Iceberg schema.  Picklable."""

    schema: Schema

    @cached_property
    def arrow(self) -> Any:
        """The ``pa.Schema`` of the table's files, with field ids."""
        return schema_to_pyarrow(self.schema)

    @cached_property
    def _payload(self) -> tuple[Column, ...]:
        return tuple(_column(f) for f in self.schema.fields if f.name not in METADATA_COLUMNS)

    @cached_property
    def _metadata(self) -> tuple[Column, ...]:
        return tuple(_column(f) for f in self.schema.fields if f.name in METADATA_COLUMNS)

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The stream's columns that :meth:`decode` reads."""
        return ("value", *(METADATA_COLUMNS[c.name].source for c in self._metadata))

    @cached_property
    def _decoder(self) -> JsonDecoder:
        return JsonDecoder(self._payload, timezone=UTC)

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """The rows that fit, as a ``pa.Table`` of the table's schema, and why the others do not."""
        found = self._decoder.decode(records.column("value"))
        kept = records if found.rows is None else records.take(found.rows)
        columns = {name: found.batch.column(name) for name in found.batch.schema.names}
        if self._metadata:
            fields = {c.name: kept.column(METADATA_COLUMNS[c.name].source) for c in self._metadata}
            own = conform(pa.RecordBatch.from_pydict(fields), self._metadata, timezone=UTC)
            assert own.rows is None, "Kafka's own fields always fit"
            columns |= {name: own.batch.column(name) for name in own.batch.schema.names}
        rows = pa.array(range(records.num_rows), pa.int64()) if found.rows is None else found.rows
        return self._as_table(columns, rows, found.bad)

    def _as_table(self, columns: dict[str, Any], rows: Any, bad: Sequence[BadValue]) -> Decoded:
        """In the table's types.  Text that is not UTF-8 has no place in an Iceberg string."""
        misfit: dict[int, str] = {}
        for field in self.arrow:
            if pa.types.is_large_string(field.type) or pa.types.is_string(field.type):
                misfit |= dict.fromkeys(_not_utf8(columns[field.name]), field.name)
        if misfit:
            keep = pa.array([at not in misfit for at in range(len(rows))])
            reason = "text that is not UTF-8"
            bad = sorted([*bad, *(BadValue(rows[at].as_py(), c, reason) for at, c in misfit.items())], key=_row)
            columns, rows = {name: array.filter(keep) for name, array in columns.items()}, rows.filter(keep)
        arrays = [_cast(columns[field.name], field.type) for field in self.arrow]
        return Decoded(pa.Table.from_arrays(arrays, schema=self.arrow), rows, list(bad))


def _row(bad: BadValue) -> int:
    return bad.row


def _not_utf8(array: Any) -> list[int]:
    """Rows of a binary array that are not text."""
    try:
        pc.cast(array, pa.large_string())
    except pa.ArrowInvalid:
        return [at for at, value in enumerate(array.to_pylist()) if value is not None and not _is_text(value)]
    return []


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _cast(array: Any, kind: Any) -> Any:
    """Between types that hold the same values; anything else raises."""
    if pa.types.is_timestamp(kind) and kind.tz is None:
        array = pc.cast(array, pa.timestamp("us"))  # the time that UTC shows
    if isinstance(kind, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(kind, pc.cast(array, kind.storage_type))
    return pc.cast(array, kind)
