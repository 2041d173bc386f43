"""Four ways to drain one topic, in turns; medians of warm runs, as ratios.

(a) Spark reading to a noop sink, (b) the at-least-once job with ``from_json`` and ``insert_arrow``, (b2) the same with
raw values as JSONEachRow, (c) chsink with shipped defaults.  The rows of each run are checked before the next.
A run's time is from telling the warm job to start to its end: for (c) with its checks, its claim and its state.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from bench.measured import Measured, Place
from bench.processes import Usage
from bench.topic import PARTITIONS, produce, wrong

VARIANTS = {
    "a": "Spark to a noop sink",
    "b": "from_json, insert_arrow",
    "b2": "raw values, JSONEachRow",
    "c": "chsink, shipped defaults",
}
GOAL = 0.95
WARM_UPS = 2
NO_BOUND = 2**31 - 1
"""Spark then does not add up the sizes of a batch after each row, as it does not for chsink."""
KINDS = ("driver", "jvm", "worker", "clickhouse", "kafka", "zookeeper")


class WrongRowsError(Exception):
    """A run left other rows than were sent."""


@dataclass(slots=True)
class Runs:
    """The warm runs of a variant."""

    variant: str
    seconds: list[float] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)
    details: list[dict[str, Any]] = field(default_factory=list)

    def add(self, number: int, answer: dict[str, Any], usage: Usage, fault: str | None) -> None:
        """Take the run; those below 1 are warm-ups.  WrongRowsError if ``fault`` says what is wrong with its rows."""
        self.check(number, fault)
        if number > 0:
            self.seconds.append(answer["seconds"])
            self.usages.append(usage)
            self.details.append(answer)

    def check(self, number: int, fault: str | None) -> None:
        """WrongRowsError if ``fault`` says what is wrong with the rows of a run."""
        if fault:
            raise WrongRowsError(f"{self.variant}, run {number}: {fault}")

    def rate(self, records: int) -> float:
        """Rows a second of the median run."""
        return records / statistics.median(self.seconds)

    def cpu_s(self, kind: str) -> float:
        """Median CPU seconds of a run."""
        return statistics.median(u.cpu_s.get(kind, 0.0) for u in self.usages)

    def cpu_us_per_row(self, records: int) -> float:
        """Of all processes together, median run: what other work on the machine disturbs least."""
        return statistics.median(sum(u.cpu_s.values()) for u in self.usages) / records * 1e6

    def peak_mib(self, kind: str) -> float:
        """Largest resident memory of one process of the kind."""
        return max(u.peak_mib.get(kind, 0.0) for u in self.usages)


def measure(place: Place, records: int, rounds: int, block_rows: int) -> dict[str, Any]:
    """Produce the topic, warm each variant up, then let them take turns."""
    place.stack.kafka.create_topic("speed", PARTITIONS)
    produce(place.stack.kafka.bootstrap, "speed", 0, records, place.say)
    client = place.client()
    runs = {variant: Runs(variant) for variant in VARIANTS}
    loads = [os.getloadavg()[0]]
    with ExitStack() as stack:
        processes = {
            v: stack.enter_context(Measured(place, v, block_rows=block_rows, block_bytes=NO_BOUND)) for v in VARIANTS
        }
        for process in processes.values():
            process.session_s()
        for number in range(1 - WARM_UPS, rounds + 1):
            for variant, process in processes.items():
                table = f"speed_{variant}"
                place.empty_table(client, table, deduplicated=variant == "c")
                before = place.keeper_requests()
                answer, usage = process.drain("speed", table)
                answer["keeper"] = place.keeper_requests() - before
                runs[variant].add(number, answer, usage, None if variant == "a" else wrong(client, table, records))
                client.command(f"DROP TABLE {table} SYNC")
                label = f"run {number} of {rounds}" if number > 0 else "warm-up"
                rate = records / answer["seconds"]
                place.say(f"speed: {label} ({variant:<2}) {answer['seconds']:6.2f} s, {rate:>9,.0f} rows/s")
            loads.append(os.getloadavg()[0])
    client.close()
    return _figures(runs, records, loads)


def _figures(runs: Mapping[str, Runs], records: int, loads: list[float]) -> dict[str, Any]:
    rates = {v: r.rate(records) for v, r in runs.items()}
    by_round = [b / c for b, c in zip(runs["b"].seconds, runs["c"].seconds, strict=True)]
    return {
        "records": records,
        "load": {"least": min(loads), "most": max(loads)},
        "variants": {
            v: {
                "what": VARIANTS[v],
                "rows_per_s": rates[v],
                "rows_per_s_least": records / max(r.seconds),
                "rows_per_s_most": records / min(r.seconds),
                "ratio_to_b": rates[v] / rates["b"],
                "ratio_to_b2": rates[v] / rates["b2"],
                "seconds": r.seconds,
                "cpu_us_per_row": r.cpu_us_per_row(records),
                "cpu_s": {k: r.cpu_s(k) for k in KINDS},
                "peak_mib": {k: r.peak_mib(k) for k in KINDS},
                "keeper_requests": statistics.median(d["keeper"] for d in r.details),
            }
            for v, r in runs.items()
        },
        "c_to_b_by_round": by_round,
        "c_phases_s": _medians(d["phases"] for d in runs["c"].details),
        "c_spark_ms": _medians(d["spark_ms"] for d in runs["c"].details),
        "goal": {"c_to_b": GOAL, "met": rates["c"] / rates["b"] >= GOAL},
    }


def lines(figures: Mapping[str, Any]) -> list[str]:
    """A table for people."""
    load = f"load {figures['load']['least']:.1f} to {figures['load']['most']:.1f}"
    out = [f"speed: {figures['records']:,} records, medians of warm runs in turns; {load}"]
    out.append(
        f"{'':<29} {'rows/s':>9} {'least .. most':>22} {'x (b)':>6} {'x (b2)':>6} {'CPU us/row':>11} {'to Keeper':>10}"
    )
    for name, v in figures["variants"].items():
        span = f"{v['rows_per_s_least']:,.0f} .. {v['rows_per_s_most']:,.0f}"
        out.append(
            f"{name:<3} {v['what']:<25} {v['rows_per_s']:>9,.0f} {span:>22} {v['ratio_to_b']:>6.2f} "
            f"{v['ratio_to_b2']:>6.2f} {v['cpu_us_per_row']:>11.2f} {v['keeper_requests']:>10.0f}"
        )
    out += ["", f"{'':<3} CPU seconds a run · peak MiB of one process" + "".join(f"{k:>16}" for k in KINDS)]
    for name, v in figures["variants"].items():
        cells = (f"{v['cpu_s'][k]:.1f} · {v['peak_mib'][k]:,.0f}" for k in KINDS)
        out.append(f"{name:<46}" + "".join(f"{c:>16}" for c in cells))
    phases = ", ".join(f"{k} {s:.2f} s" for k, s in figures["c_phases_s"].items())
    met = "met" if figures["goal"]["met"] else "MISSED"
    rounds = ", ".join(f"{ratio:.2f}" for ratio in figures["c_to_b_by_round"])
    goal = f"goal (c) >= {GOAL} x (b): {met}; by round {rounds}"
    return [*out, "", f"(c) by phase: {phases}", goal]


def _medians(many: Iterable[Mapping[str, float]]) -> dict[str, float]:
    by_name: dict[str, list[float]] = {}
    for one in many:
        for name, value in one.items():
            by_name.setdefault(name, []).append(value or 0.0)
    return {name: statistics.median(values) for name, values in by_name.items()}
