"""How soon do new rows come after a crash?

A job with several batches before it is killed with its JVM while ranges are in doubt, and started again with the same
checkpoint.  Two moments are timed from the second start: the first row that was not in the table at the crash, and the
first row beyond everything that had been announced by then, which comes only after all in doubt was settled.  What
Spark takes to start its session is not the sink's, and is told apart.  A cold JVM is slow in its first job, too,
whoever runs it: how long the plain job (b) takes from its session to its first row is measured beside.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.measured import Measured, MeasuredError, Place
from bench.speed import WrongRowsError
from bench.topic import PARTITIONS, produce, wrong
from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.driver.ledger import read_records
from chsink.notation.sql import TableName
from chsink.ports import StateStore
from chsink.state.keepermap import KeeperMapStore

TOPIC = "recovery"
GOAL_S = 10
LIMIT_S = 120
POLL_S = 0.02
BATCHES = 4
REST_S = 1.0


def measure(place: Place, records: int, rounds: int) -> dict[str, Any]:
    """Crash and start again ``rounds`` times."""
    place.stack.kafka.create_topic(TOPIC, PARTITIONS)
    produce(place.stack.kafka.bootstrap, TOPIC, 0, records, place.say)
    crashes = [_crash(place, records, f"recovery_{number}") for number in range(rounds)]
    plain = statistics.median(_plain(place, f"plain_{number}") for number in range(rounds))
    beyond = statistics.median(c["settled_beyond_spark_s"] for c in crashes)
    place.stack.kafka.delete_topic(TOPIC)
    return {
        "records": records,
        "crashes": crashes,
        "beyond_spark_s": beyond,
        "plain_beyond_spark_s": plain,
        "goal": {"beyond_spark_s": GOAL_S, "met": beyond < GOAL_S},
    }


def _crash(place: Place, records: int, sink: str) -> dict[str, float]:
    """One crash.  The table has the sink's name: workers of a killed job may write on for a moment."""
    client, checkpoint, batch = place.client(), place.checkpoint(), records // BATCHES
    connection = ClickHouseClient(Connection((place.url,)))
    store = KeeperMapStore(connection, TableName("default", "chsink_state"), path="/chsink/state")
    store.prepare()
    place.empty_table(client, sink, deduplicated=True)

    def rows() -> int:
        return int(client.query(f"SELECT count() FROM {sink}").result_rows[0][0])

    with Measured(place, "c") as process:
        process.session_s()
        process.begin(TOPIC, sink, checkpoint, sink=sink, max_offsets=batch)
        # In the second batch, with some of its rows landed: the first must not be all that there is to recover.
        _await("a range in doubt", lambda: rows() > batch and _announced(store, sink)[1] > 0)
        process.kill()
    at_crash, (announced, in_doubt) = _at_rest(rows), _announced(store, sink)
    began = time.monotonic()
    with Measured(place, "c") as process:
        session_s = process.session_s()
        ready = time.monotonic() - began
        process.begin(TOPIC, sink, checkpoint, sink=sink, max_offsets=batch)
        _await("a row that was not there", lambda: rows() > at_crash)
        first = time.monotonic() - began
        _await("a row of a new range", lambda: rows() > announced)
        settled = time.monotonic() - began
        process.result()
    if fault := wrong(client, sink, records):
        raise WrongRowsError(fault)
    connection.close()
    client.close()
    place.say(f"recovery: {in_doubt} ranges in doubt, first new row {first:.1f} s after the start, "
              f"beyond what was in doubt {settled:.1f} s, of which Spark's own start {ready:.1f} s")  # fmt: skip
    return {
        "in_doubt": in_doubt, "rows_at_crash": at_crash, "spark_s": ready, "session_s": session_s,
        "first_row_s": first, "settled_s": settled, "settled_beyond_spark_s": settled - ready,
    }  # fmt: skip


def _plain(place: Place, table: str) -> float:
    """Seconds from a session to the first row of the plain job, which starts from nothing."""
    client = place.client()
    place.empty_table(client, table, deduplicated=False)
    with Measured(place, "b") as process:
        process.session_s()
        began = time.monotonic()
        process.begin(TOPIC, table, place.checkpoint(), sink="none")
        _await("a row", lambda: int(client.query(f"SELECT count() FROM {table}").result_rows[0][0]) > 0)
        seconds = time.monotonic() - began
    client.close()
    place.say(f"recovery: the plain job's first row {seconds:.1f} s after its session")
    return seconds


def _at_rest(rows: Callable[[], int]) -> int:
    """Rows once the server has finished what had reached it before the crash."""
    count, since = rows(), time.monotonic()
    while time.monotonic() - since < REST_S:
        time.sleep(POLL_S)
        if (now := rows()) != count:
            count, since = now, time.monotonic()
    return count


def _announced(store: StateStore, sink: str) -> tuple[int, int]:
    """How many offsets the sink's records cover, and how many ranges are in doubt."""
    found = read_records(store, sink)
    return sum(r.end for r in found.values()), sum(r.in_doubt for r in found.values())


def _await(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise MeasuredError(f"waited {LIMIT_S} s for {what}")
        time.sleep(POLL_S)


def lines(figures: Mapping[str, Any]) -> list[str]:
    """A table for people."""
    out = [f"recovery: seconds from starting again after SIGKILL; {figures['records']:,} records"]
    out.append(f"{'in doubt':>9} {'Spark is up':>12} {'first new row':>14} {'beyond what was in doubt':>25}")
    out += [
        f"{c['in_doubt']:>9} {c['spark_s']:>12.1f} {c['first_row_s']:>14.1f} {c['settled_s']:>25.1f}"
        for c in figures["crashes"]
    ]
    met = "met" if figures["goal"]["met"] else "MISSED"
    out.append(f"the plain job's first row, from its session: {figures['plain_beyond_spark_s']:.1f} s")
    took = f"{figures['beyond_spark_s']:.1f} s"
    return [*out, f"goal all settled and new rows < {GOAL_S} s beyond the start of Spark's session: {took}, {met}"]
