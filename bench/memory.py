"""Does a worker's memory grow with its batch?  One batch of 1,000,000 records beside one of many more.

Each batch is landed by a job of its own, so that neither can reuse memory that the other has allocated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench import lake, topic
from bench.measured import Measured, Place
from bench.processes import Usage
from bench.speed import WrongRowsError
from bench.topic import PARTITIONS, produce

SMALL = 1_000_000
FLAT = 1.10


def measure(place: Place, large: int, variant: str = "c") -> dict[str, Any]:
    """Peak resident memory of the largest worker, and of the JVM, for both batches.  ``variant`` "m" is the mirror."""
    place.stack.kafka.create_topic("memory", PARTITIONS)
    small = min(SMALL, large // 10)
    batches, sent = [], 0
    for records in (small, large):
        produce(place.stack.kafka.bootstrap, "memory", sent, records, place.say)
        sent = records
        with Measured(place, variant) as process:
            process.session_s()
            answer, usage, fault = (_mirrored if variant == "m" else _landed)(place, process, records)
        if fault:
            raise WrongRowsError(fault)
        worker, jvm = usage.peak_mib["worker"], usage.peak_mib["jvm"]
        place.say(f"memory: one batch of {records:,} records in {answer['seconds']:.1f} s, a worker {worker:.0f} MiB")
        batches.append({"records": records, "seconds": answer["seconds"], "worker_mib": worker, "jvm_mib": jvm})
    place.stack.kafka.delete_topic("memory")
    ratio = batches[1]["worker_mib"] / batches[0]["worker_mib"]
    return {"batches": batches, "worker_ratio": ratio, "goal": {"worker_ratio": FLAT, "met": ratio <= FLAT}}


def _landed(place: Place, process: Measured, records: int) -> tuple[dict[str, Any], Usage, str | None]:
    client = place.client()
    place.empty_table(client, "memory", deduplicated=True)
    answer, usage = process.drain("memory", "memory")
    fault = topic.wrong(client, "memory", records)
    client.command("DROP TABLE memory SYNC")
    client.close()
    return answer, usage, fault


def _mirrored(place: Place, process: Measured, records: int) -> tuple[dict[str, Any], Usage, str | None]:
    tables = lake.Lake(place.folder)
    name = tables.table(f"memory{records}")
    answer, usage = process.drain("memory", name, lake=tables.properties)
    fault = lake.wrong(tables.rows("m", name), records)
    tables.remove("m", name)
    return answer, usage, fault


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
