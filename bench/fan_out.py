"""What does a further table of a topic cost?  The same records landed in one, two and four tables, in turns.

All tables have the same columns.  chsink runs an action for each table, so the topic is read and parsed once a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench import topic
from bench.measured import Measured, Place
from bench.speed import KINDS, Runs, WrongRowsError
from bench.topic import PARTITIONS

TABLES = (1, 2, 4)
MOST_RECORDS = 1_000_000
MOST_ROUNDS = 3
TOPIC = "fan-out"


def measure(place: Place, records: int, rounds: int) -> dict[str, Any]:
    """Seconds and CPU by number of tables."""
    records, rounds = min(records, MOST_RECORDS), min(rounds, MOST_ROUNDS)
    place.stack.kafka.create_topic(TOPIC, PARTITIONS)
    topic.produce(place.stack.kafka.bootstrap, TOPIC, 0, records, place.say)
    client = place.client()
    runs = {tables: Runs(f"{tables} tables") for tables in TABLES}
    with Measured(place, "c") as process:
        process.session_s()
        for number in range(rounds + 1):  # the first is a warm-up
            for tables in TABLES:
                names = [f"fan_out_{at}" for at in range(tables)]
                for name in names:
                    place.empty_table(client, name, deduplicated=True)
                route = [{"topic": TOPIC, "table": name} for name in names]
                answer, usage = process.drain(TOPIC, names[0], keep={"route": route})
                faults = [fault for name in names if (fault := topic.wrong(client, name, records))]
                if faults:
                    raise WrongRowsError(f"{tables} tables, run {number}: {faults[0]}")
                runs[tables].add(number, answer, usage, None)
                place.say(f"fan_out: run {number} ({tables} tables) {answer['seconds']:.2f} s")
    client.close()
    one = runs[1]
    return {
        "records": records,
        "tables": {
            str(tables): {
                "seconds": run.seconds,
                "to_one": one.rate(records) / run.rate(records),
                "cpu_us_per_record": run.cpu_us_per_row(records),
                "cpu_to_one": run.cpu_us_per_row(records) / one.cpu_us_per_row(records),
                "cpu_s": {kind: run.cpu_s(kind) for kind in KINDS},
            }
            for tables, run in runs.items()
        },
    }


def lines(figures: Mapping[str, Any]) -> list[str]:
    """For people."""
    out = [f"fan_out: {figures['records']:,} records of one topic into several tables; medians of warm runs in turns"]
    for tables, found in figures["tables"].items():
        cpu = ", ".join(f"{kind} {found['cpu_s'][kind]:.1f}" for kind in ("jvm", "worker", "clickhouse", "kafka"))
        out.append(
            f"  {tables} tables: x {found['to_one']:.2f} of the time of one, {found['cpu_us_per_record']:.2f} CPU us a "
            f"record (x {found['cpu_to_one']:.2f}): {cpu} s"
        )
    return out
