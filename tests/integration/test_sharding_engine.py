"""The sharder against the real engine: same values in the column's type, same function, same shard.

The oracle of most tests is `f(cols) % total_weight`, asked of ClickHouse over the values as it stored them. One test
goes further and lets ClickHouse's own `Distributed` table cut an insert: in background mode it writes each shard's
rows to a file of their own before it sends them anywhere.
"""

from __future__ import annotations

import bisect
import datetime as dt
import itertools
import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from chdb import session
from hypothesis import HealthCheck, given, settings

from chsink.errors import ConfigError
from chsink.sharding import Layout, Shard, Sharder
from chsink.sharding.functions import FUNCTIONS
from chsink.sharding.keytypes import parse_key_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

UTC = dt.UTC
WEIGHTS = (2, 1, 5)
SETTINGS = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Case:
    """A ClickHouse type, its Arrow wire type, and values of it: some always, the others drawn."""

    type: str
    wire: pa.DataType
    always: tuple[Any, ...]
    drawn: st.SearchStrategy[Any]

    def __str__(self) -> str:
        return f"{self.type} as {self.wire}"


def _integers(type_: str, bits: int) -> Case:
    signed = not type_.startswith("U")
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def make(value: int) -> int | bytes:
        return value.to_bytes(bits // 8, "little", signed=signed) if bits > 64 else value

    wire = pa.binary(bits // 8) if bits > 64 else getattr(pa, type_.lower())()
    return Case(type_, wire, tuple(map(make, (low, high, 0, 1))), st.integers(low, high).map(make))


def _floats(type_: str, wire: pa.DataType, width: int) -> Case:
    always = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.5)
    return Case(type_, wire, always, st.floats(width=32 if width == 32 else 64))


def _decimals(precision: int, scale: int, wire: pa.DataType) -> Case:
    top = 10**precision - 1

    def make(unscaled: int) -> Decimal:
        digits = str(abs(unscaled)).rjust(scale + 1, "0")
        return Decimal(f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}")

    ends = tuple(make(unscaled) for unscaled in (0, -1, 1, top, -top))
    return Case(f"Decimal({precision}, {scale})", wire, ends, st.integers(-top, top).map(make))


def _times(type_: str, unit: str, low: int, high: int, step: int = 1) -> Case:
    wire = pa.timestamp(unit, "UTC")
    ends = (low * step, high * step, 0, step)
    return Case(type_, wire, ends, st.integers(low, high).map(lambda ticks: ticks * step))


def _seconds(precision: int, last: int) -> Case:
    """DateTime64 as decimal seconds."""

    def make(ticks: int) -> Decimal:
        return Decimal(ticks).scaleb(-precision)

    low, high = FIRST_SECOND * 10**precision, last * 10**precision
    ends = tuple(make(ticks) for ticks in (low, high, 0, -1))
    return Case(f"DateTime64({precision})", pa.decimal128(20, precision), ends, st.integers(low, high).map(make))


FIRST_SECOND, LAST_SECOND = -2208988800, 10413791999  # 1900-01-01 to 2299-12-31
ENUM = r"Enum8('a' = -1, 'b\'c, = 2' = 7, 'tab\there\\' = 127, 'é' = -128)"
LAST_DAY = (dt.date(2149, 6, 6) - dt.date(1970, 1, 1)).days
CASES = [
    *(_integers(f"{sign}Int{bits}", bits) for sign in ("", "U") for bits in (8, 16, 32, 64, 128, 256)),
    _floats("Float32", pa.float32(), 32),
    _floats("Float64", pa.float64(), 64),
    Case("Bool", pa.bool_(), (True, False), st.booleans()),
    Case("String", pa.binary(), ("", "a", "é" * 15, "x" * 31, "x" * 32, "x" * 300), st.text(max_size=80)),
    Case("String", pa.binary(), (b"\x00", b"\xff" * 31), st.binary(max_size=40)),
    Case("FixedString(5)", pa.binary(), ("", "abc", "abcde"), st.text("abcxyz", max_size=5)),
    Case("FixedString(40)", pa.binary(), (b"", b"k" * 40), st.binary(max_size=40)),
    Case("UUID", pa.binary(16), (bytes(range(16)), bytes(16)), st.binary(min_size=16, max_size=16)),
    Case("Enum8" + ENUM[5:], pa.int8(), (-1, 7, 127, -128), st.sampled_from([-1, 7, 127, -128])),
    Case("Enum16('x' = -300, 'y' = 300)", pa.int16(), (-300, 300), st.sampled_from([-300, 300])),
    Case("IPv4", pa.uint32(), (0, 2**32 - 1, 0x01020304), st.integers(0, 2**32 - 1)),
    Case("IPv6", pa.binary(16), (bytes(range(16)), bytes(16)), st.binary(min_size=16, max_size=16)),
    Case("Date", pa.date32(), (0, LAST_DAY), st.integers(0, LAST_DAY)),
    Case("Date32", pa.date32(), (-25567, 120529), st.integers(-25567, 120529)),
    _times("DateTime", "s", 0, 2**32 - 1),
    _times("DateTime('Europe/Berlin')", "s", 0, 2**32 - 1),
    _times("DateTime64(0)", "s", FIRST_SECOND, LAST_SECOND),
    _times("DateTime64(3, 'UTC')", "ms", -2208988800000, 10413791999999),
    _times("DateTime64(4)", "us", -22089888000000, 104137919999999, 100),
    _times("DateTime64(6)", "us", -2208988800000000, 10413791999999999),
    _times("DateTime64(9)", "ns", -2208988800 * 10**9, 9223372036 * 10**9),
    _seconds(0, LAST_SECOND),
    _seconds(7, LAST_SECOND),
    _seconds(8, LAST_SECOND),
    _seconds(9, 9_223_372_035),
    _decimals(9, 2, pa.decimal128(9, 2)),
    _decimals(18, 4, pa.decimal128(18, 4)),
    _decimals(38, 10, pa.decimal128(38, 10)),
    _decimals(76, 20, pa.decimal256(76, 20)),
    Case("LowCardinality(String)", pa.binary(), ("", "city"), st.text(max_size=20)),
    Case("LowCardinality(UInt32)", pa.uint32(), (0, 2**32 - 1), st.integers(0, 2**32 - 1)),
    Case("Nullable(Int64)", pa.int64(), (-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)),
    Case("LowCardinality(Nullable(FixedString(3)))", pa.binary(), ("", "abc"), st.text("abc", max_size=3)),
]
PAIRS = [
    (name, case)
    for name, case in itertools.product(FUNCTIONS, CASES)
    if parse_key_type(case.type).family in FUNCTIONS[name].families
]


class Engine:
    """One embedded ClickHouse; each question fills a table of its own through an Arrow file."""

    def __init__(self, folder: Path) -> None:
        replicas = "".join(
            f"<shard><weight>{weight}</weight><replica><host>127.0.0.{number}</host><port>1</port></replica></shard>"
            for number, weight in enumerate(WEIGHTS, start=1)
        )
        config = folder / "config.xml"
        cluster = f"<three>{replicas}</three>"
        config.write_text(f"<clickhouse><remote_servers>{cluster}</remote_servers></clickhouse>")
        self.data = folder / "data"
        self.wire = folder / "rows.arrow"
        self.session = session.Session(f"{self.data}?config-file={config}")
        self.query("SET allow_suspicious_low_cardinality_types = 1")
        self.query("CREATE DATABASE d")

    def query(self, sql: str) -> list[list[str]]:
        return [line.split("\t") for line in str(self.session.query(sql, "TSV")).splitlines()]

    def fill(self, types: Sequence[str], columns: Sequence[pa.Array]) -> None:
        """`d.t`: the columns `k0`, `k1`, … and the row number."""
        names = [f"k{number}" for number in range(len(types))]
        declared = ", ".join(f"{name} {type_}" for name, type_ in zip(names, types, strict=True))
        self.query(f"CREATE OR REPLACE TABLE d.t ({declared}, row UInt32) ENGINE = Memory")
        rows = pa.array(range(len(columns[0])), pa.uint32())
        table = pa.table([*columns, rows], names=[*names, "row"])
        with pa.ipc.new_file(self.wire, table.schema) as writer:
            writer.write_table(table)
        self.query(f"INSERT INTO d.t FROM INFILE '{self.wire}' FORMAT Arrow")

    def hashes(self, function: str, types: Sequence[str], columns: Sequence[pa.Array]) -> list[int | None]:
        self.fill(types, columns)
        names = ", ".join(f"k{number}" for number in range(len(types)))
        answer = self.query(f"SELECT {function}({names}) FROM d.t ORDER BY row")
        return [None if value == "\\N" else int(value) for (value,) in answer]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = Engine(tmp_path_factory.mktemp("sharding"))
    yield engine
    engine.session.close()


def layout(weights: Sequence[int], function: str, columns: int) -> Layout:
    shards = tuple(Shard((f"http://host{number}:8123",), weight) for number, weight in enumerate(weights))
    return Layout(shards, function, tuple(f"k{number}" for number in range(columns)))


def expected(hashes: Sequence[int | None], weights: Sequence[int], null: int = -1) -> list[int]:
    """The shard of each hash, by the definition: the slice that `hash % total_weight` lies in."""
    ends = list(itertools.accumulate(weights))
    return [null if value is None else bisect.bisect_right(ends, value % ends[-1]) for value in hashes]


def check(engine: Engine, function: str, types: Sequence[str], columns: Sequence[pa.Array]) -> None:
    hashes = engine.hashes(function, types, columns)
    assert len(hashes) == len(columns[0])
    # Many slots tell hashes apart; uneven slices tell the cut.
    for weights in ([1] * 1009, WEIGHTS, (1,) * 2):
        sharder = Sharder(layout(weights, function, len(types)), types)
        assert sharder.assign(columns, len(hashes)).shard.tolist() == expected(hashes, weights)


@pytest.mark.parametrize(("function", "case"), PAIRS, ids=str)
@given(data=st.data())
@SETTINGS
def test_each_type_and_function(engine: Engine, function: str, case: Case, data: st.DataObject) -> None:
    values = [*case.always, *data.draw(st.lists(case.drawn, max_size=60))]
    check(engine, function, [case.type], [pa.array(values, case.wire)])


def test_every_supported_combination_is_compared() -> None:
    compared = {(name, parse_key_type(case.type).family) for name, case in PAIRS}
    assert compared == {(name, family) for name, function in FUNCTIONS.items() for family in function.families}


@given(data=st.data())
@settings(SETTINGS, max_examples=20)
def test_several_columns(engine: Engine, data: st.DataObject) -> None:
    cases = data.draw(st.lists(st.sampled_from(CASES), min_size=2, max_size=6))
    rows = data.draw(st.integers(1, 20))
    columns = [pa.array(data.draw(st.lists(case.drawn, min_size=rows, max_size=rows)), case.wire) for case in cases]
    check(engine, "xxHash64", [case.type for case in cases], columns)


def test_null_where_the_engine_says_null(engine: Engine) -> None:
    columns = [pa.array([1, None, 3, None]), pa.array(["a", "b", None, None], pa.binary())]
    types = ["Nullable(Int64)", "LowCardinality(Nullable(String))"]
    hashes = engine.hashes("xxHash64", types, columns)
    assert [value is None for value in hashes] == [False, True, True, True]
    both = layout(WEIGHTS, "xxHash64", 2)
    first = replace(both, null_shard_key="first_shard")
    assert Sharder(both, types).assign(columns, 4).shard.tolist() == expected(hashes, WEIGHTS)
    assert Sharder(first, types).assign(columns, 4).shard.tolist() == expected(hashes, WEIGHTS, null=0)


def test_type_texts_as_the_engine_writes_them(engine: Engine) -> None:
    texts = [case.type for case in CASES]
    declared = ", ".join(f"c{number} {text}" for number, text in enumerate(texts))
    engine.query(f"CREATE OR REPLACE TABLE d.texts ({declared}) ENGINE = Memory")
    shown = engine.session.query(
        "SELECT type FROM system.columns WHERE database = 'd' AND table = 'texts' ORDER BY position", "TSVRaw"
    )
    for text, written in zip(texts, str(shown).splitlines(), strict=True):
        ours, its = parse_key_type(text), parse_key_type(written)
        assert (ours.family, ours.size, ours.scale) == (its.family, its.size, its.scale)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_int_hash_refuses_what_the_engine_refuses(engine: Engine, case: Case) -> None:
    engine.fill([case.type], [pa.array(case.always[:1], case.wire)])
    try:
        engine.query("SELECT intHash64(k0) FROM d.t")
        accepted = True
    except RuntimeError as error:
        assert "ILLEGAL_TYPE_OF_ARGUMENT" in str(error)  # noqa: PT017 - both outcomes are looked at
        accepted = False
    if accepted:
        Sharder(layout(WEIGHTS, "intHash64", 1), [case.type])
        return
    with pytest.raises(ConfigError) as refused:
        Sharder(layout(WEIGHTS, "intHash64", 1), [case.type])
    assert refused.value.id == "CHS-404"


def test_same_rows_as_a_distributed_table(engine: Engine) -> None:
    """ClickHouse's Distributed engine cuts 3,000 rows by itself; each shard's file holds exactly our rows."""
    rows = 3000
    columns = [
        pa.array([f"key-{row % 700}" for row in range(rows)], pa.binary()),
        pa.array([-row for row in range(rows)], pa.int32()),
    ]
    types = ["LowCardinality(String)", "Int32"]
    engine.fill(types, columns)
    engine.query("CREATE TABLE d.cut AS d.t ENGINE = Distributed(three, d, nowhere, xxHash64(k0, k1))")
    engine.query("SYSTEM STOP DISTRIBUTED SENDS d.cut")
    engine.query("INSERT INTO d.cut SELECT * FROM d.t SETTINGS distributed_foreground_insert = 0")
    assignment = Sharder(layout(WEIGHTS, "xxHash64", 2), types).assign(columns, rows)
    for shard in range(len(WEIGHTS)):
        (sent,) = engine.data.glob(f"store/*/*/shard{shard + 1}_replica1/*.bin")
        theirs = [int(line[2]) for line in engine.query(f"SELECT * FROM file('{sent}', 'Distributed')")]
        assert theirs == (assignment.shard == shard).nonzero()[0].tolist()
        assert len(theirs) == assignment.counts[shard]
