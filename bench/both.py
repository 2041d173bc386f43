"""What a mirror costs ClickHouse's side of a job: the same records to ClickHouse alone, and to both sides.

The two variants take turns.  A run lasts until the query of ClickHouse's side has ended.  CPU time is that of all
processes, for both sides.  The rows of each run are checked on both sides.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from bench import topic
from bench.lake import Lake, wrong
from bench.measured import Measured, Place
from bench.speed import Runs

VARIANTS = {"c": "ClickHouse alone", "cm": "ClickHouse, with a mirror"}
WARM_UPS = 1
GOAL = 0.8
"""Of the rate of ClickHouse alone."""


def measure(place: Place, source: str, records: int, rounds: int) -> dict[str, Any]:
    """Drain the topic ``source``, which holds so many records."""
    lake, client = Lake(place.folder), place.client()
    runs = {variant: Runs(variant) for variant in VARIANTS}
    with ExitStack() as stack:
        processes = {v: stack.enter_context(Measured(place, v)) for v in VARIANTS}
        for process in processes.values():
            process.session_s()
        for number in range(1 - WARM_UPS, rounds + 1):
            for variant, process in processes.items():
                place.empty_table(client, f"both_{variant}", deduplicated=True)
                mirrored = lake.table(f"both{number}") if variant == "cm" else ""
                answer, usage = process.drain(
                    source, f"both_{variant}", lake=lake.properties if mirrored else None, mirrored=mirrored
                )
                fault = topic.wrong(client, f"both_{variant}", records)
                if mirrored:
                    fault = fault or wrong(lake.rows("m", mirrored), records)
                    lake.remove("m", mirrored)
                runs[variant].add(number, answer, usage, fault)
                place.say(f"both: run {number} ({variant:<2}) {answer['seconds']:6.2f} s for ClickHouse's side")
    client.command("DROP TABLE both_c SYNC")
    client.command("DROP TABLE both_cm SYNC")
    client.close()
    return _figures(runs, records)


def _figures(runs: Mapping[str, Runs], records: int) -> dict[str, Any]:
    alone, beside = runs["c"].seconds, runs["cm"].seconds
    return {
        "records": records,
        "load": os.getloadavg()[0],
        "variants": {
            v: {
                "what": VARIANTS[v],
                "rows_per_s": r.rate(records),
                "cpu_us_per_row": r.cpu_us_per_row(records),
                "worker_mib": r.peak_mib("worker"),
            }
            for v, r in runs.items()
        },
        "ratio": (ratio := runs["cm"].rate(records) / runs["c"].rate(records)),
        "goal": {"least": GOAL, "met": ratio >= GOAL},
        "by_round": [c / cm for c, cm in zip(alone, beside, strict=True)],
        "both_s": [d["both_s"] for d in runs["cm"].details],
    }


def lines(figures: Mapping[str, Any]) -> list[str]:
    """A table for people."""
    size, load = figures["records"], figures["load"]
    out = [f"ClickHouse with a mirror: {size:,} records, medians of warm runs in turns; load {load:.1f}"]
    out += [
        f"{name:<3} {v['what']:<29} {v['rows_per_s']:>9,.0f} rows/s, CPU {v['cpu_us_per_row']:.2f} us a row, "
        f"a worker {v['worker_mib']:,.0f} MiB"
        for name, v in figures["variants"].items()
    ]
    rounds = ", ".join(f"{ratio:.2f}" for ratio in figures["by_round"])
    both = ", ".join(f"{seconds:.1f}" for seconds in figures["both_s"])
    met, goal = "met" if figures["goal"]["met"] else "MISSED", figures["goal"]["least"]
    text = f"with a mirror x {figures['ratio']:.2f}, goal {goal}: {met}; by round {rounds}"
    return [*out, f"{text}; until both were done {both} s"]
