"""The column that is inferred from JSON values."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from chsink.decode import Column, JsonDecoder
from chsink.decode.inferred import Kinds, wider

INT, FLOAT, TEXT = "Nullable(Int64)", "Nullable(Float64)", "Nullable(String)"


@pytest.mark.parametrize(
    ("values", "column"),
    [
        ("null", None),
        ("[] null", None),
        ("true false null", "Nullable(Bool)"),
        ("1 -2 null", INT),
        ("9223372036854775807 -9223372036854775808", INT),
        ("9223372036854775808 1", "Nullable(Int256)"),
        ("1" + "0" * 77, TEXT),
        ("1 1.5", FLOAT),
        ("9007199254740992 -9007199254740992 1.5", FLOAT),
        ("9007199254740993 1.5", TEXT),
        ("9223372036854775808 1.5", TEXT),
        ("9007199254740993.0", TEXT),
        ("12345678901234567.89 1", TEXT),
        ("9007199254740992.0 12345678901234567e1 0.12345678901234567891", FLOAT),
        ("1e3", FLOAT),
        ('"x" null', TEXT),
        ('{"a":1}', TEXT),
        ('1 "x"', TEXT),
        ("true 1", TEXT),
        ("[1] [2.5] []", f"Array({FLOAT}) DEFAULT []"),
        ("[null]", None),
        ('[1] ["x"]', f"Array({TEXT}) DEFAULT []"),
        ("[[1],[]]", f"Array(Array({INT})) DEFAULT []"),
        ("[1] 1", TEXT),
        ("[[[[[[[[[[1]]]]]]]]]]", "Array(" * 8 + TEXT + ")" * 8 + " DEFAULT []"),
    ],
)
def test_rules(values: str, column: str | None) -> None:
    kinds = Kinds()
    for value in values.split():
        kinds.add(value.encode())
    assert kinds.column() == column


DATE, MILLIS, MICROS, NANOS = "Nullable(Date32)", *(f"Nullable(DateTime64({p}, 'UTC'))" for p in (3, 6, 9))


@pytest.mark.parametrize(
    ("texts", "column"),
    [
        (["2026-01-31", "1900-01-01", "2299-12-31"], DATE),
        (["2026-01-31", "9999-12-31"], TEXT),
        (["2026-02-30"], TEXT),
        (["2026-1-31"], TEXT),
        (["2026-01-31", ""], TEXT),
        (["2026-01-31", "2026-01-31T00:00:00Z"], TEXT),
        (["2026-01-31T23:59:59Z"], MILLIS),
        (["2026-01-31T23:59:59.5Z", "2026-01-31 23:59:59+02:00"], MILLIS),
        (["2026-01-31T23:59:59.500000Z", "2026-01-31T23:59:59Z"], MICROS),
        (["2026-01-31T23:59:59.1234567Z"], NANOS),
        (["2026-01-31T23:59:59.1234567891Z"], TEXT),
        (["2026-01-31T23:59:59"], TEXT),
        (["2026-01-31T23:59Z"], TEXT),
        (["2026-01-31T24:00:00Z"], TEXT),
        (["2263-01-01T00:00:00Z", "2026-01-31T23:59:59Z"], TEXT),
        (["20260131", "1767225600"], TEXT),
    ],
)
def test_times_in_text(texts: list[str], column: str) -> None:
    """⚑ A column of a time only where it holds every sampled text exactly."""
    on, off, lists = Kinds(times=True), Kinds(), Kinds(times=True)
    for text in [*texts, None]:
        raw = json.dumps(text).encode()
        on.add(raw)
        off.add(raw)
        lists.add(b"[" + raw + b"]")
    assert (on.column(), off.column()) == (column, TEXT)
    assert lists.column() == f"Array({column}) DEFAULT []"
    if column != TEXT:
        decoder = JsonDecoder([Column("c", column)], timezone="Asia/Tokyo")
        assert decoder.decode(pa.array([json.dumps({"c": text}).encode() for text in texts])).bad == []


def test_a_time_beside_another_kind_is_text() -> None:
    for other in (b"1", b"true", b"{}", b'"\\u0032026-01-31"', b"[]"):
        kinds = Kinds(times=True)
        kinds.add(b'"2026-01-31"')
        kinds.add(other)
        assert kinds.column() == TEXT


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (INT, INT, INT),
        (INT, FLOAT, TEXT),
        ("Nullable(Int256)", INT, "Nullable(Int256)"),
        (INT, "Nullable(Bool)", TEXT),
        ("Array(Nullable(Int64)) DEFAULT []", INT, TEXT),
        ("Nullable(Int8)", "Nullable(Int16)", "Nullable(Int16)"),
        ("Nullable(UInt32)", "Nullable(Int32)", INT),
        ("Nullable(UInt64)", INT, "Nullable(Int128)"),
        ("Nullable(UInt256)", INT, TEXT),
        ("Nullable(Int8)", "Nullable(Float32)", FLOAT),
        ("Nullable(Int32)", "Nullable(Float32)", FLOAT),
        ("Nullable(UInt64)", FLOAT, TEXT),
        ("Nullable(Float32)", "Nullable(Float64)", FLOAT),
        ("Nullable(Int256)", FLOAT, TEXT),
        ("Nullable(Float32)", TEXT, TEXT),
        (INT, TEXT, TEXT),
        (FLOAT, "Nullable(Decimal(18, 4))", TEXT),
        ("Nullable(Float32)", "Nullable(Decimal(10, 2))", TEXT),
        ("Nullable(Decimal(9, 2))", "Nullable(Decimal(9, 4))", "Nullable(Decimal(11, 4))"),
        ("Nullable(Decimal(18, 4))", "Nullable(Int32)", "Nullable(Decimal(18, 4))"),
        ("Nullable(Decimal(76, 20))", INT, "Nullable(Decimal(76, 20))"),
        ("Nullable(Decimal(76, 60))", INT, TEXT),
        ("Nullable(FixedString(4))", TEXT, TEXT),
        (MILLIS, MICROS, MICROS),
        (MILLIS, NANOS, TEXT),
        (DATE, MICROS, TEXT),
        (MICROS, INT, TEXT),
        (f"Array({FLOAT}) DEFAULT []", f"Array({INT}) DEFAULT []", f"Array({TEXT}) DEFAULT []"),
        ("Array(Array(Nullable(Int8)))", f"Array(Array({INT}))", f"Array(Array({INT}))"),
        (
            f"Map(String, {FLOAT}) DEFAULT map()",
            f"Map(String, {INT}) DEFAULT map()",
            f"Map(String, {TEXT}) DEFAULT map()",
        ),
        (f"Map(String, Array({INT}))", "Map(String, Array(Nullable(Int8)))", f"Map(String, Array({INT}))"),
        (f"Map(Int32, {INT})", f"Map(Int64, {INT})", TEXT),
    ],
)
def test_a_column_for_the_values_of_two(one: str, other: str, both: str) -> None:
    """⚑ Tasks, schemas, or topics: no value is rounded, or changed."""
    assert wider(one, other) == wider(other, one) == both
