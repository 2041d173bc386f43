"""Protobuf's binary encoding, read in columns: what a record becomes, against Protobuf's own library."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, message_factory, text_format
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from chsink.decode import Column, Decoded
from chsink.decode.blocks import Collected
from chsink.decode.fields import fields_of
from chsink.decode.messages import MessageDecoder
from chsink.decode.protobuf.descriptors import DescriptorError, file_of, message_at, message_in_set
from tests.support.examples import examples

FILE = """
name: "all.proto" package: "t" syntax: "proto3"
dependency: "google/protobuf/timestamp.proto" dependency: "google/protobuf/duration.proto"
dependency: "google/protobuf/wrappers.proto" dependency: "google/protobuf/struct.proto"
enum_type { name: "Color" value { name: "NONE" number: 0 } value { name: "RED" number: 1 } value { name: "COLD" number: -5 } }
message_type { name: "Point"
  field { name: "x" number: 1 type: TYPE_SINT32 label: LABEL_OPTIONAL }
  field { name: "s" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
}
message_type { name: "Node"
  field { name: "v" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "next" number: 2 type: TYPE_MESSAGE type_name: ".t.Node" label: LABEL_OPTIONAL }
}
message_type { name: "All"
  field { name: "i32" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "i64" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "u32" number: 3 type: TYPE_UINT32 label: LABEL_OPTIONAL }
  field { name: "u64" number: 4 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  field { name: "s32" number: 5 type: TYPE_SINT32 label: LABEL_OPTIONAL }
  field { name: "s64" number: 6 type: TYPE_SINT64 label: LABEL_OPTIONAL }
  field { name: "f32" number: 7 type: TYPE_FIXED32 label: LABEL_OPTIONAL }
  field { name: "f64" number: 8 type: TYPE_FIXED64 label: LABEL_OPTIONAL }
  field { name: "sf32" number: 9 type: TYPE_SFIXED32 label: LABEL_OPTIONAL }
  field { name: "sf64" number: 10 type: TYPE_SFIXED64 label: LABEL_OPTIONAL }
  field { name: "fl" number: 11 type: TYPE_FLOAT label: LABEL_OPTIONAL }
  field { name: "db" number: 12 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "b" number: 13 type: TYPE_BOOL label: LABEL_OPTIONAL }
  field { name: "st" number: 14 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "by" number: 15 type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { name: "color" number: 16 type: TYPE_ENUM type_name: ".t.Color" label: LABEL_OPTIONAL }
  field { name: "point" number: 17 type: TYPE_MESSAGE type_name: ".t.Point" label: LABEL_OPTIONAL }
  field { name: "opt" number: 18 type: TYPE_INT32 label: LABEL_OPTIONAL proto3_optional: true oneof_index: 1 }
  field { name: "one_i" number: 19 type: TYPE_INT32 label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "one_s" number: 20 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "ri" number: 21 type: TYPE_INT64 label: LABEL_REPEATED }
  field { name: "rs" number: 22 type: TYPE_STRING label: LABEL_REPEATED }
  field { name: "rp" number: 23 type: TYPE_MESSAGE type_name: ".t.Point" label: LABEL_REPEATED }
  field { name: "rf" number: 24 type: TYPE_FLOAT label: LABEL_REPEATED }
  field { name: "rc" number: 25 type: TYPE_ENUM type_name: ".t.Color" label: LABEL_REPEATED }
  field { name: "m" number: 26 type: TYPE_MESSAGE type_name: ".t.All.MEntry" label: LABEL_REPEATED }
  field { name: "ts" number: 27 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_OPTIONAL }
  field { name: "du" number: 28 type: TYPE_MESSAGE type_name: ".google.protobuf.Duration" label: LABEL_OPTIONAL }
  field { name: "w" number: 29 type: TYPE_MESSAGE type_name: ".google.protobuf.Int64Value" label: LABEL_OPTIONAL }
  field { name: "node" number: 30 type: TYPE_MESSAGE type_name: ".t.Node" label: LABEL_OPTIONAL }
  field { name: "any" number: 31 type: TYPE_MESSAGE type_name: ".google.protobuf.Struct" label: LABEL_OPTIONAL }
  field { name: "mp" number: 32 type: TYPE_MESSAGE type_name: ".t.All.MpEntry" label: LABEL_REPEATED }
  oneof_decl { name: "one" } oneof_decl { name: "_opt" }
  nested_type { name: "MEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL } }
  nested_type { name: "MpEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".t.Point" label: LABEL_OPTIONAL } }
}
"""
OLD = """
name: "old.proto" package: "o" syntax: "proto2"
enum_type { name: "Closed" value { name: "A" number: 3 } }
message_type { name: "Old"
  field { name: "id" number: 1 type: TYPE_INT32 label: LABEL_REQUIRED }
  field { name: "c" number: 2 type: TYPE_ENUM type_name: ".o.Closed" label: LABEL_OPTIONAL }
  field { name: "n" number: 3 type: TYPE_INT32 label: LABEL_OPTIONAL default_value: "5" }
}
"""


def linked(text: str) -> Any:
    return file_of(text_format.Parse(text, descriptor_pb2.FileDescriptorProto()).SerializeToString(), [])


ALL_FILE, OLD_FILE = linked(FILE), linked(OLD)
All = message_factory.GetMessageClass(ALL_FILE.message_types_by_name["All"])
Old = message_factory.GetMessageClass(OLD_FILE.message_types_by_name["Old"])


def decode(values: list[bytes], *columns: Column, message: Any = None) -> Decoded:
    decoder, run = MessageDecoder(fields_of(columns, "UTC")), Collected(len(values))
    decoder.decode(run, message or message_at(ALL_FILE, [2]), pa.array(values, pa.binary()), np.arange(len(values)))
    decoded = decoder.finish(run)
    decoded.batch.validate(full=True)
    return decoded


def zoned(*given: int, nanos: int = 0) -> Any:
    return {"ts": {"seconds": given[0], "nanos": nanos}}


NOON = dt.datetime(2026, 1, 31, 12, 0, tzinfo=dt.UTC)
CASES: list[tuple[str, str, list[Any], list[Any], list[Any]]] = [
    ("i32", "Int32", [0, -1, 2**31 - 1, -(2**31)], [0, -1, 2**31 - 1, -(2**31)], []),
    ("i32", "Int8", [127], [127], [128, -1000]),
    ("i64", "Int64", [-(2**63), 2**63 - 1], [-(2**63), 2**63 - 1], []),
    ("u32", "UInt32", [2**32 - 1], [2**32 - 1], []),
    ("u64", "UInt64", [2**64 - 1, 2**63], [2**64 - 1, 2**63], []),
    ("u64", "Int64", [2**63 - 1], [2**63 - 1], [2**63, 2**64 - 1]),
    ("u64", "UInt128", [2**64 - 1], [(2**64 - 1).to_bytes(16, "little")], []),
    ("u64", "Decimal(20, 0)", [2**64 - 1], [Decimal(2**64 - 1)], []),
    ("s32", "Int32", [-(2**31), 2**31 - 1], [-(2**31), 2**31 - 1], []),
    ("s64", "Int64", [-(2**63), 2**63 - 1], [-(2**63), 2**63 - 1], []),
    ("f32", "UInt32", [2**32 - 1], [2**32 - 1], []),
    ("f64", "UInt64", [2**64 - 1], [2**64 - 1], []),
    ("sf32", "Int32", [-(2**31)], [-(2**31)], []),
    ("sf64", "Int64", [-(2**63)], [-(2**63)], []),
    ("fl", "Float32", [1.5, math.inf, 0.0], [1.5, math.inf, 0.0], []),
    ("db", "Float64", [0.1, -math.inf], [0.1, -math.inf], []),
    ("b", "Bool", [True, False], [True, False], []),
    ("st", "String", ["é", ""], ["é".encode(), b""], []),
    ("st", "Decimal(9, 2)", ["1.50"], [Decimal("1.5")], ["1.555", "x", ""]),
    ("by", "String", [b"\xff\0"], [b"\xff\0"], []),
    ("color", "Enum8('RED' = 7, 'NONE' = 0)", [1, 0], [7, 0], [-5, 99]),
    ("color", "String", [-5, 99, -7], [b"COLD", b"99", b"-7"], []),
    (
        "point",
        "Tuple(x Int8, s String)",
        [{"x": -3, "s": "a"}, {}],
        [{"x": -3, "s": b"a"}, {"x": 0, "s": b""}],
        [{"x": 300}],
    ),
    ("point", "JSON", [{"x": 1}], ['{"x":1,"s":""}'], []),
    ("opt", "Nullable(Int32)", [0, 5], [0, 5], []),
    ("ri", "Array(Int64)", [[], [1], [2**63 - 1, -1]], [[], [1], [2**63 - 1, -1]], []),
    ("rs", "Array(String)", [["a", "", "c"], []], [[b"a", b"", b"c"], []], []),
    (
        "rp",
        "Array(Tuple(x Int8))",
        [[{"x": 1}, {}, {"x": 2}], []],
        [[{"x": 1}, {"x": 0}, {"x": 2}], []],
        [[{"x": 999}]],
    ),
    ("rf", "Array(Float32)", [[0.5, 1.5], []], [[0.5, 1.5], []], []),
    ("rc", "Array(String)", [[1, 0, 42]], [[b"RED", b"NONE", b"42"]], []),
    ("m", "Map(String, Int8)", [{"a": 1}, {}, {"": 0}], [[(b"a", 1)], [], [(b"", 0)]], [{"a": 300}]),
    ("mp", "Map(Int32, Tuple(x Int8))", [{1: {"x": 2}}, {0: {}}], [[(1, {"x": 2})], [(0, {"x": 0})]], []),
    ("ts", "DateTime64(3)", [{"seconds": 1_769_860_800}], [NOON], [{"nanos": 1}]),
    (
        "ts",
        "DateTime64(6)",
        [{"seconds": 1_769_860_800, "nanos": 1000}],
        [NOON.replace(microsecond=1)],
        [{"nanos": 1}, {"nanos": -1}],
    ),
    (
        "ts",
        "Nullable(DateTime)",
        [{}],
        [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)],
        [{"seconds": -1}, {"seconds": 10**12}],
    ),
    (
        "du",
        "Decimal(18, 9)",
        [{"seconds": -1, "nanos": -500_000_000}, {}],
        [Decimal("-1.5"), Decimal(0)],
        [{"seconds": 1, "nanos": -1}],
    ),
    ("du", "Time64(3)", [{"seconds": 3723, "nanos": 4_000_000}], [Decimal("3723.004")], [{"nanos": 1}]),
    ("w", "Nullable(Int64)", [{}, {"value": 7}], [0, 7], []),
    ("node", "Tuple(v Int8)", [{"v": 1}], [{"v": 1}], []),
]


@pytest.mark.parametrize(("field", "column", "good", "wire", "bad"), CASES)
@pytest.mark.parametrize("times", [1, 30])
def test_values_are_exact_or_refused(
    field: str, column: str, good: list[Any], wire: list[Any], bad: list[Any], times: int
) -> None:
    values = [All(**{field: value}).SerializeToString() for value in good + bad]
    values = [value or b"\x9a\x06\x00" for value in values]  # an empty value is refused before: an unknown field
    decoded = decode(values * times, Column(field, column))
    assert decoded.batch.column(0).to_pylist() == wire * times
    size = len(good) + len(bad)
    assert [one.row for one in decoded.bad] == [row for row in range(size * times) if row % size >= len(good)]


def test_what_is_not_there_is_null_or_the_default() -> None:
    names = [f.name for f in ALL_FILE.message_types_by_name["All"].fields if f.name != "by"]
    unset = decode([b"\x9a\x06\x00"], *(Column(name, "Dynamic") for name in names)).batch.to_pylist()[0]
    nulls = {"point", "opt", "one_i", "one_s", "ts", "du", "w", "node", "any"}
    assert {name for name, value in unset.items() if value is None} == nulls
    assert (unset["i32"], unset["st"], unset["color"], unset["ri"], unset["m"]) == ("0", '""', '"NONE"', "[]", "{}")


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\x08", "the record ends inside a value"),
        (b"\x80", "the record ends inside a value"),
        (b"\x72\x05ab", "the record ends inside a value"),
        (b"\x72\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "the record ends inside a value"),
        (b"\x72\x02\xff\xfe", "a string that is not valid UTF-8"),
        (b"\x08" + varint(2**31), "an integer of more than 32 bits in a field of 32"),
        (b"\x18" + varint(2**32), "an integer of more than 32 bits in a field of 32"),
        (b"\x08" + b"\xff" * 9 + b"\x02", "an integer of more than 64 bits"),
        (b"\x00\x01", "a field's number or wire type does not exist"),
        (b"\x0e\x01", "a field's number or wire type does not exist"),
        (varint(99 << 3 | 3) + varint(99 << 3 | 4), "a group, which chsink does not read"),
        (varint(21 << 3 | 2) + b"\x02\x01\x80", "a packed field ends inside a value"),
        (varint(24 << 3 | 2) + b"\x05\x01\x01\x01\x01\x01", "a packed field ends inside a value"),
        (varint(17 << 3 | 2) + b"\x03\x08\x01\x10", "the record ends inside a value"),
        (
            varint(30 << 3 | 2) + b"\x04\x12\x02\x08\x01",
            "a value of a recursive message, which no column holds",
        ),
        (varint(27 << 3 | 2) + b"\x06\x10" + varint(10**9), "a Timestamp that does not exist"),
    ],
)
def test_a_damaged_record_is_bad_by_itself(raw: bytes, reason: str) -> None:
    names = ("i32", "u32", "st", "ri", "rf", "point", "node", "ts")
    columns = [Column("i64", "Int64"), *(Column(name, "Dynamic") for name in names)]
    values = [All(i64=at + 1, st="x").SerializeToString() for at in range(200)]
    decoded = decode([*values[:77], raw, *values[78:]], *columns)
    assert decoded.batch.column(0).to_pylist() == [at + 1 for at in range(200) if at != 77]
    assert [(one.row, one.reason) for one in decoded.bad] == [(77, reason)]


@pytest.mark.parametrize("cut", [b"\x08", b"\x08\x80", b"\x9a\x80\x80\x80"])
def test_a_cut_integer_does_not_go_on_in_the_record_behind_it(cut: bytes) -> None:
    """⚑ The record behind it begins with bytes that could belong to an integer."""
    decoded = decode([cut, b"\x80" * 12, All(i64=1).SerializeToString()], Column("i64", "Int64"))
    assert decoded.batch.column(0).to_pylist() == [1]
    truncated, long = "the record ends inside a value", "an integer of more than 64 bits"
    assert [(one.row, one.reason) for one in decoded.bad] == [(0, truncated), (1, long)]


def test_fields_in_any_order_and_more_than_once_are_merged_as_protobuf_does() -> None:
    point = varint(17 << 3 | 2)
    values = [
        b"\x08\x01\x08\x02",  # the last one counts
        point + b"\x02\x08\x02" + point + b"\x03\x12\x01a",  # messages are merged
        varint(19 << 3) + b"\x05" + varint(20 << 3 | 2) + b"\x01s",  # the last of a oneof counts
        varint(20 << 3 | 2) + b"\x01s" + varint(19 << 3) + b"\x05",
        varint(22 << 3 | 2) + b"\x01a" + b"\x10\x09" + varint(22 << 3 | 2) + b"\x01b" + b"\x08\x03",
        varint(21 << 3) + b"\x01" + varint(21 << 3 | 2) + b"\x02\x02\x03" + varint(21 << 3) + b"\x04",
        b"\x0a\x01x\x08\x07",  # another wire type: an unknown field
        b"\x08\x01\x08\x02\x72\x02\xff\xfe",  # twice, and no UTF-8
    ]
    columns = [
        Column("i32", "Int32"),
        Column("point", "Nullable(Tuple(x Int8, s String))"),
        Column("one_i", "Nullable(Int8)"),
    ]
    columns += [Column("one_s", "Nullable(String)"), Column("rs", "Array(String)"), Column("ri", "Array(Int8)")]
    decoded = decode(values, *columns)
    found = decoded.batch.to_pylist()
    for value, row in zip(values[:7], found, strict=True):
        whole = All.FromString(value)
        assert row["i32"] == whole.i32
        assert row["ri"] == list(whole.ri)
        assert row["rs"] == [text.encode() for text in whole.rs]
        assert row["point"] == ({"x": whole.point.x, "s": whole.point.s.encode()} if whole.HasField("point") else None)
        assert row["one_i"] == (whole.one_i if whole.WhichOneof("one") == "one_i" else None)
        assert row["one_s"] == (whole.one_s.encode() if whole.WhichOneof("one") == "one_s" else None)
    assert [(one.row, one.reason) for one in decoded.bad] == [(7, "it is not a message of its schema")]


def test_required_fields_closed_enums_and_presence_of_proto2() -> None:
    message, columns = (
        message_at(OLD_FILE, [0]),
        [Column("id", "Int8"), Column("c", "Nullable(String)"), Column("n", "Nullable(Int8)")],
    )
    values = [Old(id=1, c=3, n=0).SerializeToString(), Old(id=2).SerializeToString(), b"\x18\x01", b"\x08\x01\x10\x04"]
    decoded = decode(values, *columns, message=message)
    assert decoded.batch.to_pylist() == [{"id": 1, "c": b"A", "n": 0}, {"id": 2, "c": None, "n": None}]
    assert [one.reason for one in decoded.bad] == ["a required field is missing", "an enum's number without a name"]


def test_descriptor_sets_have_their_messages_by_name() -> None:
    whole = descriptor_pb2.FileDescriptorSet(file=[text_format.Parse(FILE, descriptor_pb2.FileDescriptorProto())])
    message = message_in_set(whole.SerializeToString(), "t.Point")
    assert decode([b"\x08\x02"], Column("x", "Int8"), message=message).batch.to_pylist() == [{"x": 1}]
    for data, name in ((whole.SerializeToString(), "t.Nope"), (b"\xff", "t.Point")):
        with pytest.raises(DescriptorError):
            message_in_set(data, name)
    with pytest.raises(DescriptorError):
        message_at(ALL_FILE, [9])


NUMBERS = {
    "i32": st.integers(-(2**31), 2**31 - 1),
    "u64": st.integers(0, 2**64 - 1),
    "s64": st.integers(-(2**63), 2**63 - 1),
    "db": st.floats(allow_nan=False),
    "st": st.text(max_size=8),
    "by": st.binary(max_size=8),
    "color": st.integers(-(2**31), 2**31 - 1),
    "point": st.fixed_dictionaries({}, optional={"x": st.integers(-9, 9), "s": st.text(max_size=3)}),
    "ri": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
    "rs": st.lists(st.text(max_size=3), max_size=4),
    "rp": st.lists(st.fixed_dictionaries({}, optional={"x": st.integers(-9, 9)}), max_size=3),
    "rf": st.lists(st.floats(width=32, allow_nan=False), max_size=3),
    "m": st.dictionaries(st.text(max_size=3), st.integers(-9, 9), max_size=3),
    "one_s": st.text(max_size=3),
    "opt": st.integers(-9, 9),
}
RECORDS = st.fixed_dictionaries({}, optional=NUMBERS)


@settings(max_examples=examples(100), deadline=None)
@given(rows=st.lists(RECORDS, min_size=1, max_size=6))
def test_any_message_is_what_protobufs_library_reads(rows: list[dict[str, Any]]) -> None:
    from chsink.decode.binary import Cursors

    raw = [All(**row).SerializeToString() for row in rows]
    c = Cursors(pa.array(raw, pa.binary()))
    found = message_at(ALL_FILE, [2]).columns(c, set(NUMBERS))
    assert not c.faults.any
    for at, value in enumerate(raw):
        whole = All.FromString(value)
        for name in ("i32", "u64", "s64", "db", "st", "by"):
            assert found[name][at].as_py() == getattr(whole, name)
        assert found["ri"][at].as_py() == list(whole.ri)
        assert found["rs"][at].as_py() == list(whole.rs)
        assert found["rf"][at].as_py() == list(whole.rf)
        assert found["rp"][at].as_py() == [{"x": one.x, "s": one.s} for one in whole.rp]
        assert dict(found["m"][at].as_py()) == dict(whole.m)
        assert found["point"][at].as_py() == (
            {"x": whole.point.x, "s": whole.point.s} if whole.HasField("point") else None
        )
        assert found["opt"][at].as_py() == (whole.opt if whole.HasField("opt") else None)
        assert found["one_s"][at].as_py() == (whole.one_s if whole.HasField("one_s") else None)


@settings(max_examples=examples(150), deadline=None)
@given(rows=st.lists(RECORDS, min_size=1, max_size=3), data=st.data())
def test_a_record_is_the_same_alone_and_among_others_whatever_its_bytes_are(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    raw = [All(**row).SerializeToString() or b"\x9a\x06\x00" for row in rows]
    for value in list(raw):
        cut = data.draw(st.integers(0, len(value)))
        raw.append(value[:cut] + data.draw(st.binary(max_size=3)) + value[data.draw(st.integers(cut, len(value))) :])
        raw.append(data.draw(st.sampled_from(raw)) + data.draw(st.sampled_from(raw)))
    columns = [Column(field.name, "Dynamic") for field in All.DESCRIPTOR.fields if field.name != "by"]
    together = decode(raw, *columns)
    kept = list(range(len(raw))) if together.rows is None else together.rows.to_pylist()
    for at, value in enumerate(raw):
        alone = decode([value], *columns)
        if at in kept:
            assert alone.batch.to_pylist() == [together.batch.slice(kept.index(at), 1).to_pylist()[0]]
            try:
                All.FromString(value)
            except DecodeError:
                pytest.fail("what Protobuf's library refuses became a row")
        else:
            assert [(b.column, b.reason) for b in alone.bad] == [
                (b.column, b.reason) for b in together.bad if b.row == at
            ]
