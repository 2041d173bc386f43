"""What do routes cost?  The same records of one topic and of many topics with a table each, landed in turns.

``one`` is one topic with as many partitions as there are topics in the other variant, so that the batches have the same
tasks.  A batch's time is that of its ``foreachBatch``; the start is all before the first batch: checks, claim, Spark.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Producer

from bench import topic
from bench.measured import Measured, Place
from bench.speed import WrongRowsError

BATCHES = 3
RECORDS_A_ROUTE = 90
WARM_UPS = 1
GOAL = 1.5
PHASES = ("plan", "before", "insert", "after")
LIMIT_S = 120


def measure(place: Place, routes: int, rounds: int) -> dict[str, Any]:
    """Seconds of a start and of a batch with one topic and with many."""
    records, bootstrap = routes * RECORDS_A_ROUTE, place.stack.kafka.bootstrap
    topic.create(bootstrap, {"one": routes, **{f"many-{number}": 1 for number in range(routes)}})
    _produce(bootstrap, records, lambda at: ("one", at % routes))
    _produce(bootstrap, records, lambda at: (f"many-{at % routes}", 0))
    client = place.client()
    for table in ("one", *(f"many_{number}" for number in range(routes))):
        place.empty_table(client, table, deduplicated=True)
    place.say(f"routes: {routes + 1} topics and tables, {records:,} records each way")
    ways = {
        "one": ({"topic": "one", "table": "one"}, "one"),
        "many": ({"topic_pattern": "many-[0-9]+", "table": "{topic:_}"}, "merge(currentDatabase(), '^many_')"),
    }
    runs: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    with Measured(place, "c") as process:
        process.session_s()
        for number in range(1 - WARM_UPS, rounds + 1):
            for way, (route, found_in) in ways.items():
                kafka = {"bootstrap": bootstrap, "max_offsets_per_trigger": records // BATCHES}
                before = _requests(place, client)
                answer, _ = process.drain("", "", keep={"route": [route], "kafka": kafka})
                requests = {name: count - before[name] for name, count in _requests(place, client).items()}
                if fault := topic.wrong(client, found_in, records, times=number + WARM_UPS):
                    raise WrongRowsError(f"{way}, run {number}: {fault}")
                run = {**_figures(answer), **requests}
                if number > 0:
                    runs[way].append(run)
                place.say(f"routes: run {number} ({way}) {run['batch_s']:.2f} s a batch, start {run['start_s']:.2f} s")
    client.close()
    medians = {way: {key: statistics.median(run[key] for run in each) for key in each[0]} for way, each in runs.items()}
    ratio = medians["many"]["batch_s"] / medians["one"]["batch_s"]
    goal = {"ratio": GOAL, "met": ratio <= GOAL}
    return {"routes": routes, "records": records, "medians": medians, "runs": runs, "ratio": ratio, "goal": goal}


def _requests(place: Place, client: Any) -> dict[str, int]:
    """Requests so far: questions and inserts that ClickHouse had, and all that the Keeper had."""
    events = "SELECT event, value FROM system.events WHERE event IN ('SelectQuery', 'InsertQuery')"
    had = {str(name): int(value) for name, value in client.query(events).result_rows}
    return {
        "questions": had.get("SelectQuery", 0),
        "inserts": had.get("InsertQuery", 0),
        "keeper": place.keeper_requests(),
    }


def _figures(answer: Mapping[str, Any]) -> dict[str, float]:
    """Of one drain: seconds of the start, of a batch, and of the phases of a batch."""
    phases = {f"{name}_s": (answer["phases"][name] or 0.0) / BATCHES for name in PHASES}
    batches_s, all_s = answer["spark_ms"]["addBatch"] / 1000, answer["spark_ms"]["triggerExecution"] / 1000
    return {"start_s": answer["seconds"] - all_s, "batch_s": batches_s / BATCHES, **phases}


def _produce(bootstrap: str, records: int, place: Callable[[int], tuple[str, int]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 200, "queue.buffering.max.messages": 500_000})
    for index in range(records):
        name, partition = place(index)
        while True:
            try:
                producer.produce(name, value=topic.record(index), partition=partition)
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(LIMIT_S)
    assert left == 0, f"{left} records were not delivered"


def lines(figures: Mapping[str, Any]) -> list[str]:
    """For people."""
    many, records = figures["routes"], f"{figures['records']:,} records in {BATCHES} batches"
    out = [f"routes: {records}, of one topic with {many} partitions and of {many} topics with a table each; medians"]
    for way, median in figures["medians"].items():
        phases = ", ".join(f"{name} {median[f'{name}_s']:.2f}" for name in PHASES)
        out.append(f"  {way:<5} {median['batch_s']:7.2f} s a batch ({phases}), start {median['start_s']:6.2f} s")
        out.append(
            f"        with the start: {median['questions']:,.0f} questions and {median['inserts']:,.0f} inserts to "
            f"ClickHouse, {median['keeper']:,.0f} requests to the Keeper"
        )
    goal = figures["goal"]
    met = "met" if goal["met"] else "MISSED"
    return [*out, f"  a batch takes x {figures['ratio']:.2f}; goal: at most x {goal['ratio']:.2f}: {met}"]
