"""The codec and the Arrow wire type of each ClickHouse type, and the insert settings that keep values unchanged.

======================================  ==================================================================
ClickHouse                              Arrow wire type
======================================  ==================================================================
Int8 … UInt64, Float32, Float64, Bool   the same
BFloat16                                float32
Int128, UInt128, Int256, UInt256        fixed_size_binary(16 or 32), little-endian two's complement
Decimal(P, S)                           decimal128(P, S) to 38 digits, decimal256(P, S) beyond
String, FixedString(N)                  binary
UUID, IPv6                              fixed_size_binary(16), network order
IPv4                                    uint32
Enum8, Enum16                           int8, int16
Date, Date32                            date32
DateTime, DateTime64(0 … 6, 9)          timestamp(s, ms, us or ns; UTC)
DateTime64(7), DateTime64(8)            decimal128(20, p), seconds
Time, Time64(p)                         int32 seconds, decimal128(18, p) seconds
JSON                                    string
Dynamic                                 dense_union of a string
Array, Tuple, Map, Variant              list, struct, map, dense_union
======================================  ==================================================================

Types that the server would have to parse from text have another wire type: the server parses an Arrow null as empty
text, so it would refuse a null that stands for a DEFAULT.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from chsink.decode.codec import Codec
from chsink.decode.containers import ArrayCodec, MapCodec, TupleCodec
from chsink.decode.documents import DynamicCodec, JsonCodec
from chsink.decode.numbers import BoolCodec, DecimalCodec, FloatCodec, IntCodec
from chsink.decode.texts import FixedStringCodec, StringCodec
from chsink.decode.times import DATE32_DAYS, DATE_DAYS, DateCodec, InstantCodec, TimeCodec
from chsink.decode.types import (
    ArrayType,
    DateTime64Type,
    DateTimeType,
    DecimalType,
    EnumType,
    FixedStringType,
    FloatType,
    IntType,
    MapType,
    NullableType,
    PlainType,
    Time64Type,
    TupleType,
    Type,
    VariantType,
    parse_type,
)
from chsink.decode.uuid_ip_enum import EnumCodec, IpCodec, UuidCodec
from chsink.decode.variant import VariantCodec
from chsink.errors import values

INSERT_SETTINGS: Final[dict[str, str]] = {
    # An Arrow null in a column that is not Nullable is the column's DEFAULT, evaluated by the server.
    "input_format_null_as_default": "1",
    "input_format_defaults_for_omitted_fields": "1",
    "input_format_force_null_for_omitted_fields": "0",
    # Names match exactly.
    "input_format_arrow_case_insensitive_column_matching": "0",
    # No value of this package overflows; if one did, the server would raise an error.
    "date_time_overflow_behavior": "throw",
    "type_json_skip_duplicated_paths": "0",
    "type_json_skip_invalid_typed_paths": "0",
}


def codec_for(text: str, timezone: str) -> Codec:
    """The codec of a ClickHouse type string; ``timezone`` is the server's, for types that name none.

    Raises ConfigError CHS-502 … CHS-506.
    """
    return _codec(parse_type(text), timezone)


def wire_type(text: str) -> pa.DataType:
    """The Arrow type in which a column is sent."""
    return codec_for(text, "UTC").wire


def _codec(kind: Type, timezone: str) -> Codec:  # noqa: PLR0912 - one case for each type
    match kind:
        case NullableType(item):
            codec = _codec(item, timezone)
            codec.nullable = codec.null_inside = True
        case IntType():
            codec = IntCodec(kind)
        case FloatType():
            codec = FloatCodec(kind)
        case DecimalType():
            codec = DecimalCodec(kind)
        case EnumType():
            codec = EnumCodec(kind)
        case FixedStringType():
            codec = FixedStringCodec(kind)
        case DateTimeType(zone):
            codec = InstantCodec(None, zone or timezone)
        case DateTime64Type(precision, zone):
            codec = InstantCodec(precision, zone or timezone)
        case Time64Type(precision):
            codec = TimeCodec(precision)
        case ArrayType(item):
            codec = ArrayCodec(_codec(item, timezone))
        case TupleType(_, items):
            codec = TupleCodec(kind, [_codec(item, timezone) for item in items])
        case MapType(key, value):
            codec = MapCodec(_codec(key, timezone), _codec(value, timezone))
        case VariantType(names, items):
            codec = _variant(names, [_codec(item, timezone) for item in items])
        case PlainType(name):
            codec = _plain(name)
    return codec


def _plain(name: str) -> Codec:
    match name:
        case "Bool":
            return BoolCodec()
        case "String":
            return StringCodec()
        case "UUID":
            return UuidCodec()
        case "IPv4" | "IPv6":
            return IpCodec(int(name[-1]))
        case "Date" | "Date32":
            return DateCodec(name, DATE_DAYS if name == "Date" else DATE32_DAYS)
        case "Time":
            return TimeCodec(None)
        case "JSON":
            return JsonCodec()
        case _:
            assert name == "Dynamic"
            return DynamicCodec()


def _variant(names: tuple[str, ...], items: list[Codec]) -> Codec:
    """A Variant whose alternatives the server can tell apart by their Arrow types."""
    wrong = [name for name, item in zip(names, items, strict=True) if not _self_describing(item.wire, name)]
    if wrong:
        raise values.VARIANT_ALTERNATIVE(alternatives=", ".join(wrong))
    return VariantCodec(names, items)


def _self_describing(wire: pa.DataType, name: str) -> bool:
    plain = name.startswith(("Int", "UInt", "Float", "Decimal", "Bool", "String"))
    return plain and not pa.types.is_fixed_size_binary(wire)
