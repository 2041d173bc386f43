"""What a hand-over costs: many topic-partitions of a few records each, in two parallel slots, without Spark.

Each hand-over opens a producer, reads the group, writes a file and sends one transaction.  Beside it, the same files
without a hand-over: the difference is what the hand-over adds to a batch.  Up to ``COMMITTED`` partitions, a
coordinator commits what was handed over, and the snapshots are counted.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from bench.coordinated import Coordinated, coordinated
from bench.lake import Lake
from bench.measured import Place
from bench.processes import cpu_s
from bench.topic import record
from chsink.mirror.files import DataFiles
from chsink.mirror.worker import TableWork, Worker
from chsink.statemachine.ranges import OffsetRange, TopicPartition

PARTITIONS = (1, 4, 64, 512)
COMMITTED = 64
GOAL_S = {4: 0.3, 64: 1.5, 512: 6.0}
SLOTS = 2
RECORDS = 100


def measure(place: Place) -> dict[str, Any]:
    """Seconds by number of partitions; warm, as a driver's second batch is."""
    lake = Lake(place.folder)
    rows = pa.RecordBatch.from_pydict(
        {
            "value": pa.array([record(n) for n in range(RECORDS)], pa.binary()),
            "offset": pa.array(range(RECORDS), pa.int64()),
            "timestamp": pa.array([0] * RECORDS, pa.timestamp("us", "UTC")),
        }
    )
    found = []
    for count in PARTITIONS:
        mirror = coordinated(place, lake, f"handed-{count}", count, RECORDS)
        batch = _committed(place, mirror, rows) if count <= COMMITTED else _begun(place, mirror, rows)
        found.append({"partitions": count, "load": os.getloadavg()[0], **batch})
        place.say(f"hand-over: {count} partitions in {batch['seconds']:.2f} s, {batch['adds_s']:.2f} s more than files")
    goals = {str(n): next(f["adds_s"] for f in found if f["partitions"] == n) < most for n, most in GOAL_S.items()}
    return {"slots": SLOTS, "batches": found, "met": goals}


def _committed(place: Place, mirror: Coordinated, rows: pa.RecordBatch) -> dict[str, Any]:
    with mirror.coordinator() as coordinator:
        batch = _batch(place, mirror, rows)
        commit_s, _ = mirror.commit(coordinator)
    return {**batch, "commit_s": commit_s, "commits": coordinator.commits, "snapshots": mirror.snapshots}


def _begun(place: Place, mirror: Coordinated, rows: pa.RecordBatch) -> dict[str, Any]:
    """Without a coordinator, which would settle each partition first."""
    with mirror.names.sender("bench-begin", mirror.names.group) as sender:
        sender.send("begin", [], dict.fromkeys(mirror.tps, 0))
    return _batch(place, mirror, rows)


def _batch(place: Place, mirror: Coordinated, rows: pa.RecordBatch) -> dict[str, float]:
    broker = place.services["kafka"]
    mine, brokers = time.process_time(), cpu_s(broker) or 0.0
    with_it = _timed(mirror.tps, lambda tp: _hand_over(mirror, tp, rows))
    mine, brokers = time.process_time() - mine, (cpu_s(broker) or 0.0) - brokers
    without = _timed(mirror.tps, lambda _: _write(mirror.work, rows))
    return {"seconds": with_it, "adds_s": with_it - without, "cpu_s": mine, "kafka_cpu_s": brokers}


def _timed(tps: Sequence[TopicPartition], one: Callable[[TopicPartition], None]) -> float:
    with ThreadPoolExecutor(SLOTS) as slots:
        began = time.perf_counter()
        list(slots.map(one, tps))
        return time.perf_counter() - began


def _hand_over(mirror: Coordinated, tp: TopicPartition, rows: pa.RecordBatch) -> None:
    Worker(mirror.names, tp, mirror.topic_id, [mirror.work]).run(OffsetRange(0, RECORDS), lambda _: [rows])


def _write(work: TableWork, rows: pa.RecordBatch) -> None:
    files = DataFiles(work.metadata, work.io, uuid.uuid4())
    files.write(work.columns.decode(rows).batch)
    files.close()


def lines(figures: Mapping[str, Any]) -> list[str]:
    """A table for people."""
    out = [f"hand-over: what it adds to a batch of {figures['slots']} task slots, and CPU seconds of workers and Kafka"]
    for batch in figures["batches"]:
        count = batch["partitions"]
        cpu = f"CPU {batch['cpu_s']:.2f} and {batch['kafka_cpu_s']:.2f} s"
        text = f"{count:>5} partitions {batch['adds_s']:>6.2f} s, {cpu}"
        if "commits" in batch:
            text += f", commits {batch['commits']}, snapshots {batch['snapshots']}"
        if count in GOAL_S:
            text += f"   goal < {GOAL_S[count]} s: {'met' if figures['met'][str(count)] else 'MISSED'}"
        out.append(text)
    return out
