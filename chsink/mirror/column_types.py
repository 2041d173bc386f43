"""The types of an Iceberg column for a field of records: :class:`chsink.formats.column_types.ColumnTypes`.

Rules:
- Only types that every engine reads: ``time``, ``uuid`` and ``fixed`` become text or bytes.
- One function for each kind of JSON value, so that a kind can get a type of its own.
- ``wider`` is commutative and associative: the columns of a table do not depend on the order of its records.
"""

from __future__ import annotations

import re
from functools import reduce
from typing import Final

import pyarrow as pa
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from chsink.decode.codec import Codec
from chsink.decode.connect import DAYS, DECIMAL, ConnectType
from chsink.decode.inferred import Kinds
from chsink.formats.column_types import INSTANT_DIGITS
from chsink.mirror.codecs import codec_of

_DIGITS: Final = 38
_OF_JSON: Final[dict[str, type[IcebergType]]] = {
    "bool": BooleanType,
    "int": LongType,
    "float": DoubleType,
    "date": DateType,
    "time 3": TimestamptzType,
    "time 6": TimestamptzType,
}
"""By kind of value; all others become their JSON text."""
_OF_CONNECT: Final[dict[str, type[IcebergType]]] = {
    "boolean": BooleanType,
    "int8": IntegerType,
    "int16": IntegerType,
    "int32": IntegerType,
    "int64": LongType,
    "float": DoubleType,  # the converter writes the shortest text, which is no exact float
    "float32": DoubleType,
    "float64": DoubleType,
    "double": DoubleType,
}
_OF_ARROW: Final = (
    (pa.types.is_boolean, BooleanType()),
    (pa.types.is_date, DateType()),
    (pa.types.is_time, StringType()),
    (pa.types.is_string, StringType()),
    (pa.types.is_binary, BinaryType()),
    (pa.types.is_fixed_size_binary, BinaryType()),
)
_OF_CLICKHOUSE: Final[dict[str, IcebergType]] = {
    "Bool": BooleanType(),
    **dict.fromkeys(("Int8", "Int16", "Int32", "UInt8", "UInt16"), IntegerType()),
    **dict.fromkeys(("Int64", "UInt32"), LongType()),
    "UInt64": DecimalType(20, 0),
    "Float32": FloatType(),
    "Float64": DoubleType(),
    **dict.fromkeys(("Date", "Date32"), DateType()),
}
_WRAPPED: Final = re.compile(r"(?:Nullable|LowCardinality)\((.*)\)")
_DECIMAL: Final = re.compile(r"Decimal\((\d+), (\d+)\)")
_MOMENT: Final = re.compile(r"DateTime(?:64\([0-6](?:, .*)?\)|\(.*\))?")


class IcebergTypes:
    """See the module."""

    def of_json(self, kinds: Kinds) -> IcebergType | None:
        """Of each kind of value its type, and the type that holds them all.  Arrays and objects become their text."""
        if not kinds.seen or (kinds.seen == {"array"} and _empty(kinds)):
            return None
        return reduce(self.wider, (self.of_kind(kind) for kind in sorted(kinds.seen)))

    def of_kind(self, kind: str) -> IcebergType:
        """For one kind of JSON value."""
        return _OF_JSON.get(kind, StringType)()

    def of_schema(self, kind: pa.DataType) -> IcebergType | None:
        """Timestamps in nanoseconds fit if they have whole microseconds."""
        if pa.types.is_integer(kind):
            return _of_integer(kind.bit_width, signed=pa.types.is_signed_integer(kind))
        if pa.types.is_floating(kind):
            return DoubleType() if kind.bit_width > 32 else FloatType()
        if pa.types.is_decimal(kind):
            return _decimal(kind.precision, kind.scale) if kind.precision > 0 else None
        if pa.types.is_timestamp(kind):
            return TimestamptzType() if kind.tz else TimestampType()
        if pa.types.is_union(kind):
            times = [each.type for each in kind if pa.types.is_timestamp(each.type) and each.type.tz]
            return TimestamptzType() if times and len(times) == kind.num_fields else None
        return next((found for is_one, found in _OF_ARROW if is_one(kind)), None)

    def of_connect(self, kind: ConnectType, *, times: bool) -> IcebergType:
        """See :class:`chsink.formats.column_types.ColumnTypes`."""
        if kind.name == DECIMAL:
            known = kind.precision is not None and kind.scale is not None and 0 <= kind.scale <= kind.precision
            return _decimal(kind.precision or 0, kind.scale or 0) if known else StringType()
        if times and kind.name in DAYS:
            return DateType()
        if times and kind.name in INSTANT_DIGITS:
            return TimestamptzType()
        return _OF_CONNECT.get(kind.type, StringType)()

    def of_clickhouse(self, declaration: str) -> IcebergType:
        """Text where there is no type with the same values."""
        kind = declaration.partition(" DEFAULT ")[0].strip()
        while found := _WRAPPED.fullmatch(kind):
            kind = found[1]
        if digits := _DECIMAL.fullmatch(kind):
            return _decimal(int(digits[1]), int(digits[2]))
        if _MOMENT.fullmatch(kind):
            return TimestamptzType()
        return _OF_CLICKHOUSE.get(kind, StringType())

    def wider(self, one: IcebergType, other: IcebergType) -> IcebergType:
        """Text where no other type holds the values of both."""
        if one == other:
            return one
        pair = {type(one), type(other)}
        if pair <= {IntegerType, LongType}:
            return LongType()
        if pair <= {IntegerType, LongType, FloatType, DoubleType}:
            return DoubleType()
        if pair <= {IntegerType, LongType, DecimalType}:
            (whole, scale), (more, finer) = _digits(one), _digits(other)
            return _decimal(max(whole, more) + max(scale, finer), max(scale, finer))
        return StringType()

    def of_schemas(self, one: IcebergType, other: IcebergType) -> IcebergType:
        """See :class:`chsink.formats.column_types.ColumnTypes`."""
        return self.wider(one, other)

    def codec(self, kind: IcebergType) -> Codec:
        """See :class:`chsink.formats.column_types.ColumnTypes`."""
        codec = codec_of(kind)
        assert codec is not None, kind
        return codec


ICEBERG: Final = IcebergTypes()


def _empty(kinds: Kinds) -> bool:
    return kinds.items is None or not kinds.items.seen


def _of_integer(bits: int, *, signed: bool) -> IcebergType:
    if bits < 32 or (bits == 32 and signed):
        return IntegerType()
    return LongType() if bits == 32 or signed else DecimalType(20, 0)


def _decimal(precision: int, scale: int) -> IcebergType:
    return DecimalType(precision, scale) if 0 < precision <= _DIGITS else StringType()


def _digits(kind: IcebergType) -> tuple[int, int]:
    """The digits before the point, and behind it."""
    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale, kind.scale
    return (10 if isinstance(kind, IntegerType) else 19), 0
