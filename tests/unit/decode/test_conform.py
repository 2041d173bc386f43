"""A transform's columns: converted exactly or left out with a reason."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from chsink.decode import Column, Decoded, JsonDecoder, conform, wire_type
from chsink.decode.wire import codec_for

UTC = dt.UTC
US = pa.timestamp("us", "UTC")
NOON = dt.datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
UUID = "123e4567-e89b-12d3-a456-426614174000"


def run(kind: str, values: list[Any], source: Any, default: str = "") -> Decoded:
    batch = pa.record_batch([pa.array(values, source), pa.array(["ignored"] * len(values))], names=["c", "other"])
    decoded = conform(batch, [Column("c", kind, default)], timezone="Asia/Tokyo")
    assert decoded.batch.schema == pa.schema([("c", wire_type(kind))])
    decoded.batch.validate(full=True)
    return decoded


@pytest.mark.parametrize(
    ("kind", "source", "good", "wire", "bad"),
    [
        ("UInt8", pa.int32(), [0, 255], [0, 255], [-1, 256, 300]),
        ("UInt8", pa.uint64(), [0, 255], [0, 255], [256, 2**64 - 1]),
        ("Int64", pa.uint64(), [0, 2**63 - 1], [0, 2**63 - 1], [2**63]),
        ("UInt64", pa.int8(), [0, 127], [0, 127], [-1]),
        ("Int32", pa.float64(), [1.0, -5.0], [1, -5], [1.5, float("nan"), float("inf"), 3e9]),
        ("Int32", pa.string(), ["7", "1e2", "007"], [7, 100, 7], ["", "x", "0x1F"]),
        ("Int8", pa.decimal128(10, 2), [Decimal("5.00")], [5], [Decimal("5.01"), Decimal(128)]),
        ("Int128", pa.int64(), [-1], [(-1).to_bytes(16, "little", signed=True)], []),
        ("UInt256", pa.string(), [str(2**256 - 1)], [(2**256 - 1).to_bytes(32, "little")], [str(2**256), "-1"]),
        ("Float32", pa.float64(), [0.1, float("inf")], [0.10000000149011612, float("inf")], [1e39]),
        ("Float64", pa.int64(), [7], [7.0], []),
        (
            "Decimal(4, 2)",
            pa.decimal128(10, 3),
            [Decimal("99.990")],
            [Decimal("99.99")],
            [Decimal("99.995"), Decimal(100)],
        ),
        ("Decimal(4, 2)", pa.int64(), [99, -99], [Decimal(99), Decimal(-99)], [100, 2**62]),
        ("Decimal(4, 2)", pa.float64(), [0.5, 99.99], [Decimal("0.5"), Decimal("99.99")], [0.125, float("nan")]),
        ("Decimal(76, 0)", pa.decimal128(38, 0), [Decimal("9" * 38)], [Decimal("9" * 38)], []),
        ("Bool", pa.bool_(), [True, False], [True, False], []),
        ("Bool", pa.int32(), [1, 0], [True, False], [2]),
        ("String", pa.string(), ["é"], ["é".encode()], []),
        ("String", pa.large_binary(), [b"\xff\0"], [b"\xff\0"], []),
        ("String", pa.int64(), [15], [b"15"], []),
        ("FixedString(2)", pa.binary(), [b"\xff", b"ab"], [b"\xff", b"ab"], [b"abc"]),
        ("UUID", pa.string(), [UUID, UUID.replace("-", "")], [bytes.fromhex(UUID.replace("-", ""))] * 2, ["x"]),
        ("UUID", pa.binary(16), [b"0123456789abcdef"], [b"0123456789abcdef"], []),
        ("IPv4", pa.string(), ["1.2.3.4"], [0x01020304], ["1.2.3"]),
        ("IPv6", pa.string(), ["::1"], [bytes(15) + b"\1"], ["1"]),
        ("Enum8('a' = 1, 'b' = 2)", pa.string(), ["a", "b"], [1, 2], ["c"]),
        ("Enum8('a' = 1, 'b' = 2)", pa.int64(), [2], [2], [3, 300]),
        (
            "Date",
            pa.date32(),
            [dt.date(2149, 6, 6)],
            [dt.date(2149, 6, 6)],
            [dt.date(2149, 6, 7), dt.date(1969, 12, 31)],
        ),
        ("Date32", pa.string(), ["1900-01-01"], [dt.date(1900, 1, 1)], ["1899-12-31", "x"]),
        (
            "DateTime",
            US,
            [NOON],
            [NOON],
            [NOON.replace(microsecond=1), NOON.replace(year=2107), NOON.replace(year=1969)],
        ),
        ("DateTime", pa.timestamp("us"), [NOON.replace(tzinfo=None)], [NOON.replace(hour=3)], []),
        ("DateTime", pa.date32(), [dt.date(2026, 1, 31)], [NOON - dt.timedelta(hours=21)], []),
        (
            "DateTime64(3)",
            US,
            [NOON.replace(microsecond=5000)],
            [NOON.replace(microsecond=5000)],
            [NOON.replace(microsecond=5)],
        ),
        ("DateTime64(9)", US, [NOON], [NOON], [NOON.replace(year=2263)]),
        ("DateTime64(3)", pa.string(), ["2026-01-31T12:00:00Z", "2026-01-31 21:00:00"], [NOON, NOON], ["noon"]),
        ("Time", pa.time64("us"), [dt.time(1, 2, 3)], [3723], [dt.time(1, 2, 3, 4)]),
        ("Array(UInt8)", pa.large_list(pa.int64()), [[1, 2], []], [[1, 2], []], [[1, 300], [None]]),
        ("Array(Nullable(String))", pa.list_(pa.string()), [["a", None]], [[b"a", None]], []),
        (
            "Map(String, Int8)",
            pa.map_(pa.string(), pa.int64()),
            [[("a", 1)], []],
            [[(b"a", 1)], []],
            [[("a", 300)], [("a", None)]],
        ),
        (
            "Map(UInt8, String)",
            pa.map_(pa.int32(), pa.string()),
            [[(1, "x")]],
            [[(1, b"x")]],
            [[(300, "x")], [(1, "x"), (1, "y")]],
        ),
        (
            "Tuple(a Int8, b Nullable(String))",
            pa.struct([("b", pa.string()), ("a", pa.int32())]),
            [{"a": 1, "b": None}],
            [{"a": 1, "b": None}],
            [{"a": 300, "b": "x"}, {"a": None, "b": "x"}],
        ),
        (
            "Tuple(Int8, String)",
            pa.struct([("x", pa.int8()), ("y", pa.string())]),
            [{"x": 1, "y": "s"}],
            [{"1": 1, "2": b"s"}],
            [],
        ),
        (
            "Array(Tuple(a Int8))",
            pa.list_(pa.struct([("a", pa.float32())])),
            [[{"a": 1.0}]],
            [[{"a": 1}]],
            [[{"a": 1.5}]],
        ),
        (
            "JSON",
            pa.string(),
            ['{"a": 1}'],
            ['{"a": 1}'],
            ["[1]", "{", "x", '{"a":1,"a":2}', '{"a":"\\ud800"}'],
        ),
        ("Variant(Int64, String)", pa.string(), ["x"], [b"x"], []),
    ],
)
@pytest.mark.parametrize("times", [1, 50])
def test_values_are_converted_exactly_or_refused(
    kind: str, source: Any, good: list[Any], wire: list[Any], bad: list[Any], times: int
) -> None:
    decoded = run(kind, (good + bad) * times, source)
    assert decoded.batch.column(0).to_pylist() == wire * times
    size = len(good) + len(bad)
    assert [entry.row for entry in decoded.bad] == [row for row in range(size * times) if row % size >= len(good)]
    assert (decoded.rows is None) == (not bad)
    assert all(entry.column == "c" and entry.reason for entry in decoded.bad)


@pytest.mark.parametrize(
    "kind", ["Int8", "String", "Decimal(5, 1)", "DateTime64(8)", "UUID", "Enum8('a' = 1)", "Tuple(a Int8)"]
)
def test_nulls_and_missing_columns_follow_the_null_rule(kind: str) -> None:
    for source in (pa.null(), pa.int8(), pa.string(), US):
        assert run(f"Nullable({kind})", [None, None], source).batch.column(0).null_count == 2
        assert run(kind, [None], source, default="DEFAULT").batch.column(0).null_count == 1
        assert [bad.reason for bad in run(kind, [None], source).bad] == [
            "missing or null, and the column has no DEFAULT and is not Nullable"
        ]
    batch = pa.record_batch([pa.array([1])], names=["z"])
    assert conform(batch, [Column("c", kind)], timezone="UTC").bad[0].row == 0


def test_slices_and_dictionaries_are_taken() -> None:
    values = pa.array(["1", "2", None, "4"]).dictionary_encode().slice(1)
    batch = pa.record_batch([values, pa.array([[9], [1], [2, 3], []]).slice(1)], names=["c", "l"])
    columns = [Column("c", "Nullable(Int8)"), Column("l", "Array(Int16)")]
    wire = conform(batch, columns, timezone="UTC").batch.to_pylist()
    assert wire == [{"c": 2, "l": [1]}, {"c": None, "l": [2, 3]}, {"c": 4, "l": []}]


def test_nested_arrays_must_be_of_one_length() -> None:
    batch = pa.record_batch([pa.array([[1], [1]]), pa.array([["x"], []], pa.list_(pa.string()))], names=["n.a", "n.b"])
    decoded = conform(batch, [Column("n.a", "Array(Int8)"), Column("n.b", "Array(String)")], timezone="UTC")
    assert decoded.rows is not None
    assert decoded.rows.to_pylist() == [0]
    assert [(bad.row, bad.column) for bad in decoded.bad] == [(1, "n")]


def test_arrow_types_that_say_nothing_a_column_takes_are_refused() -> None:
    assert (
        run("String", [dt.timedelta(1)], pa.duration("us")).bad[0].reason == "Arrow duration[us], which no column takes"
    )
    assert run("String", [{"a": 1}], pa.struct([("a", pa.int8())])).bad[0].reason == "an object in String"


@pytest.mark.parametrize("key", ["FixedString(3)", "LowCardinality(FixedString(3))"])
def test_map_keys_that_differ_only_in_padding_are_one_key(key: str) -> None:
    """⚑ FixedString pads with zero bytes: a key with one at its end and one without are stored as one key twice."""
    columns = [Column("c", f"Map({key}, Int8)")]
    good = [[(b"a", 1), (b"a\0b", 2)], [(b"", 1), (b"\xff\n", 2)], [(b"a", 1)], [(b"a\0", 1)]]
    bad = [[(b"a", 1), (b"a\0", 2)], [(b"\0", 1), (b"", 2)], [(b"\xff\0\0", 1), (b"b", 3), (b"\xff", 2)]]
    for some in (good, good + bad, bad, (good + bad) * 50):
        batch = pa.record_batch([pa.array(some, pa.map_(pa.binary(), pa.int8()))], names=["c"])
        decoded = conform(batch, columns, timezone="UTC")
        assert [found.row for found in decoded.bad] == [row for row, pairs in enumerate(some) if pairs in bad]
        assert {found.reason for found in decoded.bad} <= {"a key is repeated in a Map"}
    records = [b'{"c":{"a":1,"a\\u0000":2}}', b'{"c":{"a":1,"a\\u0000b":2}}']
    for texts in (records, records[:1], records * 100):
        decoded = JsonDecoder(columns, timezone="UTC").decode(pa.array(texts, pa.binary()))
        assert [found.row for found in decoded.bad] == list(range(0, len(texts), 2))


def test_a_map_with_a_repeated_key_spoils_no_other_row() -> None:
    rows = [[(b"\xff", 1)], [(b"a", 1), (b"a", 2)], None, [(b"a", 1), (b"b", 2)]]
    for source in (pa.binary(), pa.string()):
        maps = pa.array(rows, pa.map_(pa.binary(), pa.int8()))
        assert isinstance(maps, pa.MapArray)
        keys = maps.keys.view(source)
        built = pa.MapArray.from_arrays(pa.array([0, 1, 3, 3, 5], pa.int32()), keys, maps.items)
        decoded = conform(pa.record_batch([built], names=["c"]), [Column("c", "Map(String, Int8)")], timezone="UTC")
        assert [(bad.row, bad.reason) for bad in decoded.bad] == [(1, "a key is repeated in a Map")]
        assert decoded.rows is not None
        assert decoded.rows.to_pylist() == [0, 2, 3]


def text_of(*data: bytes | None) -> Any:
    """A string array that is not checked to be UTF-8, as Spark's is not."""
    return pa.array(data, pa.binary()).view(pa.string())


@pytest.mark.parametrize(
    "kind",
    [
        *("Int64", "UInt256", "Float64", "Decimal(9, 2)", "Bool", "UUID", "IPv4", "IPv6", "Enum8('ok' = 1)", "Date"),
        *("DateTime", "DateTime64(3)", "Time", "JSON", "Dynamic", "Variant(Int64, String)", "Nullable(Int32)"),
    ],
)
def test_a_string_that_is_not_utf8_is_a_misfit_of_its_row(kind: str) -> None:
    """⚑ one record must not wedge a job, whatever it holds."""
    decoded = conform(
        pa.record_batch([text_of(None, b"secret\xff", b"\xfe")], names=["c"]), [Column("c", kind)], timezone="UTC"
    )
    label = codec_for(kind, "UTC").label
    reason = f"a string that is not valid UTF-8, in {label}"
    assert [(bad.row, bad.reason) for bad in decoded.bad if bad.row] == [(1, reason), (2, reason)]


@pytest.mark.parametrize("kind", ["Array(Int64)", "Array(Dynamic)", "Array(Enum8('a' = 1))"])
def test_an_element_that_is_not_utf8_is_a_misfit_of_its_row(kind: str) -> None:
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), text_of(b"1", b"\xff"))
    decoded = conform(pa.record_batch([lists], names=["c"]), [Column("c", kind)], timezone="UTC")
    assert decoded.bad[-1].row == 1
    assert decoded.bad[-1].reason.startswith("a string that is not valid UTF-8")


@pytest.mark.parametrize("kind", ["Date", "Date32", "DateTime", "DateTime64(6)", "DateTime64(8)", "String", "Dynamic"])
@pytest.mark.parametrize(
    ("source", "beyond"),
    [
        (pa.date32(), [2_932_897, -719_163, 2**31 - 1]),
        (US, [253_402_300_800_000_000, -62_135_596_800_000_001, 2**63 - 1, -(2**63)]),
        (pa.timestamp("us"), [253_402_300_800_000_000, -62_135_596_800_000_001, 2**63 - 1, -(2**63)]),
    ],
)
def test_a_date_beyond_pythons_years_is_a_misfit_of_its_row(kind: str, source: Any, beyond: list[int]) -> None:
    """⚑ Arrow holds dates that Python does not: they are a misfit, not the end of the job."""
    numbers = pa.array([0, *beyond], pa.int32() if pa.types.is_date32(source) else pa.int64())
    decoded = conform(pa.record_batch([numbers.view(source)], names=["c"]), [Column("c", kind)], timezone="Asia/Tokyo")
    reasons = [bad.reason for bad in decoded.bad if bad.row]
    assert reasons == [f"a date or time beyond the years 1 to 9999, in {kind}"] * len(beyond)


def test_null_in_dynamic_is_no_empty_string() -> None:
    decoded = run("Dynamic", [None, "", "x"], pa.string())
    assert decoded.batch.column(0).to_pylist() == [None, '""', '"x"']
