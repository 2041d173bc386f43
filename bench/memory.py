"""Does a worker's memory grow with its batch?  One batch of 1,000,000 records beside one of many more.

Each batch is landed by a job of its own, so that neither finds the other's memory already taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.measured import Measured, Place
from bench.speed import WrongRowsError
from bench.topic import PARTITIONS, produce, wrong

SMALL = 1_000_000
FLAT = 1.10


def measure(place: Place, large: int) -> dict[str, Any]:
    """Peak resident memory of the largest worker, and of the JVM, for both batches."""
    place.stack.kafka.create_topic("memory", PARTITIONS)
    client = place.client()
    small = min(SMALL, large // 10)
    batches, sent = [], 0
    for records in (small, large):
        produce(place.stack.kafka.bootstrap, "memory", sent, records, place.say)
        sent = records
        place.empty_table(client, "memory", deduplicated=True)
        with Measured(place, "c") as process:
            process.session_s()
            answer, usage = process.drain("memory", "memory")
        if fault := wrong(client, "memory", records):
            raise WrongRowsError(fault)
        worker, jvm = usage.peak_mib["worker"], usage.peak_mib["jvm"]
        place.say(f"memory: one batch of {records:,} records in {answer['seconds']:.1f} s, a worker {worker:.0f} MiB")
        batches.append({"records": records, "seconds": answer["seconds"], "worker_mib": worker, "jvm_mib": jvm})
    client.command("DROP TABLE memory SYNC")
    client.close()
    place.stack.kafka.delete_topic("memory")
    ratio = batches[1]["worker_mib"] / batches[0]["worker_mib"]
    return {"batches": batches, "worker_ratio": ratio, "goal": {"worker_ratio": FLAT, "met": ratio <= FLAT}}


def lines(figures: Mapping[str, Any]) -> list[str]:
    """A table for people."""
    out = ["memory: peak resident MiB of one process, by size of the one batch"]
    out.append(f"{'records':>12} {'seconds':>9} {'a worker':>9} {'JVM':>7}")
    out += [
        f"{b['records']:>12,} {b['seconds']:>9.1f} {b['worker_mib']:>9.0f} {b['jvm_mib']:>7.0f}"
        for b in figures["batches"]
    ]
    met = "met" if figures["goal"]["met"] else "MISSED"
    return [*out, f"goal a worker's memory flat (x {FLAT:.2f} at most): x {figures['worker_ratio']:.2f}, {met}"]
