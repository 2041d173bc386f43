"""What do dead letters cost?  The same records, without bad ones and with 1 % of them, landed in turns by one process.

Bad records come on top of the good ones, so that the same rows land.  They are skipped, or go to a table or to a topic.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Producer

from bench import topic
from bench.measured import Measured, Place
from bench.speed import WARM_UPS, Runs
from bench.topic import PARTITIONS
from chsink.dlq.letters import create_table

BAD_IN = 100
GOAL = 0.8
TABLE, TOPIC = "dead_letters", "dead-letters"
KEEP: Mapping[str, Mapping[str, Any]] = {
    "clean": {},
    "skip": {"errors": {"on_bad_value": "skip"}},
    "table": {"errors": {"on_bad_value": "dead_letter"}, "dead_letters": {"table": TABLE}},
    "topic": {"errors": {"on_bad_value": "dead_letter"}, "dead_letters": {"topic": TOPIC}},
}


def measure(place: Place, records: int, rounds: int) -> dict[str, Any]:
    """Seconds of each way, and its rate as a part of the rate without bad records."""
    kafka, bad = place.stack.kafka, records // BAD_IN
    for name in ("clean", "bad", TOPIC):
        kafka.create_topic(name, PARTITIONS)
    topic.produce(kafka.bootstrap, "clean", 0, records, place.say)
    _produce_mixed(kafka.bootstrap, records)
    client = place.client()
    runs = {way: Runs(way) for way in KEEP}
    with Measured(place, "c") as process:
        process.session_s()
        for number in range(1 - WARM_UPS, rounds + 1):
            for way, keep in KEEP.items():
                place.empty_table(client, "letters_rows", deduplicated=True)
                client.command(f"DROP TABLE IF EXISTS {TABLE} SYNC")
                client.command(create_table(TABLE))
                answer, usage = process.drain("clean" if way == "clean" else "bad", "letters_rows", keep=keep)
                fault = topic.wrong(client, "letters_rows", records)
                kept = client.query(f"SELECT count(), uniqExact(value) FROM {TABLE}").result_rows[0]
                if way == "table" and kept != (bad, bad):
                    fault = fault or f"{kept} dead letters, {bad} were sent"
                runs[way].add(number, answer, usage, fault)
                place.say(f"dead letters: run {number} ({way}) {answer['seconds']:.2f} s")
    client.close()
    seconds = {way: r.seconds for way, r in runs.items()}
    rates = {way: r.rate(records) / runs["clean"].rate(records) for way, r in runs.items()}
    met = all(rate >= GOAL for rate in rates.values())
    return {"records": records, "bad": bad, "seconds": seconds, "rates": rates, "goal": {"rate": GOAL, "met": met}}


def _produce_mixed(bootstrap: str, records: int) -> None:
    """The same records, and after every hundredth one that does not fit."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    for index in range(records):
        values = [(index, topic.record(index))]
        if index % BAD_IN == 0:
            values.append((index // BAD_IN, b'{"id":"none","name":"user%d"}' % index))
        for number, value in values:
            while True:
                try:
                    producer.produce("bad", value=value, partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
    left = producer.flush(120)
    assert left == 0, f"{left} records were not delivered"


def lines(figures: Mapping[str, Any]) -> list[str]:
    """For people."""
    out = [f"dead letters: {figures['records']:,} records, {figures['bad']:,} bad ones on top; medians of warm runs"]
    for way, rate in figures["rates"].items():
        out.append(f"  {way:<6} {statistics.median(figures['seconds'][way]):7.2f} s   x {rate:.2f} of the rate without")
    goal = figures["goal"]
    return [*out, f"  goal: at least x {goal['rate']:.2f}: {'met' if goal['met'] else 'MISSED'}"]
