"""A day in compressed form: thousands of small batches in one job.  Do the time and the memory of a batch grow?

While the job runs, its checkpoint tells which batch was committed last, and /proc what its processes hold.  Each tenth
of the batches has a time and a memory.  Memory is held against an earlier tenth: a JVM takes what it may before it
collects, so the first tenths say little of it.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import topic
from bench.measured import Measured, MeasuredError, Place
from bench.processes import resident
from bench.speed import WrongRowsError

TENTHS = 10
LEAST = 100
"""Batches, so that each tenth has some."""
GOAL = 1.1
FULL_BY = 4
"""The tenth, from 0, by which the JVM has filled its heap once."""
KINDS = ("driver", "jvm", "worker")
SAMPLE_S = 0.25
LIMIT_S = 300
"""Without a batch."""


@dataclass(frozen=True, slots=True)
class Sample:
    """``batches`` were committed ``at_s``; resident MiB by kind of process, all of a kind together."""

    at_s: float
    batches: int
    mib: Mapping[str, float]


def measure(place: Place, batches: int) -> dict[str, Any]:
    """Run so many batches of a record a partition."""
    name, batches = "endurance", max(batches, LEAST)
    records = batches * topic.PARTITIONS
    place.stack.kafka.create_topic(name, topic.PARTITIONS)
    topic.produce(place.stack.kafka.bootstrap, name, 0, records, place.say)
    client, checkpoint = place.client(), place.checkpoint()
    place.empty_table(client, name, deduplicated=True)
    with Measured(place, "c") as process:
        process.session_s()
        process.begin(name, name, checkpoint, sink=name, max_offsets=topic.PARTITIONS)
        samples = _samples(Path(checkpoint) / "commits", process.pid, batches)
        process.result()
    if fault := topic.wrong(client, name, records):
        raise WrongRowsError(fault)
    client.command(f"DROP TABLE {name} SYNC")
    client.close()
    place.stack.kafka.delete_topic(name)
    tenths = tenths_of(samples, batches)
    return {"batches": batches, "tenths": tenths, "goals": goals(tenths), "load": os.getloadavg()[0]}


def _samples(commits: Path, pid: int, batches: int) -> list[Sample]:
    """Until the last batch is committed.  MeasuredError if none is for ``LIMIT_S``."""
    samples: list[Sample] = []
    progressed = time.monotonic()
    while not samples or samples[-1].batches < batches:
        time.sleep(SAMPLE_S)
        numbers = [int(f.name) for f in commits.glob("[0-9]*")] if commits.is_dir() else []
        now = Sample(time.monotonic(), max(numbers, default=-1) + 1, resident(pid))
        if not samples or now.batches > samples[-1].batches:
            progressed = now.at_s
        elif now.at_s - progressed > LIMIT_S:
            raise MeasuredError(f"no batch within {LIMIT_S} s after {now.batches}")
        samples.append(now)
    return samples


def tenths_of(samples: Sequence[Sample], batches: int) -> list[dict[str, float]]:
    """Milliseconds of a batch and median MiB by kind, by tenth.  The first batch, which starts cold, is in none."""
    begun = [s for s in samples if s.batches > 0]
    bounds = [max(1, batches * tenth // TENTHS) for tenth in range(TENTHS + 1)]
    found = []
    for start, end in itertools.pairwise(bounds):
        within = [s for s in begun if start <= s.batches <= end] or [begun[-1]]
        first = next(s for s in begun if s.batches >= start)
        last = next(s for s in begun if s.batches >= end)
        took = (last.at_s - first.at_s) / max(1, last.batches - first.batches)
        mib = {f"{kind}_mib": statistics.median(s.mib.get(kind, 0.0) for s in within) for kind in KINDS}
        found.append({"batch_ms": took * 1000, **mib})
    return found


def goals(tenths: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float | bool]]:
    """The last tenth as a multiple of an earlier one: of the first, for the JVM's memory of a later one."""
    found: dict[str, dict[str, float | bool]] = {}
    for key in tenths[0]:
        before = tenths[FULL_BY if key == "jvm_mib" else 0][key]
        growth = tenths[-1][key] / before if before else 1.0
        found[key] = {"growth": growth, "goal": GOAL, "met": growth <= GOAL}
    return found


def lines(figures: Mapping[str, Any]) -> list[str]:
    """For people."""
    out = [f"endurance: {figures['batches']:,} batches of {topic.PARTITIONS} records in one job, by tenth"]
    out.append(f"{'tenth':>7} {'ms a batch':>11}" + "".join(f"{kind + ' MiB':>12}" for kind in KINDS))
    for number, tenth in enumerate(figures["tenths"], 1):
        memory = "".join(f"{tenth[f'{kind}_mib']:>12.0f}" for kind in KINDS)
        out.append(f"{number:>7} {tenth['batch_ms']:>11.0f}{memory}")
    for key, goal in figures["goals"].items():
        beside = f"tenth {FULL_BY + 1}" if key == "jvm_mib" else "the first"
        met = "met" if goal["met"] else "MISSED"
        out.append(f"  {key}: the last is x {goal['growth']:.2f} of {beside}; goal x {goal['goal']}: {met}")
    return out
