"""Typed shard keys, and the real engine's answer to the question which shard each belongs to.

``CASES`` are the ClickHouse types that a shard key can have, each with fixed values and a generator of random ones.
``Engine`` is one embedded ClickHouse.  It answers in two ways: with the hashes alone, which is fast, and through a
`Distributed` table, which in background mode writes each shard's rows to separate files before it sends them.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from chdb import session

from chsink.clickhouse.distributed import Naming, cluster_definition
from chsink.config import Config
from chsink.notation.hash_functions import HASH_FUNCTIONS
from chsink.sharding import Layout, Shard, Sharder

WEIGHTS = (2, 1, 5)
SLOTS = (1,) * 1009
"""Many slots, one per shard, so that different hashes rarely give the same shard."""

Random = np.random.Generator


@dataclass(frozen=True)
class Case:
    """A ClickHouse type, its Arrow wire type, and values of it: some always, the others drawn."""

    type: str
    wire: pa.DataType
    always: tuple[Any, ...]
    draw: Callable[[Random, int], Sequence[Any]]

    def __str__(self) -> str:
        return f"{self.type} as {self.wire}"

    def values(self, random: Random, count: int) -> pa.Array:
        """``count`` values, beginning with those that are always tried."""
        return pa.array([*self.always, *self.draw(random, count)][:count], self.wire)


def _number(random: Random, low: int, high: int) -> int:
    """Evenly over the number of digits, so that small numbers occur too."""
    span = high - low
    bits = int(random.integers(1, span.bit_length() + 1))
    drawn = int.from_bytes(random.bytes(bits // 8 + 1), "little") % (1 << bits)
    return max(low, min(high, drawn + (low if random.integers(2) else 0)))


def _numbers(low: int, high: int, make: Callable[[int], Any] = int) -> Callable[[Random, int], list[Any]]:
    return lambda random, count: [make(_number(random, low, high)) for _ in range(count)]


def _integers(type_: str, bits: int) -> Case:
    signed = not type_.startswith("U")
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def make(value: int) -> int | bytes:
        return value.to_bytes(bits // 8, "little", signed=signed) if bits > 64 else value

    wire = pa.binary(bits // 8) if bits > 64 else getattr(pa, type_.lower())()
    return Case(type_, wire, tuple(map(make, (low, high, 0, 1))), _numbers(low, high, make))


def _floats(type_: str, wire: pa.DataType) -> Case:
    always = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.5)
    return Case(
        type_,
        wire,
        always,
        lambda random, count: list(random.normal(scale=1e9, size=count).astype(wire.to_pandas_dtype())),
    )


def _decimals(precision: int, scale: int, wire: pa.DataType) -> Case:
    top = 10**precision - 1

    def make(unscaled: int) -> Decimal:
        digits = str(abs(unscaled)).rjust(scale + 1, "0")
        return Decimal(f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}")

    ends = tuple(make(unscaled) for unscaled in (0, -1, 1, top, -top))
    return Case(f"Decimal({precision}, {scale})", wire, ends, _numbers(-top, top, make))


def _times(type_: str, unit: str, low: int, high: int, step: int = 1) -> Case:
    wire = pa.timestamp(unit, "UTC")
    ends = (low * step, high * step, 0, step)
    return Case(type_, wire, ends, _numbers(low, high, lambda ticks: ticks * step))


def _seconds(precision: int, last: int) -> Case:
    """DateTime64 as decimal seconds."""

    def make(ticks: int) -> Decimal:
        return Decimal(ticks).scaleb(-precision)

    low, high = FIRST_SECOND * 10**precision, last * 10**precision
    ends = tuple(make(ticks) for ticks in (low, high, 0, -1))
    return Case(f"DateTime64({precision})", pa.decimal128(20, precision), ends, _numbers(low, high, make))


def _bytes(longest: int, shortest: int = 0) -> Callable[[Random, int], list[bytes]]:
    return lambda random, count: [random.bytes(int(n)) for n in random.integers(shortest, longest + 1, count)]


def _texts(random: Random, count: int) -> list[bytes]:
    alphabet = np.array(list("abcxyz 0189\0éß漢字🙂"))
    return ["".join(random.choice(alphabet, int(n))).encode() for n in random.integers(0, 60, count)]


FIRST_SECOND, LAST_SECOND = -2208988800, 10413791999  # 1900-01-01 to 2299-12-31
ENUM = r"Enum8('a' = -1, 'b\'c, = 2' = 7, 'tab\there\\' = 127, 'é' = -128)"
LAST_DAY = (dt.date(2149, 6, 6) - dt.date(1970, 1, 1)).days
LONG = tuple(b"0123456789abcdef"[:1] * n for n in (127, 128, 129, 239, 240, 241, 256, 511, 512, 513, 1024, 5000))
CASES = [
    *(_integers(f"{sign}Int{bits}", bits) for sign in ("", "U") for bits in (8, 16, 32, 64, 128, 256)),
    _floats("Float32", pa.float32()),
    _floats("Float64", pa.float64()),
    Case("Bool", pa.bool_(), (True, False), lambda random, count: list(random.integers(0, 2, count) > 0)),
    Case("String", pa.binary(), ("", "a", "é" * 15, "x" * 31, "x" * 32, *LONG), _texts),
    Case("String", pa.binary(), (b"\x00", b"\x00\x00", b"\xff" * 31), _bytes(300)),
    Case("FixedString(5)", pa.binary(), ("", "abc", "abcde"), _bytes(5)),
    Case("FixedString(40)", pa.binary(), (b"", b"k" * 40), _bytes(40)),
    Case("UUID", pa.binary(16), (bytes(range(16)), bytes(16)), _bytes(16, 16)),
    Case(
        "Enum8" + ENUM[5:],
        pa.int8(),
        (-1, 7, 127, -128),
        lambda random, count: list(random.choice([-1, 7, 127, -128], count)),
    ),
    Case(
        "Enum16('x' = -300, 'y' = 300)",
        pa.int16(),
        (-300, 300),
        lambda random, count: list(random.choice([-300, 300], count)),
    ),
    Case("IPv4", pa.uint32(), (0, 2**32 - 1, 0x01020304), _numbers(0, 2**32 - 1)),
    Case("IPv6", pa.binary(16), (bytes(range(16)), bytes(16)), _bytes(16, 16)),
    Case("Date", pa.date32(), (0, LAST_DAY), _numbers(0, LAST_DAY)),
    Case("Date32", pa.date32(), (-25567, 120529), _numbers(-25567, 120529)),
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
    Case("LowCardinality(String)", pa.binary(), ("", "city"), _bytes(3)),
    Case("LowCardinality(UInt32)", pa.uint32(), (0, 2**32 - 1), _numbers(0, 2**32 - 1)),
    Case("Nullable(Int64)", pa.int64(), (-(2**63), 2**63 - 1), _numbers(-(2**63), 2**63 - 1)),
    Case("LowCardinality(Nullable(FixedString(3)))", pa.binary(), ("", "abc"), _bytes(3)),
]


NAMING = Naming("three", ports=(1, 1))


def a_job(hash_function: str = "xxHash64", shard_key: Sequence[str] = ("k0",)) -> Config:
    """A job that writes `d.t` on the engine's three shards."""
    endpoints = [
        {"url": f"http://127.0.0.{number}:8123", "weight": weight} for number, weight in enumerate(WEIGHTS, start=1)
    ]
    clickhouse = {"endpoints": endpoints, "hash_function": hash_function, "shard_key": list(shard_key)}
    return Config.from_mapping(
        {
            "sink": {"name": "s"},
            "kafka": {"bootstrap": "localhost:9092"},
            "route": [{"topic": "t", "table": "d.t"}],
            "clickhouse": clickhouse,
        }
    )


def _pairs(*parts: Case) -> Callable[[Random, int], list[Any]]:
    def draw(random: Random, count: int) -> list[Any]:
        columns = [part.values(random, count).to_pylist() for part in parts]
        return [{f"f{number}": value for number, value in enumerate(row)} for row in zip(*columns, strict=True)]

    return draw


def _tuple(type_: str, *parts: Case) -> Case:
    """Its elements are called f0, f1, … on the wire."""
    wire = pa.struct([pa.field(f"f{number}", part.wire) for number, part in enumerate(parts)])
    return Case(type_, wire, (), _pairs(*parts))


_BY_TYPE = {case.type: case for case in CASES}
_INNER = _tuple("Tuple(f0 Int8, f1 UUID)", _BY_TYPE["Int8"], _BY_TYPE["UUID"])
TUPLES = [
    _tuple("Tuple(f0 UInt32, f1 String)", _BY_TYPE["UInt32"], _BY_TYPE["String"]),
    _tuple("Tuple(f0 Decimal(18, 4))", _BY_TYPE["Decimal(18, 4)"]),
    _tuple(
        "Tuple(f0 LowCardinality(String), f1 Tuple(f0 Int8, f1 UUID), f2 Date32)",
        _BY_TYPE["LowCardinality(String)"],
        _INNER,
        _BY_TYPE["Date32"],
    ),
]
"""Keys of several values in one column."""


class Engine:
    """One embedded ClickHouse; each question fills a table of its own through an Arrow file."""

    def __init__(self, folder: Path) -> None:
        config = folder / "config.xml"
        one = "<one><shard><replica><host>127.0.0.9</host><port>1</port></replica></shard></one>"
        text = cluster_definition(a_job(), NAMING).replace("</remote_servers>", f"{one}</remote_servers>")
        config.write_text(text)
        self.data = folder / "data"
        self.wire = folder / "rows.arrow"
        self.session = session.Session(f"{self.data}?config-file={config}")
        self.query("SET allow_suspicious_low_cardinality_types = 1")
        self.query("CREATE DATABASE d")

    def query(self, sql: str) -> list[list[str]]:
        return [line.split("\t") for line in str(self.session.query(sql, "TSV")).splitlines()]

    def arrow(self, sql: str) -> pa.Table:
        answer = self.session.query(sql, "ArrowStream").bytes()
        return pa.ipc.open_stream(answer).read_all()

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

    def results(self, expressions: Mapping[str, str]) -> dict[str, list[int | None]]:
        """What `Distributed` would divide for the rows of `d.t`, by name of the expression."""
        selected = ", ".join(f"{text} AS `{name}`" for name, text in expressions.items())
        table = self.arrow(
            f"SELECT {selected} FROM d.t ORDER BY row SETTINGS output_format_arrow_low_cardinality_as_dictionary = 0"
        )
        return {name: _unsigned(table.column(name)) for name in expressions}

    def refuses(self, expression: str) -> bool:
        """Whether a `Distributed` table over `d.t` cannot have this sharding key, or cannot evaluate it."""
        codes = ("ILLEGAL_TYPE", "NOT_IMPLEMENTED", "TYPE_MISMATCH", "NUMBER_OF_ARGUMENTS")
        try:
            self._insert_through(expression)
        except RuntimeError as error:
            if not any(code in str(error) for code in codes):
                raise
            return True
        return False

    def cut(self, expression: str, rows: int) -> list[list[int]]:
        """Of the first rows of `d.t`, those that a `Distributed` table sends to each shard, ascending."""
        self._insert_through(expression, rows)
        return self._files()

    def _files(self) -> list[list[int]]:
        ((path,),) = self.query("SELECT data_paths[1] FROM system.tables WHERE database = 'd' AND name = 'cut'")
        return [self._sent(Path(path) / f"shard{number}_all_replicas") for number in range(1, len(WEIGHTS) + 1)]

    def _insert_through(self, expression: str, rows: int = 1) -> None:
        self.query(f"CREATE OR REPLACE TABLE d.cut AS d.t ENGINE = Distributed(three, d, nowhere, {expression})")
        self._insert(rows)

    def cut_through(self, statement: str, rows: int) -> list[list[int]]:
        """The same for a `Distributed` table over `d.t` that this statement creates as `d.cut`."""
        self.query("DROP TABLE IF EXISTS d.cut")
        self.query(statement)
        self._insert(rows)
        return self._files()

    def _insert(self, rows: int) -> None:
        self.query("SYSTEM STOP DISTRIBUTED SENDS d.cut")
        self.query(f"INSERT INTO d.cut SELECT * FROM d.t WHERE row < {rows} SETTINGS distributed_foreground_insert = 0")

    def _sent(self, folder: Path) -> list[int]:
        if not list(folder.glob("*.bin")):
            return []
        # The format cannot read a part of the columns.
        self.query("CREATE OR REPLACE TABLE d.sent AS d.t ENGINE = Memory")
        self.query(f"INSERT INTO d.sent SELECT * FROM file('{folder}/*.bin', 'Distributed')")
        rows = self.arrow("SELECT row FROM d.sent")
        return sorted(rows.column("row").to_pylist())


def _unsigned(column: pa.ChunkedArray) -> list[int | None]:
    """`Distributed` takes results of at most 32 bits as UInt32, others as UInt64."""
    mask = 2 ** (32 if column.type.bit_width <= 32 else 64) - 1
    return [None if value is None else int(value) & mask for value in column.to_pylist()]


def layout(weights: Sequence[int], function: str, columns: int) -> Layout:
    shards = tuple(Shard((f"http://host{number}:8123",), weight) for number, weight in enumerate(weights))
    return Layout(shards, function, tuple(f"k{number}" for number in range(columns)))


def assigned(
    function: str, types: Sequence[str], columns: Sequence[pa.Array], weights: Sequence[int]
) -> npt.NDArray[np.int32]:
    """The shard of each row, as chsink chooses it."""
    sharder = Sharder(layout(weights, function, len(types)), types)
    return sharder.assign(columns, len(columns[0])).shard


def expression(function: str, columns: int = 1) -> str:
    """The sharding expression over the first columns of `d.t`."""
    return HASH_FUNCTIONS[function].expression([f"k{number}" for number in range(columns)])
