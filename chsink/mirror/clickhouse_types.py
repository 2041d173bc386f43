"""The Iceberg type of a ClickHouse column: one that holds the values that records give the column, as the records say
them; none where they would differ.

Rules:
- Text without an offset is UTC in Iceberg, so a time in another zone has no type.
- Types with one text for each value, and those that hold anything, become that text.
"""

from __future__ import annotations

from functools import partial

from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestamptzType,
)

from chsink.decode import types as clickhouse
from chsink.errors import ConfigError
from chsink.mirror.nested_types import list_of, map_of, struct_of

_MOST_DIGITS = 38
_MICROS = 6
_UTC = ("UTC", "Etc/UTC")
_PLAIN: dict[str, IcebergType] = {"Bool": BooleanType(), "Date": DateType(), "Date32": DateType()}
"""All others become text."""


def type_of_column(declared: str, timezone: str) -> IcebergType | None:
    """The type for a declared one; ``timezone`` is the server's.  None if there is no such type."""
    try:
        return _of(clickhouse.parse_type(declared), timezone)
    except ConfigError:  # a type that chsink cannot write, either
        return None


def _of(kind: clickhouse.Type, timezone: str) -> IcebergType | None:
    inner = partial(_of, timezone=timezone)
    match kind:
        case clickhouse.NullableType():
            return inner(kind.item)
        case clickhouse.ArrayType():
            item = inner(kind.item)
            return None if item is None else list_of(item)
        case clickhouse.MapType():
            key, value = inner(kind.key), inner(kind.value)
            return None if key is None or value is None or not key.is_primitive else map_of(key, value)
        case clickhouse.TupleType():
            fields = dict(zip(kind.names or (), map(inner, kind.items), strict=False))
            whole = len(fields) == len(kind.items) and None not in fields.values()
            struct = struct_of(fields) if whole else None
            return struct if isinstance(struct, StructType) else None
    return _of_flat(kind, timezone)


def _of_flat(kind: clickhouse.Type, timezone: str) -> IcebergType | None:
    match kind:
        case clickhouse.IntType():
            return _of_integer(kind)
        case clickhouse.FloatType():
            return {32: FloatType(), 64: DoubleType()}.get(kind.bits)
        case clickhouse.DecimalType():
            return DecimalType(kind.precision, kind.scale) if kind.precision <= _MOST_DIGITS else None
        case clickhouse.DateTimeType() | clickhouse.DateTime64Type():
            coarse = isinstance(kind, clickhouse.DateTimeType) or kind.precision <= _MICROS
            return TimestamptzType() if coarse and (kind.timezone or timezone) in _UTC else None
        case clickhouse.PlainType():
            return _PLAIN.get(kind.name, StringType())
    return StringType()


def _of_integer(kind: clickhouse.IntType) -> IcebergType | None:
    if kind.bits > 64:
        return None
    if kind.bits == 64 and not kind.signed:
        return DecimalType(20, 0)
    return LongType() if kind.bits == 64 or (kind.bits == 32 and not kind.signed) else IntegerType()
