"""Type strings as the server spells them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from chsink.decode import Column, wire_type
from chsink.decode.types import (
    ArrayType,
    DateTime64Type,
    DateTimeType,
    DecimalType,
    EnumType,
    FloatType,
    IntType,
    MapType,
    NullableType,
    PlainType,
    TupleType,
    parse_type,
)
from chsink.errors import ConfigError

STRING = PlainType("String")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Nullable(Decimal(10,2))", NullableType(DecimalType(10, 2))),
        ("Decimal64(4)", DecimalType(18, 4)),
        ("Decimal(5)", DecimalType(5, 0)),
        ("LowCardinality(Nullable(String))", NullableType(STRING)),
        ("SimpleAggregateFunction(groupArrayArray(3), Array(UInt8))", ArrayType(IntType(8, signed=False))),
        ("Map(LowCardinality(String), Array(UInt256))", MapType(STRING, ArrayType(IntType(256, signed=False)))),
        ("Tuple(a Int8, `b ``c` String)", TupleType(("a", "b `c"), (IntType(8, signed=True), STRING))),
        ("Tuple(Int8, String)", TupleType(None, (IntType(8, signed=True), STRING))),
        ("Nested(a String)", ArrayType(TupleType(("a",), (STRING,)))),
        ("Enum8('it\\'s' = -1, 'a''b' = 2, '\\x41' = 3)", EnumType(8, (("it's", -1), ("a'b", 2), ("A", 3)))),
        ("Enum('a', 'b')", EnumType(8, (("a", 1), ("b", 2)))),
        ("Enum('a' = 128)", EnumType(16, (("a", 128),))),
        ("DateTime", DateTimeType(None)),
        ("DateTime('Europe/Berlin')", DateTimeType("Europe/Berlin")),
        ("DateTime64(6, 'UTC')", DateTime64Type(6, "UTC")),
        ("JSON(max_dynamic_paths=8, `a.b` Int8, SKIP c, SKIP REGEXP 'x.*')", PlainType("JSON")),
        ("Dynamic(max_types=3)", PlainType("Dynamic")),
        ("Point", TupleType(None, (FloatType(64), FloatType(64)))),
    ],
)
def test_types_are_parsed(text: str, expected: object) -> None:
    assert parse_type(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Array(",
        "Array(Int8",
        "Array)",
        "Array()",
        "Int8)",
        "Decimal(x)",
        "Tuple(,)",
        "a b c",
        "Enum8('a",
        "FixedString",
    ],
)
def test_unreadable_types_are_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_type(text)
    assert caught.value.id in ("CHS-506", "CHS-502")


@pytest.mark.parametrize(
    "text", ["AggregateFunction(sum, UInt64)", "Nothing", "IntervalDay", "QBit(Float32, 4)", "Geometry"]
)
def test_types_that_no_value_can_be_written_to_are_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_type(f"Array({text})")
    assert caught.value.id == "CHS-502"


def test_wire_types() -> None:
    assert wire_type("LowCardinality(Nullable(String))") == pa.binary()
    assert wire_type("Array(DateTime64(1))") == pa.list_(pa.timestamp("ms", "UTC"))
    assert wire_type("Map(UUID, Int128)") == pa.map_(pa.binary(16), pa.binary(16))
    pair = wire_type("Tuple(Enum16('a' = 1), x Time64(3))")
    assert isinstance(pair, pa.StructType)
    assert pair.field("1").type == pa.int16()


@pytest.mark.parametrize(
    ("expression", "empty"),
    [
        ("[]", True),
        ("map()", True),
        ("'{}'", True),
        ("array()", True),
        ("emptyArrayUInt8()", True),
        ("CAST([], 'Array(Int8)')", True),
        ("[1]", False),
        ("now()", False),
        ("[] || x", False),
    ],
)
def test_empty_defaults_are_recognised(expression: str, empty: bool) -> None:
    assert Column("c", "Array(Int8)", "DEFAULT", expression).default_is_empty is empty
    assert not Column("c", "Array(Int8)", "MATERIALIZED", expression).default_is_empty
