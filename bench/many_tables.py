"""One mirror of 300 tables that share a topic: ``python -m bench.many_tables [TABLES [RECORDS]]``.

Each record names its table.  Measured without Spark: the start, one range that is handed over to all tables, its
commit with one and with several tables at a time, a round in which nothing is new, and a reading of all tables.
``make bench`` measures it with as many tables at a time as by default.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, sleep
from typing import Any, TypeVar

import pyarrow as pa
import structlog
from confluent_kafka import Producer
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from chsink.clock import SystemClock
from chsink.config import Config
from chsink.embedded.kafka import EmbeddedKafka
from chsink.kafka.admin import open_admin
from chsink.mirror.coordinator import Coordinator
from chsink.mirror.known_tables import Hole
from chsink.mirror.opening import THREADS, OpenMirror, open_mirror
from chsink.mirror.task import Feeds, Share
from chsink.statemachine.commit.rounds import CommitPace
from chsink.statemachine.ranges import OffsetRange, TopicPartition

COLUMNS = 10
TICK_S, LIMIT_S = 0.02, 600.0
SLOW_MS = 20
"""What a catalog and a storage on a network add to each reading of a table and to each commit."""
QUIET = structlog.wrap_logger(structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(50))


T = TypeVar("T")
Took = tuple[float, float]


def main() -> int:
    """Measure and print a row for each step.  Seconds, and seconds of CPU time of this process."""
    tables, records = [*map(int, sys.argv[1:]), *(300, 100_000)[len(sys.argv) - 1 :]]
    with TemporaryDirectory() as folder, EmbeddedKafka(Path(folder) / "kafka") as kafka:
        print("catalog", "threads", "step", "seconds", "cpu_s", sep="\t")
        for number, (threads, slow_ms) in enumerate([(1, 0), (THREADS, 0), (1, SLOW_MS), (THREADS, SLOW_MS)]):
            place = Path(folder) / f"lake{number}"
            place.mkdir()
            for step, (seconds, cpu) in _steps(kafka, place, Case(tables, records, threads, slow_ms)):
                row = (f"{slow_ms} ms away", threads, step, f"{seconds:.2f}", f"{cpu:.2f}")
                print(*row, sep="\t", flush=True)
    return 0


def measure(kafka: EmbeddedKafka, folder: Path, tables: int, records: int = 100_000) -> dict[str, Any]:
    """Seconds of each step, and of CPU time of this process."""
    place = folder / "many-tables"
    place.mkdir()
    steps = dict(_steps(kafka, place, Case(tables, records, THREADS, 0)))
    return {"tables": tables, "records": records, "threads": THREADS, "load": os.getloadavg()[0], "steps": steps}


def lines(figures: Mapping[str, Any]) -> list[str]:
    """A table for people."""
    size = f"{figures['records']:,} records, {figures['threads']} tables at a time; load {figures['load']:.1f}"
    out = [f"many tables: {figures['tables']} that share a topic, {size}"]
    return [*out, *(f"{step:<28} {s:>6.2f} s, CPU {cpu:>6.2f} s" for step, (s, cpu) in figures["steps"].items())]


@dataclass(frozen=True)
class Case:
    """A catalog that is ``slow_ms`` away, asked by so many threads."""

    tables: int
    records: int
    threads: int
    slow_ms: int


def _steps(kafka: EmbeddedKafka, folder: Path, case: Case) -> Iterator[tuple[str, Took]]:
    topic, tables, records = folder.name, case.tables, case.records
    kafka.create_topic(topic, 1)
    kafka.create_topic(f"{topic}-control", 1)
    values = _produced(kafka.bootstrap, topic, tables, 2 * records)
    mirror = _mirror(kafka.bootstrap, folder, topic, case)
    feeds, took = _timed(mirror.feeds)
    yield "read all tables", took
    coordinator = Coordinator(
        mirror.names,
        mirror.targets,
        mirror.kafka,
        clock=SystemClock(),
        pace=CommitPace(interval_ms=1, timeout_ms=60_000, buffer=1_000_000),
        reread=_unexpected,
        log=QUIET,
        threads=case.threads,
    )
    yield "start, which stores origins", _timed(coordinator.start)[1]
    yield "hand over", _timed(lambda: _hand_over(feeds, topic, 0, values[:records]))[1]
    yield "commit", _timed(lambda: _committed(coordinator, tables))[1]
    _hand_over(feeds, topic, records, values[records:])
    yield "the next commit", _timed(lambda: _committed(coordinator, 2 * tables))[1]
    rounds = coordinator.rounds
    yield "a round with nothing new", _timed(lambda: _until(coordinator, lambda: coordinator.rounds > rounds))[1]
    coordinator.close()


def _timed(work: Callable[[], T]) -> tuple[T, Took]:
    began, cpu = perf_counter(), process_time()
    done = work()
    return done, (perf_counter() - began, process_time() - cpu)


def _produced(bootstrap: str, topic: str, tables: int, count: int) -> list[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 2 * count})
    more = {f"text{n}": "x" * 10 for n in range(COLUMNS - 3)}
    values = [json.dumps({"kind": f"k{n % tables}", "id": n, "amount": n / 4, **more}).encode() for n in range(count)]
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(120) == 0
    return values


def _mirror(bootstrap: str, folder: Path, topic: str, case: Case) -> OpenMirror:
    tables, slow_ms = case.tables, case.slow_ms
    catalog = {
        "name": "lake",
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/w",
    }
    lake = SqlCatalog("lake", uri=catalog["uri"], warehouse=catalog["warehouse"])
    lake.create_namespace("shop")
    texts = [NestedField(4 + n, f"text{n}", StringType()) for n in range(COLUMNS - 3)]
    numbers = [NestedField(2, "id", LongType()), NestedField(3, "amount", DoubleType())]
    for number in range(tables):
        lake.create_table(f"shop.t{number}", Schema(NestedField(1, "kind", StringType()), *numbers, *texts))
    by = {"field": "$.kind", "tables": {f"k{n}": f"shop.t{n}" for n in range(tables)}}
    routes = [{"topic": topic, "table_by": by}]
    mirror = {"enabled": True, "catalog": catalog, "control_topic": f"{topic}-control", "route": routes}
    config = Config.from_mapping({"sink": {"name": topic}, "kafka": {"bootstrap": bootstrap}, "mirror": mirror})
    opened = replace(open_mirror(config, open_admin(config)), threads=case.threads)
    for method in ("load_table", "commit_table") if slow_ms else ():
        setattr(opened.catalog, method, _later(getattr(opened.catalog, method), slow_ms))
    return opened


def _later(method: Callable[..., T], slow_ms: int) -> Callable[..., T]:
    """The method of a catalog that is so far away."""

    def later(*arguments: object) -> T:
        sleep(slow_ms / 1000)
        return method(*arguments)

    return later


def _hand_over(feeds: Feeds, topic: str, start: int, values: list[bytes]) -> None:
    count = len(values)
    records = pa.RecordBatch.from_pydict({
        "topic": pa.array([topic] * count),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(start, start + count), pa.int64()),
        "timestamp": pa.array([1_700_000_000_000_000] * count, pa.timestamp("us", "UTC")),
        "value": pa.array(values, pa.binary()),
    })  # fmt: skip
    feeds.hand_over(Share(TopicPartition(topic, 0), OffsetRange(start, start + count)), [records])


def _committed(coordinator: Coordinator, commits: int) -> None:
    _until(coordinator, lambda: coordinator.commits == commits)


def _until(coordinator: Coordinator, is_so: Callable[[], bool]) -> None:
    began = perf_counter()
    while not is_so():
        coordinator.tick(TICK_S)
        assert perf_counter() - began < LIMIT_S, "the coordinator commits what was handed over"


def _unexpected(hole: Hole) -> None:
    raise AssertionError(f"nothing is missing, and {hole} is read again")


if __name__ == "__main__":
    sys.exit(main())
