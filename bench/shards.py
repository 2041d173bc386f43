"""What do shards cost?  The same records landed in one shard and in four, in turns by one process.

The shards are databases of one server, so that the work is the same: what is measured is the hashing, the cutting of
chunks into pieces, and four inserts in place of one.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from bench import topic
from bench.measured import Measured, Place
from bench.speed import WARM_UPS, WrongRowsError
from bench.topic import PARTITIONS

SHARDS = 4
GOAL = 0.85
TABLE = "shards_rows"


def measure(place: Place, records: int, rounds: int) -> dict[str, Any]:
    """Seconds of each way, and the rate of four shards as a part of the rate of one."""
    kafka, client = place.stack.kafka, place.client()
    kafka.create_topic("shards", PARTITIONS)
    topic.produce(kafka.bootstrap, "shards", 0, records, place.say)
    ways = {"one": ["shards_0"], "four": [f"shards_{number}" for number in range(1, 1 + SHARDS)]}
    for database in (name for databases in ways.values() for name in databases):
        client.command(f"CREATE DATABASE IF NOT EXISTS {database}")
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    with Measured(place, "c") as process:
        process.session_s()
        for number in range(1 - WARM_UPS, rounds + 1):
            for way, databases in ways.items():
                for database in databases:
                    place.empty_table(client, f"{database}.{TABLE}", deduplicated=True)
                endpoints = [{"url": place.url, "name": name, "database": name} for name in databases]
                key = {"shard_key": ["id"]} if len(databases) > 1 else {}
                answer, _ = process.drain("shards", TABLE, keep={"clickhouse": {"endpoints": endpoints, **key}})
                found = f"merge(REGEXP('^({'|'.join(databases)})$'), '^{TABLE}$')"
                if fault := topic.wrong(client, found, records):
                    raise WrongRowsError(f"{way}, run {number}: {fault}")
                if number > 0:
                    seconds[way].append(answer["seconds"])
                place.say(f"shards: run {number} ({way}) {answer['seconds']:.2f} s")
    client.close()
    medians = {way: statistics.median(runs) for way, runs in seconds.items()}
    rate = medians["one"] / medians["four"]
    return {"records": records, "seconds": seconds, "rate": rate, "goal": {"rate": GOAL, "met": rate >= GOAL}}


def lines(figures: Mapping[str, Any]) -> list[str]:
    """For people."""
    out = [f"shards: {figures['records']:,} records, in one shard and in {SHARDS} of the same server; warm runs"]
    for way, seconds in figures["seconds"].items():
        out.append(f"  {way:<5} {statistics.median(seconds):7.2f} s")
    goal = figures["goal"]
    met = "met" if goal["met"] else "MISSED"
    return [*out, f"  {SHARDS} shards: x {figures['rate']:.2f} of the rate of one; goal: at least x {GOAL:.2f}: {met}"]
