"""What it costs to hand over: many topic-partitions of a few records each, as two task slots do it, without Spark.

Each hand-over opens a producer, reads the group, writes a file and sends one transaction.  Beside it, the same files
without a hand-over: the difference is what the hand-over adds to a batch.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from bench.lake import Lake
from bench.measured import Place
from bench.topic import record
from chsink.mirror.control import Names
from chsink.mirror.events import TableReference
from chsink.mirror.files import Files
from chsink.mirror.types import TableColumns
from chsink.mirror.worker import TableWork, Worker
from chsink.statemachine.ranges import OffsetRange, TopicPartition

PARTITIONS = (1, 4, 64, 512)
GOAL_S = {4: 0.3, 64: 1.5, 512: 6.0}
SLOTS = 2
RECORDS = 100


def measure(place: Place) -> dict[str, Any]:
    """Seconds by number of partitions; warm, as a driver's second batch is."""
    lake = Lake(place.folder)
    table = lake.catalog().load_table(lake.new("m", 999))
    work = TableWork(
        TableReference("lake", ("bench",), "run999"), table.metadata, table.io, TableColumns(table.schema())
    )
    rows = pa.RecordBatch.from_pydict(
        {
            "value": pa.array([record(n) for n in range(RECORDS)], pa.binary()),
            "offset": pa.array(range(RECORDS), pa.int64()),
            "timestamp": pa.array([0] * RECORDS, pa.timestamp("us", "UTC")),
        }
    )
    found = []
    for count in PARTITIONS:
        topic, control = f"handed-{count}", f"handed-{count}-control"
        place.stack.kafka.create_topic(topic, count)
        place.stack.kafka.create_topic(control, 1)
        names = Names({"bootstrap.servers": place.stack.kafka.bootstrap, "log_level": "0"}, control, f"bench-{count}", 30)
        tps = [TopicPartition(topic, number) for number in range(count)]
        with names.sender("bench-begin", names.group) as sender:
            sender.send("begin", [], dict.fromkeys(tps, 0))
        with_it = _timed(tps, lambda tp, names=names: _hand_over(names, tp, work, rows))  # type: ignore[misc]
        without = _timed(tps, lambda _: _write(work, rows))
        found.append({"partitions": count, "seconds": with_it, "adds_s": with_it - without})
        place.say(f"hand-over: {count} partitions in {with_it:.2f} s, of it files {without:.2f} s")
    goals = {str(n): next(f["adds_s"] for f in found if f["partitions"] == n) < most for n, most in GOAL_S.items()}
    return {"slots": SLOTS, "batches": found, "met": goals}


def _timed(tps: Sequence[TopicPartition], one: Callable[[TopicPartition], None]) -> float:
    with ThreadPoolExecutor(SLOTS) as slots:
        began = time.perf_counter()
        list(slots.map(one, tps))
        return time.perf_counter() - began


def _hand_over(names: Names, tp: TopicPartition, work: TableWork, rows: pa.RecordBatch) -> None:
    Worker(names, tp, "id", [work]).run(OffsetRange(0, RECORDS), lambda _: [rows])


def _write(work: TableWork, rows: pa.RecordBatch) -> None:
    files = Files(work.metadata, work.io, uuid.uuid4())
    files.write(work.columns.decode(rows).batch)
    files.close()


def lines(figures: Mapping[str, Any]) -> list[str]:
    """A table for people."""
    out = [f"hand-over: what it adds to a batch of {figures['slots']} task slots"]
    for batch in figures["batches"]:
        count = batch["partitions"]
        goal = ""
        if count in GOAL_S:
            goal = f"   goal < {GOAL_S[count]} s: {'met' if figures['met'][str(count)] else 'MISSED'}"
        out.append(f"{count:>5} partitions {batch['adds_s']:>7.2f} s, a batch {batch['seconds']:>6.2f} s{goal}")
    return out
