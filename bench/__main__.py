"""Measure chsink beside the jobs that people write today, on local services that are started for it.

Parts:
  speed     four ways to drain one topic, in turns: (a) Spark to a noop sink, (b) from_json -> insert_arrow,
            (b2) raw values as JSONEachRow, (c) chsink; rows are checked after each run
  state     what BEFORE and AFTER cost a batch, at 1 to 2,000 partitions, on KeeperMap and on ZooKeeper
  memory    peak memory of a worker: a batch of 1,000,000 records beside one of ten times as many
  recovery  from SIGKILL with ranges in doubt to new rows
  mirror    four ways to drain one topic, in turns: (a) Spark to a noop sink, (p) plain Parquet files,
            (s) Spark's own Iceberg sink, (m) the Iceberg mirror; rows are checked after each run.  Then (s) and (m)
            into tables partitioned by day and by bucket(16), and of nested records; ClickHouse without and with a
            mirror; hand-overs of 1 to 512 partitions; files by trigger; commits of 10 to 10,000 files; 1,000
            commits to one table; 300 tables of one topic; memory
  dead_letters  the same records without bad ones, and with 1 % of them as dead letters in a table and in a topic
  shards    the same records in one shard and in four of the same server
  routes    the same records of one topic with 300 partitions, and of 300 topics with a table each
  fan_out   the same records of one topic in one, two and four tables
  shapes    records of other shapes and formats, each drained in turns by (b2) and (c); rows of both are compared:
            flat, wide, nulls, sparse, nested, decimals, texts, escapes, bad; orders, avro, protobuf; changes, debezium
  formats   decoding alone: JSON, Avro and Protobuf of the same orders, in turns in one process
  latency   1,000 records a second and the shortest trigger, with 64 and 512 partitions: from a record to its row
  overhead  batches of one record a partition, with 4, 64 and 512 partitions: their fixed cost, and statements
  endurance thousands of small batches in one job: the time and the memory of a batch, by tenth
  settling  one large range that is settled after a crash, beside landing it
  start     chsink run, from the command to the first row

Examples:
  make bench                                                         everything at full size, more than an hour
  make bench ARGS="--only speed --records 200000 --rounds 1"         does it work at all
  make bench ARGS="--only mirror"                                    about 25 minutes
  make bench ARGS="--only shapes --shape wide --shape nested"        some of the shapes
  make bench ARGS="--history runs.jsonl --against 0660f03"           ratios beside those of an earlier run
  make bench ARGS="--only speed --json" > speed.json                 for machines; progress goes to standard error

Exit codes: 0 measured (a missed goal is said, and is no failure), 1 a part failed or left other rows than were sent;
the other parts are measured.
Figures of a shared machine swing: read the ratios of one run, and the load beside them.  docs/benchmark.md has more.

"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from bench import (
    dead_letters,
    endurance,
    fan_out,
    formats,
    latency,
    memory,
    mirror,
    overhead,
    recovery,
    routes,
    settling,
    shapes,
    shards,
    speed,
    start,
    state,
)
from bench import history as history_file
from bench.measured import MeasuredError, Place
from bench.speed import WrongRowsError
from chsink.embedded.stack import Stack
from chsink.errors import ChsinkError
from chsink.jvm import jars

MIRROR_ROUNDS = 3
"""At most: six variants take turns there."""
ROUTES_ROUNDS = 2
START_ROUNDS = 3
Measure = Callable[[Place, argparse.Namespace], dict[str, Any]]
PARTS: Mapping[str, tuple[ModuleType, Measure]] = {
    "speed": (speed, lambda place, a: speed.measure(place, a.records, a.rounds, a.block_rows)),
    "state": (state, lambda place, _: state.measure(place)),
    "memory": (memory, lambda place, a: memory.measure(place, a.large)),
    "recovery": (recovery, lambda place, a: recovery.measure(place, a.recovery_records, a.crashes)),
    "mirror": (mirror, lambda place, a: mirror.measure(place, _mirror_sizes(a))),
    "dead_letters": (dead_letters, lambda place, a: dead_letters.measure(place, a.records, a.rounds)),
    "shards": (shards, lambda place, a: shards.measure(place, a.records, a.rounds)),
    "routes": (routes, lambda place, a: routes.measure(place, a.routes, min(a.rounds, ROUTES_ROUNDS))),
    "fan_out": (fan_out, lambda place, a: fan_out.measure(place, a.records, a.rounds)),
    "shapes": (shapes, lambda place, a: shapes.measure(place, a.records, a.rounds, a.shape)),
    "formats": (formats, lambda _, a: formats.measure(a.rounds)),
    "latency": (latency, lambda place, a: latency.measure(place, a.latency_s)),
    "overhead": (overhead, lambda place, _: overhead.measure(place)),
    "endurance": (endurance, lambda place, a: endurance.measure(place, a.batches)),
    "settling": (settling, lambda place, a: settling.measure(place, a.settled_records)),
    "start": (start, lambda place, a: start.measure(place, min(a.rounds, START_ROUNDS))),
}
"""What each part is, and how it is run with the arguments."""


def main() -> int:
    """Run the parts that were asked for; the exit code."""
    arguments = _arguments()
    wanted = [arguments.only] if arguments.only else list(PARTS)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {text}", file=sys.stderr, flush=True)

    report: dict[str, Any] = {"machine": _machine()}
    folder = Path(tempfile.mkdtemp(prefix="chsink-bench-"))
    try:
        say("starting Kafka, ZooKeeper and ClickHouse")
        with Stack(folder / "services", clickhouse=1) as stack:
            place = Place(stack, folder, jars.spark_jars(), say)
            for part in wanted:
                _measure(part, place, arguments, report)
    except ChsinkError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report["machine"]["load_at_end"] = os.getloadavg()
    if arguments.history:
        _keep(report, arguments)
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        machine = report["machine"]
        print(f"{machine['date']}, {machine['cores']} cores, load {machine['load_at_start'][0]:.1f} at the start, "
              f"{machine['load_at_end'][0]:.1f} at the end")  # fmt: skip
    return 0 if all(part in report for part in wanted) else 1


def _measure(part: str, place: Place, arguments: argparse.Namespace, report: dict[str, Any]) -> None:
    """Run one part, print it and add it to the report.  One that fails is said and left out: the others took long."""
    module, measure = PARTS[part]
    try:
        report[part] = measure(place, arguments)
    except (WrongRowsError, MeasuredError, ChsinkError, AssertionError) as error:
        print(f"bench: {part} failed: {error}", file=sys.stderr)
        return
    if not arguments.json:
        print("\n" + "\n".join(module.lines(report[part])) + "\n", flush=True)


def _mirror_sizes(arguments: argparse.Namespace) -> mirror.MirrorSizes:
    rounds, large = min(arguments.rounds, MIRROR_ROUNDS), arguments.large
    return mirror.MirrorSizes(arguments.records, rounds, large, arguments.routes, arguments.commits)


def _keep(report: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Hold the run against an earlier one, then add it to the history."""
    sizes = {
        name: getattr(arguments, name) for name in ("records", "rounds", "block_rows", "large", "routes", "commits")
    }
    run, path = history_file.run_of(report, sizes), Path(arguments.history)
    if before := history_file.earlier(path, arguments.against):
        print("\n".join(history_file.compared(before, run)), file=sys.stderr)
    history_file.append(path, run)


def _machine() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "load_at_start": os.getloadavg(),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, help="one part; all of them otherwise")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--history", metavar="FILE", default="",
                        help="add the run's ratios to a file of JSON lines, and show them beside others")  # fmt: skip
    parser.add_argument("--against", metavar="COMMIT", default="",
                        help="with --history: beside those of this commit (the newest in the file)")  # fmt: skip
    sizes = parser.add_argument_group("sizes")
    sizes.add_argument(
        "--records", type=_count, default=4_000_000, help="speed, mirror: records in the topic (4,000,000)"
    )
    sizes.add_argument("--rounds", type=_count, default=5,
                       help="speed, mirror: warm runs of each variant (5; the mirror 3 at most)")  # fmt: skip
    sizes.add_argument("--block-rows", type=_count, default=300_000,
                       help="speed: rows of an insert of the baselines (300,000, the best of three)")  # fmt: skip
    sizes.add_argument(
        "--large", type=_count, default=10_000_000, help="memory, mirror: records of the large batch (10,000,000)"
    )
    sizes.add_argument("--routes", type=_count, default=300,
                       help="routes: topics, each with a table; mirror: tables of one topic (300)")  # fmt: skip
    sizes.add_argument("--commits", type=_count, default=1_000, help="mirror: commits to one table (1,000)")
    sizes.add_argument(
        "--shape",
        action="append",
        default=[],
        choices=shapes.NAMES,
        metavar="NAME",
        help="shapes: this one; may be given again (all)",
    )
    sizes.add_argument("--recovery-records", type=_count, default=1_000_000,
                       help="recovery: records, in four batches (1,000,000)")  # fmt: skip
    sizes.add_argument("--latency-s", type=_count, default=60,
                       help="latency: seconds measured of each job (60)")  # fmt: skip
    sizes.add_argument("--batches", type=_count, default=2_000, help="endurance: small batches, 100 at least (2,000)")
    sizes.add_argument("--settled-records", type=_count, default=2_000_000,
                       help="settling: records of the range (2,000,000)")  # fmt: skip
    sizes.add_argument("--crashes", type=_count, default=3, help="recovery: how often it is killed (3)")
    return parser.parse_args()


def _count(text: str) -> int:
    number = int(text.replace(",", "").replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


if __name__ == "__main__":
    sys.exit(main())
