"""Avro's binary encoding, read in columns: what a record becomes, against fastavro, and whatever is done to its bytes."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chsink.decode import Column, Decoded
from chsink.decode.avro.schema import SchemaError, parse_schema
from chsink.decode.avro.types import AvroMessage, AvroRecord
from chsink.decode.blocks import Collected
from chsink.decode.fields import fields_of
from chsink.decode.messages import MessageDecoder
from tests.support.examples import examples

UUID = "123e4567-e89b-12d3-a456-426614174000"
NOON = dt.datetime(2026, 1, 31, 12, 0, tzinfo=dt.UTC)


def record(kind: Any, name: str = "c") -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind}]}


def encoded(schema: Any, *values: Any) -> list[bytes]:
    parsed, out = fastavro.parse_schema(json.loads(json.dumps(schema))), []
    for value in values:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, value)
        out.append(buffer.getvalue())
    return out


def decode(schema: Any, values: list[bytes], *columns: Column) -> Decoded:
    decoder, run = MessageDecoder(fields_of(columns, "Asia/Tokyo")), Collected(len(values))
    kind = parse_schema(schema if isinstance(schema, str) else json.dumps(schema))
    assert isinstance(kind, AvroRecord)
    decoder.decode(run, AvroMessage(kind), pa.array(values, pa.binary()), np.arange(len(values)))
    decoded = decoder.finish(run)
    decoded.batch.validate(full=True)
    return decoded


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def zigzag(number: int) -> bytes:
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


DECIMAL = logical("bytes", "decimal", precision=20, scale=3)
FIXED_DECIMAL = {"name": "D", "size": 9, **logical("fixed", "decimal", precision=20, scale=3)}
WIDE_DECIMAL = logical("bytes", "decimal", precision=60, scale=0)
ENUM = {"type": "enum", "name": "E", "symbols": ["a", "b", "z"]}
POINT = {
    "type": "record",
    "name": "P",
    "fields": [{"name": "x", "type": "int"}, {"name": "s", "type": ["null", "string"]}],
}

CASES: list[tuple[Any, str, list[Any], list[Any], list[Any]]] = [
    ("int", "Int8", [1, -128], [1, -128], [128]),
    ("int", "UInt32", [0, 2**31 - 1], [0, 2**31 - 1], [-1]),
    ("long", "Int64", [-(2**63), 2**63 - 1, 0], [-(2**63), 2**63 - 1, 0], []),
    ("long", "UInt64", [2**63 - 1], [2**63 - 1], [-1]),
    ("long", "Int128", [-1, 2**62], [(-1).to_bytes(16, "little", signed=True), (2**62).to_bytes(16, "little")], []),
    ("long", "String", [-7], [b"-7"], []),
    ("long", "DateTime", [1_700_000_000], [dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)], [-1]),
    (
        "long",
        "DateTime64(3)",
        [1_700_000_000_000],
        [dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)],
        [1_700_000_000],
    ),
    ("long", "Date", [], [], [20_000]),
    ("long", "Decimal(4, 2)", [99], [Decimal(99)], [100]),
    ("float", "Float32", [1.5, math.inf], [1.5, math.inf], []),
    ("float", "Float64", [0.5], [0.5], []),
    ("double", "Float64", [0.1, -math.inf], [0.1, -math.inf], []),
    ("string", "Float64", ["1.5", "Infinity", "-Infinity", "inf"], [1.5, math.inf, -math.inf, math.inf], ["+inf"]),
    ("double", "Float32", [0.5], [0.5], [1e300]),
    ("double", "Int32", [4.0], [4], [4.5, math.nan]),
    ("double", "Decimal(4, 2)", [99.25], [Decimal("99.25")], [0.125]),
    ("boolean", "Bool", [True, False], [True, False], []),
    ("boolean", "String", [True], [b"true"], []),
    ("boolean", "UInt8", [], [], [True]),
    ("string", "String", ["é", ""], ["é".encode(), b""], []),
    ("string", "UInt256", [str(2**256 - 1)], [(2**256 - 1).to_bytes(32, "little")], ["-1"]),
    ("string", "FixedString(2)", ["ab"], [b"ab"], ["abc"]),
    ("string", "IPv4", ["1.2.3.4"], [0x01020304], ["1.2.3"]),
    ("string", "JSON", ['{"a":1}'], ['{"a":1}'], ["[1]", "x"]),
    ("string", "DateTime64(3)", ["2026-01-31T12:00:00Z"], [NOON], ["noon"]),
    ("bytes", "String", [b"\xff\0"], [b"\xff\0"], []),
    ("bytes", "JSON", [], [], [b"\xff"]),
    ({"type": "fixed", "name": "F", "size": 3}, "FixedString(3)", [b"a\0c"], [b"a\0c"], []),
    ({"type": "fixed", "name": "F", "size": 16}, "UUID", [bytes(16)], [bytes(16)], []),
    (ENUM, "Enum8('a' = 1, 'b' = 2)", ["a", "b"], [1, 2], ["z"]),
    (ENUM, "LowCardinality(String)", ["z"], [b"z"], []),
    (DECIMAL, "Decimal(20, 3)", [Decimal("-1.234"), Decimal(10**17 - 1)], [Decimal("-1.234"), Decimal(10**17 - 1)], []),
    (DECIMAL, "Decimal(4, 2)", [Decimal("9.990")], [Decimal("9.99")], [Decimal("9.991"), Decimal(100)]),
    (DECIMAL, "Int64", [Decimal(5)], [5], [Decimal("5.5")]),
    (DECIMAL, "Float64", [Decimal("0.125")], [0.125], []),
    (FIXED_DECIMAL, "Decimal(38, 3)", [Decimal("-9.999"), Decimal(0)], [Decimal("-9.999"), Decimal(0)], []),
    (WIDE_DECIMAL, "Decimal(76, 0)", [Decimal(10**59), Decimal(-1)], [Decimal(10**59), Decimal(-1)], []),
    (WIDE_DECIMAL, "UInt256", [Decimal(10**59)], [(10**59).to_bytes(32, "little")], [Decimal(-1)]),
    (logical("int", "date"), "Date32", [dt.date(1900, 1, 1)], [dt.date(1900, 1, 1)], [dt.date(1899, 12, 31)]),
    (logical("int", "date"), "String", [], [], []),
    (logical("int", "time-millis"), "Time64(3)", [dt.time(1, 2, 3, 4000)], [Decimal("3723.004")], []),
    (logical("int", "time-millis"), "Time", [dt.time(1, 2, 3)], [3723], [dt.time(1, 2, 3, 4000)]),
    (logical("long", "time-micros"), "Time64(6)", [dt.time(23, 59, 59, 999_999)], [Decimal("86399.999999")], []),
    (logical("long", "time-micros"), "Time64(9)", [dt.time(0, 0, 0, 1)], [Decimal("0.000001")], []),
    (logical("long", "timestamp-millis"), "DateTime64(3)", [NOON], [NOON], []),
    (logical("long", "timestamp-millis"), "DateTime", [NOON], [NOON], [NOON.replace(microsecond=1000)]),
    (logical("long", "timestamp-micros"), "DateTime64(3)", [NOON], [NOON], [NOON.replace(microsecond=1)]),
    (logical("long", "timestamp-micros"), "String", [NOON], [b"2026-01-31T12:00:00+00:00"], []),
    (logical("long", "timestamp-micros"), "Int64", [], [], [NOON]),
    (
        logical("long", "local-timestamp-millis"),
        "DateTime64(3)",
        [NOON.replace(tzinfo=None)],
        [NOON - dt.timedelta(hours=9)],
        [],
    ),
    (logical("long", "local-timestamp-micros"), "DateTime('UTC')", [NOON.replace(tzinfo=None)], [NOON], []),
    (logical("string", "uuid"), "UUID", [UUID], [bytes.fromhex(UUID.replace("-", ""))], []),
    (["null", "int"], "Nullable(Int32)", [None, 5], [None, 5], []),
    (["int", "null"], "Int32", [5], [5], [None]),
    (["null", "int", "string"], "Nullable(String)", [None, 5, "x"], [None, b"5", b"x"], []),
    (["int", "string"], "Int8", [5, "6"], [5, 6], [300, "x"]),
    (
        ["null", "boolean", "double", "string"],
        "Variant(Bool, Float64, String)",
        [True, 1.5, "s", None],
        [True, 1.5, b"s", None],
        [],
    ),
    ({"type": "array", "items": "long"}, "Array(UInt8)", [[], [1, 2, 3], [7]], [[], [1, 2, 3], [7]], [[300], [1, -1]]),
    ({"type": "array", "items": ["null", "string"]}, "Array(Nullable(String))", [["a", None]], [[b"a", None]], []),
    ({"type": "array", "items": ["null", "int"]}, "Array(Int8)", [[1]], [[1]], [[None]]),
    (
        {"type": "array", "items": ["int", "string"]},
        "Array(String)",
        [[1, "b"], [], ["c", 4]],
        [[b"1", b"b"], [], [b"c", b"4"]],
        [],
    ),
    (
        {"type": "array", "items": {"type": "array", "items": "int"}},
        "Array(Array(Int8))",
        [[[1], [], [2, 3]], []],
        [[[1], [], [2, 3]], []],
        [[[300]]],
    ),
    (
        {"type": "map", "values": "int"},
        "Map(String, Int8)",
        [{"a": 1, "b": 2}, {}],
        [[(b"a", 1), (b"b", 2)], []],
        [{"a": 300}],
    ),
    (
        {"type": "map", "values": {"type": "array", "items": "int"}},
        "Map(String, Array(Int8))",
        [{"a": [1, 2]}],
        [[(b"a", [1, 2])]],
        [],
    ),
    ({"type": "map", "values": ["int", "string"]}, "JSON", [{"a": 1, "b": "x"}], ['{"a":1,"b":"x"}'], []),
    (POINT, "Tuple(x Int8, s Nullable(String))", [{"x": 1, "s": None}], [{"x": 1, "s": None}], [{"x": 300, "s": "y"}]),
    (POINT, "JSON", [{"x": 1, "s": "é\n"}], ['{"x":1,"s":"é\\n"}'], []),
    (POINT, "String", [], [], [{"x": 1, "s": None}]),
    (["null", POINT], "Tuple(x Int8, s Nullable(String))", [{"x": 1, "s": None}], [{"x": 1, "s": None}], [None]),
    (
        {"type": "array", "items": POINT},
        "Array(Tuple(x Int8))",
        [[{"x": 1, "s": "a"}, {"x": 2, "s": None}]],
        [[{"x": 1}, {"x": 2}]],
        [],
    ),
    ("null", "Nullable(Int8)", [None], [None], []),
]


@pytest.mark.parametrize(("kind", "column", "good", "wire", "bad"), CASES)
@pytest.mark.parametrize("times", [1, 40])
def test_values_are_exact_or_refused(
    kind: Any, column: str, good: list[Any], wire: list[Any], bad: list[Any], times: int
) -> None:
    schema = record(kind)
    values = encoded(schema, *({"c": value} for value in good + bad)) * times
    decoded = decode(schema, values, Column("c", column))
    assert decoded.batch.column(0).to_pylist() == wire * times
    size = len(good) + len(bad)
    assert [one.row for one in decoded.bad] == [row for row in range(size * times) if row % size >= len(good)]
    assert all(one.column == "c" and one.reason for one in decoded.bad)


@pytest.mark.parametrize("unit", ["millis", "micros", "nanos"])
@pytest.mark.parametrize("local", ["", "local-"])
def test_timestamps_of_every_unit(unit: str, local: str) -> None:
    digits = {"millis": 3, "micros": 6, "nanos": 9}[unit]
    schema, ticks = record(logical("long", f"{local}timestamp-{unit}")), 1_700_000_000 * 10**digits + 1
    decoded = decode(
        schema, [zigzag(ticks), zigzag(-1), zigzag(2**63 - 1)], Column("c", f"DateTime64({digits}, 'UTC')")
    )
    fits = [ticks, -1] if unit != "nanos" else [ticks, -1, 2**63 - 1]
    assert decoded.batch.column(0).cast(pa.int64()).to_pylist() == fits
    assert [one.row for one in decoded.bad] == ([2] if unit != "nanos" else [])


@pytest.mark.parametrize(
    ("kind", "raw", "reason"),
    [
        ("string", b"\x08ab", "the record ends inside a value"),
        ("string", b"\x03ab", "the record ends inside a value"),
        ("string", b"\x04\xff\xfe", "a string that is not valid UTF-8"),
        ("long", b"", "the record ends inside a value"),
        ("long", b"\x80", "the record ends inside a value"),
        ("long", b"\xff" * 9 + b"\x02", "an integer of more than 64 bits"),
        ("long", b"\xff" * 11, "an integer of more than 64 bits"),
        ("int", zigzag(2**31), "an int of more than 32 bits"),
        ("int", b"\x02\x02", "bytes are left after the last field"),
        ("double", b"1234567", "the record ends inside a value"),
        ("boolean", b"\x02", "a boolean that is neither 0 nor 1"),
        (ENUM, b"\x06", "an enum's number without a symbol"),
        (["null", "int"], b"\x04", "a union's number without a branch"),
        (["null", "int", "long"], b"\x01", "a union's number without a branch"),
        (DECIMAL, b"\x00", "a decimal without digits"),
        (DECIMAL, zigzag(17) + b"\x7f" * 17, "a decimal with more digits than its schema allows"),
        (DECIMAL, zigzag(9) + b"\x7f" * 9, "a decimal with more digits than its schema allows"),
        (logical("int", "time-millis"), zigzag(86_400_000), "a time of day that does not exist"),
        (logical("long", "time-micros"), zigzag(-1), "a time of day that does not exist"),
        (
            {"type": "array", "items": "null"},
            zigzag(2**40),
            "an array or map with more items than the record has bytes",
        ),
        (
            {"type": "array", "items": "int"},
            zigzag(-(2**63)) + b"\0\0",
            "an array or map with more items than the record has bytes",
        ),
        ({"type": "array", "items": "int"}, b"\x04\x02\x02", "the record ends inside a value"),
        ({"type": "map", "values": "int"}, b"\x02\x02k", "the record ends inside a value"),
    ],
)
def test_a_damaged_record_is_bad_by_itself(kind: Any, raw: bytes, reason: str) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}, {"name": "c", "type": kind}]}
    sample = {"string": "s", "double": 1.0, "boolean": True, "int": 1, "long": 1}
    value = (
        sample.get(kind)
        if isinstance(kind, str)
        else {"array": [], "map": {}}.get(kind["type"])
        if isinstance(kind, dict)
        else 1
    )
    if isinstance(kind, dict) and value is None:
        value = {"enum": "a", "bytes": Decimal(1), "int": dt.time(1), "long": dt.time(1)}[kind["type"]]
    good = encoded(schema, *({"id": at, "c": value} for at in range(200)))
    damaged = [*good[:77], zigzag(77) + raw, *good[78:]]
    for column in (Column("c", "Nullable(String)", "", ""), Column("id", "Int64")):
        columns = (
            [Column("id", "Int64")] if column.name == "id" else [Column("id", "Int64"), Column("c", COLUMN_OF(kind))]
        )
        decoded = decode(schema, damaged, *columns)
        assert decoded.batch.column(0).to_pylist() == [at for at in range(200) if at != 77 or len(decoded.bad) == 0]
        if column.name == "c":
            assert [(one.row, one.reason) for one in decoded.bad] == [(77, reason)]


def COLUMN_OF(kind: Any) -> str:  # noqa: N802
    plain = {"string": "String", "long": "Int64", "int": "Int64", "double": "Float64", "boolean": "Bool"}
    if isinstance(kind, str):
        return plain[kind]
    if isinstance(kind, list):
        return "Nullable(Int64)"
    if kind.get("logicalType"):
        return "Time64(6)" if "time" in kind["logicalType"] else "Decimal(38, 3)"
    return {"enum": "String", "array": "Array(Nullable(Int64))", "map": "Map(String, Int64)"}[kind["type"]]


def test_blocks_of_arrays_may_say_their_sizes() -> None:
    schema = record({"type": "array", "items": "int"})
    raw = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00"
    assert decode(schema, [raw, b"\0"], Column("c", "Array(Int8)")).batch.column(0).to_pylist() == [[1, 2, 3], []]


def test_a_type_that_contains_itself_is_skipped_and_never_held() -> None:
    node = {
        "type": "record",
        "name": "N",
        "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "N"]}],
    }
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": node}, {"name": "id", "type": "int"}]}
    chain: Any = None
    for _ in range(60):
        chain = {"v": 1, "next": chain}
    values = encoded(schema, {"n": {"v": 1, "next": None}, "id": 1}, {"n": chain, "id": 2})
    assert decode(schema, values, Column("id", "Int32")).batch.column(0).to_pylist() == [1, 2]
    held = decode(schema, values, Column("id", "Int32"), Column("n", "Tuple(v Int32)"))
    assert held.batch.to_pylist() == [{"id": 1, "n": {"v": 1}}]
    assert held.bad[0].reason == "a value of a recursive type, which no column holds"
    deep = zigzag(1) + (b"\x02" + zigzag(1)) * 500 + b"\0" + zigzag(3)
    assert decode(schema, [deep], Column("id", "Int32")).bad[0].reason == "nested deeper than 100 levels"
    endless = {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}
    assert decode(endless, [b"\0"], Column("id", "Nullable(Int8)")).bad[0].reason == "nested deeper than 100 levels"


def test_nested_columns_take_records_of_arrays_and_arrays_of_records() -> None:
    columns = [Column("n.x", "Array(Int8)"), Column("n.s", "Array(Nullable(String))")]
    objects = record({"type": "array", "items": ["null", POINT]}, "n")
    values = encoded(objects, {"n": [{"x": 1, "s": "a"}, {"x": 2, "s": None}]}, {"n": []}, {"n": [None]})
    decoded = decode(objects, values, *columns)
    assert decoded.batch.to_pylist() == [{"n.x": [1, 2], "n.s": [b"a", None]}, {"n.x": [], "n.s": []}]
    assert [(one.row, one.reason) for one in decoded.bad] == [
        (2, "the Nested column n holds values that are not objects")
    ]
    arrays = {
        "type": "record",
        "name": "A",
        "fields": [{"name": n, "type": {"type": "array", "items": k}} for n, k in (("x", "int"), ("s", "string"))],
    }
    values = encoded(record(arrays, "n"), {"n": {"x": [1], "s": ["a"]}}, {"n": {"x": [1], "s": []}})
    decoded = decode(record(arrays, "n"), values, *columns)
    assert decoded.batch.to_pylist() == [{"n.x": [1], "n.s": [b"a"]}]
    assert [(one.row, one.column) for one in decoded.bad] == [(1, "n")]


def test_names_are_found_in_their_namespaces_and_in_references() -> None:
    address = '{"type":"record","name":"Address","namespace":"a.b","fields":[{"name":"city","type":"string"}]}'
    order = {
        "type": "record",
        "name": "a.b.Order",
        "fields": [{"name": n, "type": t} for n, t in (("x", "Address"), ("y", "a.b.Address"))],
    }
    kind = parse_schema(json.dumps(order), [address])
    assert isinstance(kind, AvroRecord)
    assert str(kind.arrow) == "struct<x: struct<city: string>, y: struct<city: string>>"
    for text in (
        json.dumps(order),
        "{",
        '"nonsense"',
        '{"type":"record","name":"R","fields":[{"name":"a"}]}',
        "7",
        '{"type":"fixed","name":"F","size":0}',
    ):
        with pytest.raises(SchemaError):
            parse_schema(text)


# --- any schema, any bytes ---------------------------------------------------------------------------------------------

SCALARS = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
KINDS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda values: {"type": "map", "values": values}, inner),
        st.lists(SCALARS, min_size=1, max_size=4, unique=True),
        st.builds(lambda one: ["null", one], inner.filter(lambda k: k != "null" and not isinstance(k, list))),
    ),
    max_leaves=4,
)
VALUES: dict[str, Any] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": st.text(max_size=20),
}


def values_of(kind: Any) -> Any:
    if isinstance(kind, str):
        return VALUES[kind]
    if isinstance(kind, list):  # a pair of branch and value keeps fastavro from choosing another branch
        named = [one if isinstance(one, str) else one["type"] for one in kind]
        return st.one_of([values_of(one).map(lambda v, n=name: (n, v)) for name, one in zip(named, kind, strict=True)])
    if kind["type"] == "array":
        return st.lists(values_of(kind["items"]), max_size=4)
    return st.dictionaries(st.text(max_size=4), values_of(kind["values"]), max_size=3)


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return plain(value[1])
    if isinstance(value, list):
        return [plain(one) for one in value]
    return {name: plain(one) for name, one in value.items()} if isinstance(value, dict) else value


def pythonic(kind: Any, value: Any) -> Any:
    """An Arrow value as fastavro gives it."""
    if isinstance(kind, dict) and value is not None:
        if kind["type"] == "map":
            return {name: pythonic(kind["values"], one) for name, one in value}
        return [pythonic(kind["items"], one) for one in value]
    if isinstance(kind, list) and isinstance(value, list):
        return pythonic(next(one for one in kind if isinstance(one, dict)), value)
    return value


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_any_valid_record_is_what_fastavro_reads(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(KINDS, min_size=1, max_size=4))
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": f"f{at}", "type": kind} for at, kind in enumerate(kinds)],
    }
    rows = data.draw(st.lists(st.tuples(*(values_of(kind) for kind in kinds)), min_size=1, max_size=6))
    raw = encoded(schema, *({f"f{at}": value for at, value in enumerate(row)} for row in rows))
    from chsink.decode.binary import Cursors

    kind = parse_schema(json.dumps(schema))
    assert isinstance(kind, AvroRecord)
    c = Cursors(pa.array(raw, pa.binary()))
    found = AvroMessage(kind).columns(c, {f"f{at}" for at in range(len(kinds))})
    assert not c.faults.any
    for at, one in enumerate(kinds):
        found[f"f{at}"].validate(full=True)
        assert [pythonic(one, value) for value in found[f"f{at}"].to_pylist()] == [plain(row[at]) for row in rows]


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_a_record_is_the_same_alone_and_among_others_whatever_its_bytes_are(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(KINDS, min_size=1, max_size=3))
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": f"f{at}", "type": kind} for at, kind in enumerate(kinds)],
    }
    rows = data.draw(st.lists(st.tuples(*(values_of(kind) for kind in kinds)), min_size=1, max_size=3))
    raw = encoded(schema, *({f"f{at}": value for at, value in enumerate(row)} for row in rows))
    for at in range(len(raw)):
        cut = data.draw(st.integers(0, len(raw[at])))
        raw.append(
            raw[at][:cut] + data.draw(st.binary(max_size=3)) + raw[at][data.draw(st.integers(cut, len(raw[at]))) :]
        )
    columns = [Column(f"f{at}", "Dynamic") for at in range(len(kinds))]
    together = decode(schema, raw, *columns)
    kept = [] if together.rows is None else together.rows.to_pylist()
    kept = list(range(len(raw))) if together.rows is None else kept
    for at, one in enumerate(raw):
        alone = decode(schema, [one], *columns)
        if at in kept:
            assert alone.batch.to_pylist() == [together.batch.slice(kept.index(at), 1).to_pylist()[0]]
        else:
            assert [(b.column, b.reason) for b in alone.bad] == [
                (b.column, b.reason) for b in together.bad if b.row == at
            ]
