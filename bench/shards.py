"""What do shards cost?  The same records landed in one shard and in four, in turns by one process.

The shards are databases of one server, so that the work is the same: what is measured is the hashing, the cutting of
chunks into pieces, and four inserts in place of one.  Four shards are measured twice: with chunks of the default size,
so that each insert has a quarter of the rows, and with chunks four times as large, so that inserts stay as large.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from bench import topic
from bench.measured import Measured, Place
from bench.speed import WARM_UPS, Runs
from bench.topic import PARTITIONS
from chsink.config.sections import ClickHouse

SHARDS = 4
CHUNK_OFFSETS: int = ClickHouse.model_fields["chunk_offsets"].default
GOAL = 0.85
TABLE = "shards_rows"


def measure(place: Place, records: int, rounds: int) -> dict[str, Any]:
    """Seconds of each way, and the rate of four shards as a part of the rate of one."""
    kafka, client = place.stack.kafka, place.client()
    kafka.create_topic("shards", PARTITIONS)
    topic.produce(kafka.bootstrap, "shards", 0, records, place.say)
    one, four = ["shards_0"], [f"shards_{number}" for number in range(1, 1 + SHARDS)]
    ways: dict[str, tuple[list[str], dict[str, Any]]] = {
        "one": (one, {}),
        "four": (four, {"shard_key": ["id"]}),
        "four_larger_chunks": (four, {"shard_key": ["id"], "chunk_offsets": SHARDS * CHUNK_OFFSETS}),
    }
    for database in (*one, *four):
        client.command(f"CREATE DATABASE IF NOT EXISTS {database}")
    runs = {way: Runs(way) for way in ways}
    with Measured(place, "c") as process:
        process.session_s()
        for number in range(1 - WARM_UPS, rounds + 1):
            for way, (databases, settings) in ways.items():
                for database in databases:
                    place.empty_table(client, f"{database}.{TABLE}", deduplicated=True)
                endpoints = [{"url": place.url, "name": name, "database": name} for name in databases]
                answer, usage = process.drain(
                    "shards", TABLE, keep={"clickhouse": {"endpoints": endpoints, **settings}}
                )
                found = f"merge(REGEXP('^({'|'.join(databases)})$'), '^{TABLE}$')"
                runs[way].add(number, answer, usage, topic.wrong(client, found, records))
                place.say(f"shards: run {number} ({way}) {answer['seconds']:.2f} s")
    client.close()
    seconds = {way: r.seconds for way, r in runs.items()}
    rates = {way: r.rate(records) / runs["one"].rate(records) for way, r in runs.items() if way != "one"}
    met = rates["four_larger_chunks"] >= GOAL
    return {"records": records, "seconds": seconds, "rates": rates, "goal": {"rate": GOAL, "met": met}}


def lines(figures: Mapping[str, Any]) -> list[str]:
    """For people."""
    out = [f"shards: {figures['records']:,} records, in one shard and in {SHARDS} of the same server; warm runs"]
    for way, seconds in figures["seconds"].items():
        out.append(f"  {way:<18} {statistics.median(seconds):7.2f} s")
    goal, rates = figures["goal"], figures["rates"]
    out.append(f"  {SHARDS} shards: x {rates['four']:.2f} of the rate of one")
    met = "met" if goal["met"] else "MISSED"
    larger = rates["four_larger_chunks"]
    return [*out, f"  with chunks {SHARDS} times as large: x {larger:.2f}; goal: at least x {GOAL:.2f}: {met}"]
