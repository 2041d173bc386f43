"""What does a batch cost beyond its records?  Batches of one record a partition, without a transform.

Fixed is what (c) chsink does on the driver, while no task runs: it reads the plan, asks Kafka and ClickHouse, writes
BEFORE and AFTER, and asks how far it is behind.  What its tasks do beyond inserting is seen beside (bt), the plain job
with tuned reads.  Statements are those of the driver (a batch's own), and by the server's count those of all.  They are
differences of two runs, one of a few batches and one of ``BATCHES`` more: what a start costs is in both.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench import topic
from bench.measured import Measured, Place
from bench.processes import Watch
from bench.speed import KINDS, WrongRowsError

PARTITIONS = (4, 64, 512)
GOALS_MS = {4: 120, 512: 600}
BEFORE = 3
BATCHES = 10
PHASES = ("plan", "before", "insert", "after")


def measure(place: Place) -> dict[str, Any]:
    """Milliseconds and statements of a batch, by number of partitions."""
    rows = []
    with Measured(place, "c") as sink, Measured(place, "bt") as plain:
        for process in (sink, plain):
            process.session_s()
        for partitions in PARTITIONS:
            rows.append(_of(place, sink, plain, partitions))
            place.say(f"overhead: {_line(rows[-1])}")
    return {"rows": rows, "goals": goals(rows)}


def _of(place: Place, sink: Measured, plain: Measured, partitions: int) -> dict[str, Any]:
    name = f"overhead_{partitions}"
    topic.create(place.stack.kafka.bootstrap, {name: partitions})
    runs: dict[int, dict[str, Any]] = {}
    _send(place, name, partitions, range(BEFORE * partitions))
    for _ in ("warm-up", "counted"):
        runs[BEFORE] = _drain(place, sink, name, partitions, BEFORE)
        few = _drain(place, plain, name, partitions, BEFORE)
    batches = BEFORE + BATCHES
    _send(place, name, partitions, range(BEFORE * partitions, batches * partitions))
    runs[batches] = _drain(place, sink, name, partitions, batches)
    beside = _drain(place, plain, name, partitions, batches)
    place.stack.kafka.delete_topic(name)
    return {"partitions": partitions, "plain_ms": beside["batch_ms"], "plain_cpu_ms": _cpu_ms(few, beside),
            "load": os.getloadavg()[0], **figures_of(runs[BEFORE], runs[batches])}  # fmt: skip


def _send(place: Place, name: str, partitions: int, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": place.stack.kafka.bootstrap, "linger.ms": 50})
    for number in numbers:
        producer.produce(name, value=topic.record(number), partition=number % partitions)
    left = producer.flush(60)
    assert left == 0, f"{left} records were not delivered"


def _drain(place: Place, process: Measured, name: str, partitions: int, batches: int) -> dict[str, Any]:
    """One run of so many batches; its sums."""
    client = place.client()
    checkpoint, before = place.checkpoint(), place.statements(client)
    place.empty_table(client, name, deduplicated=process.variant == "c")
    with Watch(process.pid, place.services) as watch:
        process.begin(name, name, checkpoint, sink=f"bench-{Path(checkpoint).name}", max_offsets=partitions)
        answer = process.result()
    had = {kind: count - before[kind] for kind, count in place.statements(client).items()}
    if fault := topic.wrong(client, name, batches * partitions):
        raise WrongRowsError(fault)
    steps = answer["steps_ms"]
    if len(steps) != batches:
        raise WrongRowsError(f"{name}: {len(steps)} batches, expected {batches}")
    client.command(f"DROP TABLE {name} SYNC")
    client.close()
    return {
        "batch_ms": statistics.fmean(step["triggerExecution"] for step in steps),
        "sink_ms": statistics.fmean(step["addBatch"] for step in steps),
        "phases_ms": {phase: 1000 * (answer.get("phases", {}).get(phase) or 0.0) / batches for phase in PHASES},
        "cpu_ms": {kind: 1000 * cpu for kind, cpu in watch.usage.cpu_s.items()},
        "statements": {"driver": answer.get("statements", 0), **had, "pieces": answer.get("inserts", 0)},
    }


def _cpu_ms(few: Mapping[str, Any], many: Mapping[str, Any]) -> dict[str, float]:
    """CPU time of a batch by kind of process."""
    return {kind: (many["cpu_ms"].get(kind, 0.0) - few["cpu_ms"].get(kind, 0.0)) / BATCHES for kind in KINDS}


def figures_of(few: Mapping[str, Any], many: Mapping[str, Any]) -> dict[str, Any]:
    """A batch's milliseconds by phase, and its statements, of a run with few batches and one with ``BATCHES`` more."""
    phases = many["phases_ms"]
    a_batch = {kind: (count - few["statements"][kind]) / BATCHES for kind, count in many["statements"].items()}
    return {
        "batch_ms": many["batch_ms"],
        "fixed_ms": many["sink_ms"] - phases["insert"],
        "phases_ms": {**phases, "rest": many["sink_ms"] - sum(phases.values())},
        "spark_ms": many["batch_ms"] - many["sink_ms"],
        "cpu_ms": _cpu_ms(few, many),
        "driver_statements": a_batch["driver"],
        "questions": a_batch["questions"],
        "inserts": a_batch["inserts"],
        "pieces": a_batch["pieces"],
    }


def goals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Time by number of partitions, and whether the driver's statements depend on it."""
    sent = [row["driver_statements"] for row in rows]
    return {
        "fixed_ms": {
            str(row["partitions"]): {"goal": limit, "met": row["fixed_ms"] < limit}
            for row in rows
            if (limit := GOALS_MS.get(row["partitions"])) is not None
        },
        "statements_met": max(sent, default=0) == min(sent, default=0),
    }


def _line(row: Mapping[str, Any]) -> str:
    phases = ", ".join(f"{name} {ms:.0f}" for name, ms in row["phases_ms"].items())
    return (
        f"{row['partitions']:>4} partitions: fixed {row['fixed_ms']:.0f} ms of {row['batch_ms']:.0f} ({phases}; Spark "
        f"{row['spark_ms']:.0f}; the plain job's batch {row['plain_ms']:.0f}); the driver sends "
        f"{row['driver_statements']:.1f} statements; in all {row['questions']:.0f} questions and {row['inserts']:.0f} "
        f"inserts, {row['pieces']:.0f} of them pieces"
    )


def _cpu_line(variant: str, by_kind: Mapping[str, float]) -> str:
    kinds = ", ".join(f"{kind} {ms:.0f}" for kind, ms in by_kind.items())
    return f"       ({variant}) CPU ms a batch: {sum(by_kind.values()):.0f} ({kinds})"


def lines(figures: Mapping[str, Any]) -> list[str]:
    """For people."""
    out = ["overhead: means of batches with one record a partition, in ms"]
    for row in figures["rows"]:
        out += [f"  {_line(row)}", _cpu_line("c", row["cpu_ms"]), _cpu_line("bt", row["plain_cpu_ms"])]
    for partitions, goal in figures["goals"]["fixed_ms"].items():
        met = "met" if goal["met"] else "MISSED"
        out.append(f"  goal at {partitions} partitions: fixed < {goal['goal']} ms: {met}")
    met = "met" if figures["goals"]["statements_met"] else "MISSED"
    return [*out, f"  goal: the driver's statements do not depend on partitions: {met}"]
