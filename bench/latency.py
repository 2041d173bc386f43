"""How long from producing a record to seeing its row, at a low rate and with the shortest trigger?

Three jobs take turns: (b) the plain ``foreachBatch`` job, (bt) the same as someone would tune it who knows what Kafka's
source waits for, (c) chsink.  Each record says when it was sent, and each row when the server began to insert it, by
the same clock.  Records of the first seconds are a warm-up.  What an insert takes on the server is told apart: it is in
no latency.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench import topic
from bench.measured import Measured, MeasuredError, Place
from bench.processes import Watch
from bench.speed import WrongRowsError

PARTITIONS = (64, 512)
VARIANTS = {"b": "from_json, insert_arrow", "bt": "the same, tuned", "c": "chsink"}
RATE = 1_000
WARM_UP_S = 15
LIMIT_S = 180
POLL_S = 0.1
INTERVAL = "0 milliseconds"
COLUMNS = f"{topic.COLUMNS}, landed DateTime64(6, 'UTC') MATERIALIZED now64(6, 'UTC')"
GOALS_S = {64: 1.0, 512: 2.5}
GOAL_P99 = 1.25
"""Of that of (b)."""
MARK = b'"abcdefgh"'
_LATENCIES = """
    WITH (toUnixTimestamp64Micro(landed) - toInt64(note)) / 1e6 AS took
    SELECT count(), uniqExact(id), quantileExactIf(0.5)(took, id >= {first}),
        quantileExactIf(0.99)(took, id >= {first}), maxIf(took, id >= {first}) FROM {table}"""


def measure(place: Place, seconds: int) -> dict[str, Any]:
    """Latencies of each variant, by number of partitions; ``seconds`` are measured, after a warm-up."""
    found: dict[str, Any] = {}
    for partitions in PARTITIONS:
        runs = found[str(partitions)] = {}
        for variant in VARIANTS:
            with Measured(place, variant) as process:
                process.session_s()
                runs[variant] = _run(place, process, f"latency_{variant}_{partitions}", partitions, seconds)
            place.say(f"latency: {partitions} partitions {_line(variant, runs[variant])}")
    return {"rate": RATE, "seconds": seconds, "partitions": found, "goals": goals(found)}


def _run(place: Place, process: Measured, table: str, partitions: int, seconds: int) -> dict[str, float]:
    """One job on a topic of its own, which bears the table's name."""
    client, checkpoint = place.client(), place.checkpoint()
    topic.create(place.stack.kafka.bootstrap, {table: partitions})
    place.empty_table(client, table, deduplicated=process.variant == "c", columns=COLUMNS)
    trigger = {"mode": "processing_time", "interval": INTERVAL}
    process.begin(table, table, checkpoint, sink=f"bench-{Path(checkpoint).name}", keep={"trigger": trigger})
    producer = Producer({"bootstrap.servers": place.stack.kafka.bootstrap, "linger.ms": 2})
    first, end = WARM_UP_S * RATE, (WARM_UP_S + seconds) * RATE
    send(producer, table, partitions, range(first))
    _await_rows(client, table, 1)
    before = place.statements(client)
    with Watch(process.pid, place.services) as watch:
        began = time.monotonic()
        send(producer, table, partitions, range(first, end))
        _await_rows(client, table, end)
        took = time.monotonic() - began
    had = {name: count - before[name] for name, count in place.statements(client).items()}
    answer = process.end()
    count, different, p50, p99, most = client.query(_LATENCIES.format(table=table, first=first)).result_rows[0]
    blocks = client.query(f"SELECT max(max_block_number) FROM system.parts WHERE table = '{table}'").result_rows[0][0]
    if (count, different) != (end, end):
        raise WrongRowsError(f"{table} holds {count} rows, {different} of them different, expected {end}")
    client.command(f"DROP TABLE {table} SYNC")
    client.close()
    place.stack.kafka.delete_topic(table)
    return {
        "p50_s": p50, "p99_s": p99, "most_s": most, "seconds": took, "blocks": blocks,
        "questions_per_s": had["questions"] / took, "inserts_per_s": had["inserts"] / took,
        "insert_ms": had["inserts_us"] / max(1, had["inserts"]) / 1000,
        "batch_s": statistics.median(step["triggerExecution"] for step in answer["steps_ms"]) / 1000,
        "cores": sum(watch.usage.cpu_s.values()) / took, "load": os.getloadavg()[0],
        **{f"{kind}_cores": cpu / took for kind, cpu in watch.usage.cpu_s.items()},
    }  # fmt: skip


def send(producer: Producer, name: str, partitions: int, numbers: range) -> None:
    """Send the records with these numbers at ``RATE``, evenly over the partitions; each says when, in microseconds."""
    began = time.monotonic()
    for at, number in enumerate(numbers):
        producer.poll(max(0.0, at / RATE - (time.monotonic() - began)))
        producer.produce(name, value=stamped(number, time.time_ns() // 1000), partition=number % partitions)
    left = producer.flush(60)
    assert left == 0, f"{left} records were not delivered"


def stamped(number: int, at_us: int) -> bytes:
    """The record with this number, which says when it was sent."""
    return topic.record(number).replace(MARK, b'"%d"' % at_us)


def _await_rows(client: Any, table: str, rows: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while int(client.query(f"SELECT count() FROM {table}").result_rows[0][0]) < rows:
        if time.monotonic() > deadline:
            raise MeasuredError(f"waited {LIMIT_S} s for {rows:,} rows in {table}")
        time.sleep(POLL_S)


def goals(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """By number of partitions: the median alone, and the 99th percentile beside that of (b)."""
    return [
        {
            "partitions": partitions,
            "p50_s": GOALS_S[partitions],
            "p50_met": runs["c"]["p50_s"] < GOALS_S[partitions],
            "p99_to_b": runs["c"]["p99_s"] / runs["b"]["p99_s"],
            "p99_met": runs["c"]["p99_s"] <= GOAL_P99 * runs["b"]["p99_s"],
        }
        for partitions in PARTITIONS
        if (runs := found.get(str(partitions)))
    ]


def _line(variant: str, run: Mapping[str, float]) -> str:
    return (
        f"({variant:<2}) p50 {run['p50_s']:6.2f} s, p99 {run['p99_s']:6.2f} s, most {run['most_s']:6.2f} s; "
        f"a batch {run['batch_s']:.2f} s; {run['inserts_per_s']:.0f} inserts and {run['questions_per_s']:.0f} "
        f"questions a second, {run['insert_ms']:.1f} ms an insert, {run['cores']:.2f} cores"
    )


def lines(figures: Mapping[str, Any]) -> list[str]:
    """For people."""
    out = [f"latency: {figures['rate']:,} records a second for {figures['seconds']} s, from sent to being inserted"]
    for partitions, runs in figures["partitions"].items():
        out += [f"  {partitions:>4} {_line(variant, run)}" for variant, run in runs.items()]
    for goal in figures["goals"]:
        p50, p99 = ("met" if goal[f"{name}_met"] else "MISSED" for name in ("p50", "p99"))
        out.append(
            f"  goals at {goal['partitions']} partitions: p50 < {goal['p50_s']} s: {p50}; "
            f"p99 <= {GOAL_P99} x (b), x {goal['p99_to_b']:.2f}: {p99}"
        )
    return out
