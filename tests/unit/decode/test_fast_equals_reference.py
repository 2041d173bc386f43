"""The fast path must give what the reference gives, for every record and whatever stands next to it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chsink.decode import Column, Decoded, JsonDecoder
from chsink.decode.epoch import with_unit
from chsink.decode.exact import ExactDecoder
from chsink.decode.fast import FastPlan
from chsink.decode.fields import fields_of
from chsink.decode.json_decoder import FieldDecoder
from chsink.decode.refused_texts import Refused
from tests.support.examples import examples

LEAVES = [
    "Int8",
    "UInt8",
    "Int16",
    "UInt16",
    "Int32",
    "UInt32",
    "Int64",
    "UInt64",
    "Int128",
    "UInt128",
    "Int256",
    "UInt256",
    "Float32",
    "Float64",
    "BFloat16",
    "Decimal(4, 2)",
    "Decimal(18, 0)",
    "Decimal(38, 10)",
    "Decimal(76, 20)",
    "Bool",
    "String",
    "FixedString(3)",
    "UUID",
    "IPv4",
    "IPv6",
    "Enum8('a' = 1, 'b' = -2)",
    "Enum16('a' = 300)",
    "Date",
    "Date32",
    "DateTime",
    "DateTime('Europe/Berlin')",
    "DateTime64(0)",
    "DateTime64(3)",
    "DateTime64(6, 'Asia/Tokyo')",
    "DateTime64(7)",
    "DateTime64(8, 'Europe/Berlin')",
    "DateTime64(9)",
    "Time",
    "Time64(3)",
    "JSON",
    "Dynamic",
    "Variant(Bool, Decimal(9, 2), Float64, Int64, String)",
]
NOT_NULLABLE = ("Dynamic", "Variant(Bool, Decimal(9, 2), Float64, Int64, String)")

leaf_types = st.sampled_from(LEAVES).flatmap(
    lambda name: st.just(name) if name in NOT_NULLABLE else st.sampled_from([name, f"Nullable({name})"]),
)
column_types = st.recursive(
    leaf_types,
    lambda inner: st.one_of(
        inner.map("Array({})".format),
        st.tuples(inner, inner).map(lambda two: "Tuple(a {}, b {})".format(*two)),
        st.tuples(inner, inner).map(lambda two: "Tuple({}, {})".format(*two)),
        st.tuples(st.sampled_from(["String", "UInt8", "Date", "UUID"]), inner).map(
            lambda two: "Map({}, {})".format(*two)
        ),
    ),
    max_leaves=3,
)

NUMBERS = [
    "0",
    "-0",
    "1",
    "2",
    "-1",
    "127",
    "128",
    "255",
    "256",
    "-128",
    "-129",
    "300",
    "65535",
    "65536",
    "2147483647",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "-2",
    "18446744073709551616",
    "170141183460469231731687303715884105727",
    "170141183460469231731687303715884105728",
    "-170141183460469231731687303715884105728",
    "-170141183460469231731687303715884105729",
    "1" + "0" * 76,
    "115792089237316195423570985008687907853269984665640564039457584007913129639935",
    "9" * 78,
    "9" * 90,
    "1e400",
    "1.0",
    "1.5",
    "1e2",
    "1E+2",
    "-1.50",
    "99.99",
    "100.00",
    "99.995",
    "0.001",
    "1e-2",
    "1e-400",
    "3.4028236e38",
    "1e39",
    "1.7976931348623157e308",
    "0.1",
    "16777217",
    "9007199254740993",
    "1e-45",
    "1e75",
    "1e99999999999",
    "0e999",
    "12e-1",
    "12345678901234567890123456789012345678",
    "5e35",
    "1234567890123456789012345678901.5",
    "1767225600",
    "1767225600123",
    "1767225600123456",
    "1767225600.5",
    "1767225600.123456789",
    "-1.5",
    "10413791999",
]
TEXTS = [
    "",
    "a",
    "b",
    "abc",
    "abcd",
    "é",
    "\0",
    "nan",
    "inf",
    "-inf",
    "NaN",
    "Infinity",
    "-Infinity",
    "+Infinity",
    "NAN",
    "true",
    "false",
    "null",
    " 1",
    "1 ",
    "+1",
    "007",
    "0x1F",
    ".5",
    "5.",
    "1_0",
    "1e2",
    "1,5",
    "123e4567-e89b-12d3-a456-426614174000",
    "1.2.3.4",
    "1.2.3.04",
    "123E4567E89B12D3A456426614174000",
    "123e4567-e89b-12d3-a456-42661417400g",
    "::1",
    "1.2.3",
    "fe80::1%eth0",
    "::G",
    "2026-01-01",
    "2026-02-30",
    "1969-12-31",
    "1899-12-31",
    "2149-06-07",
    "2299-12-31",
    "2300-01-01",
    "0000-01-01",
    "2026-01-01T00:00:00Z",
    "2026-01-01 12:34:56",
    "2026-01-01T12:34:56.123",
    "2026-01-01 12:34:56.120000000",
    "24:00:00",
    "2026-01-01T12:34:56.1234567Z",
    "2026-01-01T12:34:56+02:00",
    "2026-01-01T12:34-0530",
    "2026-01-01T12",
    'x\\y"z/',
    "2026-03-29 02:30:00",
    "2026-10-25 02:30:00",
    "2026-01-01T24:00:00",
    "2026-01-01T23:59:60Z",
    "2026-1-1",
    "2106-02-08",
    "2299-12-31 23:59:59.999999999",
    "2262-04-11 23:47:16.854775808",
    "2026-01-01T00:00:00+25:00",
    "2026-01-01Z",
    "12:34",
    "12:34:56",
    "-01:00:00",
    "999:59:59",
    "1000:00:00",
    "01:02:03.5",
    "01:02:03.500000",
    "01:62:03",
    "\ud83d\ude00",
]
NASTY = [
    "NaN",
    "-Infinity",
    "Inf",
    "nul",
    "01",
    "1.",
    '"\\ud800"',
    '"\x01"',
    "[1",
    '{"x":1',
    "{}{}",
    "",
    ",",
    "\\u0061",
]

scalars = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(TEXTS).map(json.dumps),
    st.sampled_from(TEXTS).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(["null", "true", "false"]),
    st.integers(-(2**65), 2**65).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(NUMBERS).map(lambda text: f'"{text}"'),
    st.datetimes().map(lambda time: json.dumps(time.isoformat())),
)
keys = st.sampled_from(["a", "b", "1", "x.y", "2026-01-01", "01", "b.c"])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[" + ",".join(items) + "]"),
        st.lists(st.tuples(keys, inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f'"{key}": {value}' for key, value in pairs) + "}"
        ),
    ),
    max_leaves=5,
)
names = st.sampled_from(['"c"', '"c"', '"c"', '"c"', '"\\u0063"', '"z"', '"d"', '"C"'])
fields = st.lists(st.tuples(names, st.one_of(values, values, values, st.sampled_from(NASTY))), max_size=3)
records = st.one_of(
    values.map(lambda value: f'{{"c":{value}}}'.encode("utf-8", "surrogatepass")),
    fields.map(
        lambda pairs: (" {" + ",".join(f"{key} : {value}" for key, value in pairs) + "}\n").encode(
            "utf-8", "surrogatepass"
        )
    ),
    st.sampled_from(
        [
            b"",
            b" ",
            b"{}",
            b"{} {}",
            b"[]",
            b"null",
            b"5",
            b'{"c":1',
            b',"c":2}',
            b"}{",
            b"\0",
            b'{"c":"\xff"}',
            b"\xef\xbb\xbf{}",
            b'{"c":1}\0',
            b'{"c":1}}{"r":{"c":2}',
            b'{"c":[',
            b"]}",
            b'"',
            b'{"c":"',
        ]
    ),
)


def outcome(decoded: Decoded, size: int) -> list[tuple[str, Any]]:
    """What became of each input row."""
    rows = range(size) if decoded.rows is None else decoded.rows.to_pylist()
    result: dict[int, tuple[str, Any]] = dict.fromkeys((bad.row for bad in decoded.bad), ("bad", None))
    for row, wire in zip(rows, decoded.batch.to_pylist(), strict=True):
        assert row not in result
        result[row] = ("row", repr(wire))
    assert len(result) == size
    return [result[row] for row in range(size)]


@settings(max_examples=examples(150), deadline=None)
@given(column_types, st.sampled_from(["", "DEFAULT"]), st.lists(records, min_size=1, max_size=6))
def test_each_record_has_the_outcome_it_has_alone_and_by_the_reference(
    kind: str, default: str, some: list[bytes]
) -> None:
    columns = [Column("c", kind, default), Column("d", "Nullable(String)")]
    decoder = JsonDecoder(columns, timezone="Asia/Kolkata")
    # Repeated, so that samples choose a reading for these very values, and blocks are cut.
    decoded = outcome(decoder.decode(pa.array(some * 40, pa.binary())), len(some) * 40)
    alone = [outcome(decoder.decode(pa.array([record], pa.binary())), 1)[0] for record in some]
    assert decoded == alone * 40


@settings(max_examples=examples(150), deadline=None)
@given(column_types, st.lists(records, min_size=1, max_size=4), st.integers(0, 3))
def test_what_the_fast_path_lets_through_is_what_the_reference_gives(
    kind: str, some: list[bytes], sampled: int
) -> None:
    fields = fields_of([Column("c", kind), Column("d", "Nullable(Int64)")], "Europe/Berlin")
    reference = ExactDecoder(fields)
    sample = [fit for fit in map(reference.fit, some[:sampled]) if fit is not None]
    plan = FastPlan(fields, sample)
    for record in some:
        try:
            arrays, suspects = plan.run(pa.array([record], pa.binary()))
        except Refused:
            continue
        if suspects is not None and suspects.any():
            continue
        expected, reasons = reference.decode([record])
        assert not reasons, (record, reasons)
        assert [repr(array.to_pylist()) for array in arrays] == [repr(array.to_pylist()) for array in expected]
        for array, wire in zip(arrays, expected, strict=True):
            array.validate(full=True)
            assert array.type == wire.type


epochs = st.one_of(
    st.sampled_from(["0", "-0", "1000", "1500", "1767225600", "1767225600123", "1767225600123456789"]),
    st.integers(-(2**40), 2**62).map(str),
).flatmap(lambda number: st.sampled_from([number, f'"{number}"']))
"""Whole numbers, as they are and in quotes."""


@settings(max_examples=examples(150), deadline=None)
@given(
    st.sampled_from(["DateTime", "DateTime64(3)", "DateTime64(6, 'Asia/Tokyo')", "DateTime64(9)", "Time", "Time64(3)"]),
    st.sampled_from(["seconds", "millis", "micros", "nanos"]),
    st.lists(epochs, min_size=1, max_size=6),
)
@example("DateTime", "millis", ["0", "1767225600000"])
@example("DateTime64(3)", "nanos", ['"0"', '"1767225600123000000"'])
def test_counts_of_a_unit_have_the_outcome_that_they_have_alone(kind: str, unit: str, some: list[str]) -> None:
    """⚑ 0 is 0 in each unit: else a record's neighbours would decide whether it is a row or a dead letter."""
    [field] = fields_of([Column("t", kind)], "UTC")
    codec = with_unit(field.codec, unit)
    assert codec is not None
    found = [f'{{"t":{number}}}'.encode() for number in some]

    def fates(records: list[bytes]) -> list[tuple[str, Any]]:
        decoder = FieldDecoder([replace(field, codec=codec)])
        return outcome(decoder.decode(pa.array(records, pa.binary())), len(records))

    reference, alone = ExactDecoder([replace(field, codec=codec)]), [fates([record])[0] for record in found]
    assert fates(found * 40) == alone * 40
    assert [fate == "row" for fate, _ in alone] == [reference.fit(record) is not None for record in found]
