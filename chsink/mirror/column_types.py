"""The types of an Iceberg column for a field of records: :class:`chsink.formats.column_types.ColumnTypes`.

Rules:
- Only types that every engine reads: ``time``, ``uuid`` and ``fixed`` become text or bytes.
- Structs, lists and maps have no field ids yet (all are 0), and everything in them may be null.
- ``wider`` and ``of_schemas`` are commutative and associative, but for the order of fields: the columns of a table do
  not depend on the order of its records.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partialmethod, reduce
from typing import Any, Final

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
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from chsink.decode.codec import Codec
from chsink.decode.connect import DAYS, DECIMAL, VARIABLE, ConnectType
from chsink.decode.inferred import Kinds
from chsink.formats.column_types import INSTANT_DIGITS
from chsink.mirror.clickhouse_types import type_of_column
from chsink.mirror.codecs import codec_of
from chsink.mirror.nested_types import list_of, map_of, struct_of

_DIGITS: Final = 38
_OF_JSON: Final[dict[str, type[IcebergType]]] = {
    "bool": BooleanType,
    "int": LongType,
    "long": LongType,
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
_WRITTEN: Final = {BooleanType, IntegerType, LongType, FloatType, DoubleType, StringType}
"""The types of a union that becomes text: each value of them is written in one way."""


class IcebergTypes:
    """See the module."""

    @property
    def inside(self) -> Mapping[str, Any]:
        """See :class:`chsink.formats.column_types.ColumnTypes`."""
        return {}

    def kinds(self, *, times: bool) -> Kinds:
        """See :class:`chsink.formats.column_types.ColumnTypes`."""
        return Kinds(times, objects=True)

    def of_json(self, kinds: Kinds, field: str = "") -> IcebergType | None:
        """Of each kind of value its type, and the type that holds them all."""
        del field
        if {"long", "float"} <= kinds.seen:  # a double would round the long ones
            return StringType()
        found = [self.of_kind(kind, kinds) for kind in sorted(kinds.seen)]
        known = [kind for kind in found if kind is not None]
        if len(known) < len(found):  # empty arrays or objects: text, if there are other kinds
            return StringType() if known or len(found) > 1 else None
        return reduce(self.wider, known) if known else None

    def of_kind(self, kind: str, kinds: Kinds) -> IcebergType | None:
        """For one kind of JSON value; None for arrays and objects that are all empty, or hold nulls alone."""
        match kind:
            case "array":
                item = None if kinds.items is None else self.of_json(kinds.items)
                return None if item is None else list_of(item)
            case "object":
                return struct_of({name: self.of_json(member) for name, member in kinds.members.items()})
        return _OF_JSON.get(kind, StringType)()

    def of_schema(self, kind: pa.DataType) -> IcebergType | None:
        """Timestamps in nanoseconds fit if they have whole microseconds.  A field without a type is left out of its
        struct.
        """
        if pa.types.is_struct(kind):
            return struct_of({field.name: self.of_schema(field.type) for field in kind})
        if pa.types.is_list(kind):
            item = self.of_schema(kind.value_type)
            return None if item is None else list_of(item)
        if pa.types.is_map(kind):
            key, value = self.of_schema(kind.key_type), self.of_schema(kind.item_type)
            return None if key is None or value is None or not key.is_primitive else map_of(key, value)
        if pa.types.is_union(kind):
            return self._of_union([each.type for each in kind if not pa.types.is_null(each.type)])
        return _of_flat(kind)

    def _of_union(self, kinds: list[pa.DataType]) -> IcebergType | None:
        """The type that holds all; text only if each value has one text."""
        found = [_of_flat(kind) for kind in kinds]
        known = [kind for kind in found if kind is not None]
        if not known or len(known) < len(found):
            return None
        wide = reduce(self.of_schemas, known)
        return None if wide == StringType() and not {type(kind) for kind in known} <= _WRITTEN else wide

    def of_connect(self, kind: ConnectType, *, times: bool) -> IcebergType:
        """See :class:`chsink.formats.column_types.ColumnTypes`.  A map becomes its text: its keys may be anything."""
        if kind.name == DECIMAL:
            known = kind.precision is not None and kind.scale is not None and 0 <= kind.scale <= kind.precision
            return _decimal(kind.precision or 0, kind.scale or 0) if known else StringType()
        if times and kind.name in DAYS:
            return DateType()
        if times and kind.name in INSTANT_DIGITS:
            return TimestamptzType()
        if kind.type == "array" and kind.items is not None:
            return list_of(self.of_connect(kind.items, times=times))
        if kind.type == "struct" and kind.fields and kind.name != VARIABLE:
            fields = {field.field: self.of_connect(field, times=times) for field in kind.fields}
            return struct_of(fields) or StringType()
        return _OF_CONNECT.get(kind.type, StringType)()

    def of_clickhouse(self, declaration: str) -> IcebergType:
        """Text where there is no type with the same values."""
        kind = type_of_column(declaration.partition(" DEFAULT ")[0].strip(), "UTC")
        return StringType() if kind is None else kind

    def wider(self, one: IcebergType, other: IcebergType, *, exact: bool = False) -> IcebergType:
        """Text where no other type holds the values of both.  A double holds long ones, unless ``exact``."""
        both = self.of_schemas if exact else self.wider
        if one == other:
            return one
        match one, other:
            case StructType(), StructType():
                fields = {field.name: field for field in one.fields}
                for field in other.fields:
                    mine = fields.get(field.name, field)
                    kind, required = both(mine.field_type, field.field_type), mine.required and field.required
                    fields[field.name] = NestedField(0, field.name, kind, required=required)
                return StructType(*fields.values())
            case ListType(), ListType():
                item = both(one.element_type, other.element_type)
                return list_of(item, required=one.element_required and other.element_required)
            case MapType(), MapType():
                key, value = both(one.key_type, other.key_type), both(one.value_type, other.value_type)
                return map_of(key, value, required=one.value_required and other.value_required)
        pair = {type(one), type(other)}
        if pair <= {IntegerType, LongType}:
            return LongType()
        if pair <= {IntegerType, FloatType, DoubleType} or (not exact and pair <= {LongType, FloatType, DoubleType}):
            return DoubleType()
        if pair <= {IntegerType, LongType, DecimalType}:
            (whole, scale), (more, finer) = _digits(one), _digits(other)
            return _decimal(max(whole, more) + max(scale, finer), max(scale, finer))
        return StringType()

    of_schemas = partialmethod(wider, exact=True)
    """JSON's whole numbers may be short, so ``wider`` may take a double for them."""

    def codec(self, kind: IcebergType) -> Codec:
        """See :class:`chsink.formats.column_types.ColumnTypes`."""
        codec = codec_of(kind)
        assert codec is not None, kind
        return codec


ICEBERG: Final = IcebergTypes()


def _of_flat(kind: pa.DataType) -> IcebergType | None:
    if pa.types.is_integer(kind):
        return _of_integer(kind.bit_width, signed=pa.types.is_signed_integer(kind))
    if pa.types.is_floating(kind):
        return DoubleType() if kind.bit_width > 32 else FloatType()
    if pa.types.is_decimal(kind):
        return _decimal(kind.precision, kind.scale) if kind.precision > 0 else None
    if pa.types.is_timestamp(kind):
        return TimestamptzType() if kind.tz else TimestampType()
    return next((found for is_one, found in _OF_ARROW if is_one(kind)), None)


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
