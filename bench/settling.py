"""What does it cost to settle one large range after a crash, beside landing it?

One partition, one batch, twenty chunks: the whole range is in doubt when the job is killed with its JVM near its end.
The next start reads all of it again from Kafka, sends each chunk under its old token, and looks whether each row is
there once.  Both times are the job's own, of the phase in which its tasks run, each in a JVM that has just started.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from bench import topic
from bench.measured import Measured, MeasuredError, Place
from bench.speed import WrongRowsError

NAME = "settling"
NEAR_END = 0.85
GOAL = 1.3
LIMIT_S = 300
POLL_S = 0.02


def measure(place: Place, records: int) -> dict[str, Any]:
    """Land the range, then land it with a crash and settle it."""
    place.stack.kafka.create_topic(NAME, 1)
    topic.produce(place.stack.kafka.bootstrap, NAME, 0, records, place.say, partitions=1)
    landed, settled = _landed(place, records), _settled(place, records)
    place.stack.kafka.delete_topic(NAME)
    ratio = settled / landed
    place.say(f"settling: landed in {landed:.1f} s, settled in {settled:.1f} s")
    return {
        "records": records,
        "landed_s": landed,
        "settled_s": settled,
        "ratio": ratio,
        "load": os.getloadavg()[0],
        "goal": {"ratio": GOAL, "met": ratio <= GOAL},
    }


def _landed(place: Place, records: int) -> float:
    """Seconds of the phase that lands the range."""
    client = place.client()
    place.empty_table(client, "landed", deduplicated=True)
    with Measured(place, "c") as process:
        process.session_s()
        process.begin(NAME, "landed", place.checkpoint(), sink="landed")
        phases = process.result()["phases"]
    _check(client, "landed", records)
    return float(phases["insert"])


def _settled(place: Place, records: int) -> float:
    """Seconds of the phase that settles the range after a crash near its end."""
    client, checkpoint = place.client(), place.checkpoint()
    place.empty_table(client, "settled", deduplicated=True)
    with Measured(place, "c") as process:
        process.session_s()
        process.begin(NAME, "settled", checkpoint, sink="settled")
        _await_rows(client, "settled", int(records * NEAR_END))
        process.kill()
    with Measured(place, "c") as process:
        process.session_s()
        process.begin(NAME, "settled", checkpoint, sink="settled")
        phases = process.result()["phases"]
    _check(client, "settled", records)
    if not phases["settle"]:
        raise MeasuredError("the job had confirmed its range before it was killed: nothing was settled")
    return float(phases["settle"])


def _await_rows(client: Any, table: str, rows: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while int(client.query(f"SELECT count() FROM {table}").result_rows[0][0]) < rows:
        if time.monotonic() > deadline:
            raise MeasuredError(f"waited {LIMIT_S} s for {rows:,} rows in {table}")
        time.sleep(POLL_S)


def _check(client: Any, table: str, records: int) -> None:
    if fault := topic.wrong(client, table, records):
        raise WrongRowsError(fault)
    client.command(f"DROP TABLE {table} SYNC")
    client.close()


def lines(figures: Mapping[str, Any]) -> list[str]:
    """For people."""
    met = "met" if figures["goal"]["met"] else "MISSED"
    landed, settled = figures["landed_s"], figures["settled_s"]
    return [
        f"settling: a range of {figures['records']:,} records landed in {landed:.1f} s, after a crash {settled:.1f} s",
        f"  x {figures['ratio']:.2f}; goal at most x {GOAL}: {met}",
    ]
