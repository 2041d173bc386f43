"""Records to Iceberg, in turns: medians of warm runs, as ratios.

(a) Spark reading to a noop sink, (p) the same rows parsed by Arrow and written to plain Parquet files by the same
tasks, (s) Spark's own Iceberg sink behind ``from_json``, (m) the mirror with shipped defaults.  A run's time is from
telling the warm job to start to its end: for (m) with its settling, its hand-over and its commit.  The rows of each run
are checked before the next.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from bench import both, commits, files, hand_over, lake_shapes, many_commits, many_tables, memory, peer
from bench.lake import Lake, wrong
from bench.measured import Measured, Place
from bench.speed import KINDS, Runs
from bench.topic import PARTITIONS, produce

VARIANTS = {
    "a": "Spark to a noop sink",
    "p": "plain Parquet",
    "s": f"Iceberg's sink, Spark {peer.PYSPARK}",
    "m": "the mirror, shipped defaults",
}
PARTS = {
    "kinds": lake_shapes.lines,
    "both": both.lines,
    "hand_over": hand_over.lines,
    "files": files.lines,
    "commits": commits.lines,
    "many_commits": many_commits.lines,
    "many_tables": many_tables.lines,
    "memory": memory.lines,
}
GOAL = {"p": 0.8, "s": 1.5}
"""The goals for the mirror's speed, as multiples."""
WARM_UPS = 1
BLOCK = 100_000


@dataclass(frozen=True, slots=True)
class MirrorSizes:
    """Records in the topic, of the large batch, rounds; tables that share a topic; commits to one table."""

    records: int
    rounds: int
    large: int
    tables: int
    commits: int


def measure(place: Place, sizes: MirrorSizes) -> dict[str, Any]:
    """All parts: variants in turns, other kinds of tables, beside ClickHouse's side, hand-overs, commits, memory."""
    records, rounds, kafka = sizes.records, sizes.rounds, place.stack.kafka
    kafka.create_topic("mirror", PARTITIONS)
    produce(kafka.bootstrap, "mirror", 0, records, place.say)
    figures = _in_turns(place, records, rounds)
    figures["kinds"] = lake_shapes.measure(place, "mirror", records, rounds)
    figures["both"] = both.measure(place, "mirror", records, rounds)
    kafka.delete_topic("mirror")
    figures["hand_over"] = hand_over.measure(place)
    place.say("mirror: files by trigger")
    figures["files"] = files.measure(place.folder, min(files.RATE, max(1, records // 4_000)))
    figures["commits"] = commits.measure(place)
    place.say(f"mirror: {sizes.commits} commits to a table, twice; {sizes.tables} tables")
    figures["many_commits"] = many_commits.measure(place.folder, sizes.commits)
    figures["many_tables"] = many_tables.measure(kafka, place.folder, sizes.tables, min(100_000, records))
    figures["memory"] = memory.measure(place, sizes.large, "m")
    return figures


def _in_turns(place: Place, records: int, rounds: int) -> dict[str, Any]:
    """Warm each variant up, then let them take turns."""
    lake = Lake(place.folder)
    runs = {variant: Runs(variant) for variant in VARIANTS}
    snapshots: list[int] = []
    with ExitStack() as stack:
        other = peer.ensure(place.say)
        own, peers = (sys.executable, ""), {"s": (other.python, other.jars)}
        processes = {
            v: stack.enter_context(Measured(place, v, block_rows=BLOCK, python=python, jars=jars))
            for v in VARIANTS
            for python, jars in [peers.get(v, own)]
        }
        for process in processes.values():
            process.session_s()
        for number in range(1 - WARM_UPS, rounds + 1):
            for variant, process in processes.items():
                target = "" if variant == "a" else lake.new(variant, number)
                answer, usage = process.drain("mirror", target, lake=lake.properties)
                fault = wrong(lake.rows(variant, target), records) if target else None
                runs[variant].add(number, answer, usage, fault)
                if variant == "m":
                    snapshots.append(len(lake.catalog().load_table(target).snapshots()))
                if target:
                    lake.remove(variant, target)
                rate = records / answer["seconds"]
                place.say(f"mirror: run {number} ({variant}) {answer['seconds']:6.2f} s, {rate:>9,.0f} rows/s")
    return _figures(runs, records, snapshots)


def _figures(runs: Mapping[str, Runs], records: int, snapshots: list[int]) -> dict[str, Any]:
    rates = {v: r.rate(records) for v, r in runs.items()}
    return {
        "records": records,
        "load": os.getloadavg()[0],
        "snapshots_a_run": max(snapshots),
        "variants": {
            v: {
                "what": VARIANTS[v],
                "rows_per_s": rates[v],
                "ratio_to_p": rates[v] / rates["p"],
                "ratio_to_s": rates[v] / rates["s"],
                "seconds": r.seconds,
                "cpu_us_per_row": r.cpu_us_per_row(records),
                "cpu_s": {k: r.cpu_s(k) for k in KINDS},
                "peak_mib": {k: r.peak_mib(k) for k in KINDS},
            }
            for v, r in runs.items()
        },
        "goals": {v: _goal(runs, v, least) for v, least in GOAL.items()},
    }


def _goal(runs: Mapping[str, Runs], other: str, least: float) -> dict[str, Any]:
    by_round = [o / m for o, m in zip(runs[other].seconds, runs["m"].seconds, strict=True)]
    return {"least": least, "by_round": by_round, "met": runs["m"].rate(1) / runs[other].rate(1) >= least}


def lines(figures: Mapping[str, Any]) -> list[str]:
    """A table for people."""
    out = [
        f"mirror: {figures['records']:,} records to Iceberg, medians of warm runs in turns; load {figures['load']:.1f}"
    ]
    out.append(f"{'':<33} {'rows/s':>9} {'x (p)':>6} {'x (s)':>6} {'CPU us/row':>11}  of it driver, JVM, worker; MiB")
    for name, v in figures["variants"].items():
        cpu = ", ".join(f"{v['cpu_s'][kind] / figures['records'] * 1e6:.2f}" for kind in ("driver", "jvm", "worker"))
        out.append(
            f"{name:<3} {v['what']:<29} {v['rows_per_s']:>9,.0f} {v['ratio_to_p']:>6.2f} {v['ratio_to_s']:>6.2f} "
            f"{v['cpu_us_per_row']:>11.2f}  {cpu}; {v['peak_mib']['worker']:,.0f}"
        )
    for name, goal in figures["goals"].items():
        rounds = ", ".join(f"{ratio:.2f}" for ratio in goal["by_round"])
        out.append(f"goal (m) >= {goal['least']} x ({name}): {'met' if goal['met'] else 'MISSED'}; by round {rounds}")
    out.append(f"snapshots a run of the mirror, one commit of four tasks: {figures['snapshots_a_run']}")
    for name, part in PARTS.items():
        out += ["", *part(figures[name])]
    return out
