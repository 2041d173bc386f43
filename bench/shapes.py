"""Records of other shapes, each drained in turns by (b2) raw values as JSONEachRow and by (c) chsink.

Orders are also sent as Avro and Protobuf, and (b2) gets the same orders as JSON.  Changes are sent as Debezium sends
them, and once more as JSON of the same bytes; (b2) gets that, too.  After each pair of runs, a hash over all columns of
all rows must be the same in both tables.  Where records do not fit, ClickHouse is told to skip errors, as chsink is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench import formats
from bench.measured import Measured, Place
from bench.shaped import CHANGE_COLUMNS, SHAPES, change, change_as_json
from bench.speed import KINDS, Runs
from bench.topic import PARTITIONS

NAMES = (*SHAPES, "orders", "avro", "protobuf", "changes", "debezium")
MOST_RECORDS = 1_000_000
MOST_ROUNDS = 3
GOALS = {"bad": 0.85, "debezium": 0.6}
"""Of the rate of (c) with ``flat``; with ``changes``."""
ORDERS = 20_000
"""Different ones; they are sent again and again."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent for (c), and for (b2) if it is something else; sections of the job file; records that do not fit."""

    columns: str
    record: Callable[[int], bytes]
    as_json: Callable[[int], bytes] | None = None
    keep: Mapping[str, Any] = field(default_factory=dict)
    form: Mapping[str, Any] = field(default_factory=dict)


def loads(folder: Path) -> dict[str, Load]:
    """By name.  The files of schemas go to the folder."""
    orders = [formats.order(random.Random(at), at) for at in range(ORDERS)]  # noqa: S311 - data to send
    made = formats.encoded(orders)
    columns = ", ".join(f"{name} {kind}" for name, kind in formats.COLUMNS.items())
    found = {name: Load(shape.columns, shape.record, keep=shape.settings) for name, shape in SHAPES.items()}
    for name, (form, values) in made.items():
        text = formats.settings_of(form, folder)
        found["orders" if name == "json" else name] = Load(columns, _again(values), _again(made["json"][1]), form=text)
    found["changes"] = Load(CHANGE_COLUMNS, change_as_json)
    found["debezium"] = Load(CHANGE_COLUMNS, change, change_as_json, form={"type": "debezium"})
    assert found.keys() == set(NAMES), "all that may be asked for"
    return found


def _again(values: Sequence[bytes]) -> Callable[[int], bytes]:
    return lambda index: values[index % len(values)]


def measure(place: Place, records: int, rounds: int, only: Sequence[str] = ()) -> dict[str, Any]:
    """Rows and CPU of both, by shape."""
    records, rounds = min(records, MOST_RECORDS), min(rounds, MOST_ROUNDS)
    every = loads(place.folder)
    figures: dict[str, Any] = {}
    with Measured(place, "b2") as raw, Measured(place, "c") as sink:
        raw.session_s()
        sink.session_s()
        for name in only or every:
            figures[name] = _shape(place, name, every[name], {"b2": raw, "c": sink}, records=records, rounds=rounds)
            place.say(f"shapes: {name}: {_line(figures[name])}")
    return {"records": records, "shapes": figures, "goals": _goals(figures)}


def _shape(
    place: Place, name: str, load: Load, processes: Mapping[str, Measured], *, records: int, rounds: int
) -> dict[str, Any]:
    kafka, client = place.stack.kafka, place.client()
    topics = {"c": f"shape-{name}", "b2": f"shape-{name}-json" if load.as_json else f"shape-{name}"}
    size = produced(place, topics["c"], load.record, records)
    if load.as_json:
        produced(place, topics["b2"], load.as_json, records)
    runs = {variant: Runs(f"{name} ({variant})") for variant in processes}
    for number in range(rounds + 1):  # the first is a warm-up
        hashes = {}
        for variant, process in processes.items():
            table = f"shape_{variant}"
            place.empty_table(client, table, deduplicated=variant == "c", columns=load.columns)
            route = [{"topic": topics[variant], "table": table, **({"format": load.form} if load.form else {})}]
            keep = {**load.keep, "route": route}
            answer, usage = process.drain(topics[variant], table, keep=keep)
            hashes[variant] = client.query(f"SELECT count(), sum(cityHash64(*)) FROM {table}").result_rows[0]
            runs[variant].add(number, answer, usage, None)
            client.command(f"DROP TABLE {table} SYNC")
        fault = None if hashes["b2"] == hashes["c"] else f"(b2) and (c) left different rows: {hashes}"
        runs["c"].check(number, fault)
    client.close()
    for topic in set(topics.values()):
        kafka.delete_topic(topic)
    rates = {variant: run.rate(records) for variant, run in runs.items()}
    cpu = {variant: run.cpu_us_per_row(records) for variant, run in runs.items()}
    return {
        "bytes": size,
        "rows_per_s": rates,
        "cpu_us_per_row": cpu,
        "cpu_s": {variant: {kind: run.cpu_s(kind) for kind in KINDS} for variant, run in runs.items()},
        "rows_to_b2": rates["c"] / rates["b2"],
        "rows_to_b2_by_round": [b / c for b, c in zip(runs["b2"].seconds, runs["c"].seconds, strict=True)],
        "cpu_to_b2": cpu["b2"] / cpu["c"],
    }


def produced(place: Place, topic: str, record: Callable[[int], bytes], records: int) -> float:
    """Send the records evenly over the partitions; their mean size in bytes."""
    place.stack.kafka.create_topic(topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": place.stack.kafka.bootstrap, "linger.ms": 50,
                         "queue.buffering.max.messages": 500_000, "queue.buffering.max.kbytes": 1_000_000})  # fmt: skip
    size = 0
    for index in range(records):
        value = record(index)
        size += len(value)
        while True:
            try:
                producer.produce(topic, value=value, partition=index % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(120)
    assert left == 0, f"{left} records were not delivered"
    return size / records


def _goals(figures: Mapping[str, Any]) -> dict[str, dict[str, float | bool]]:
    """The rate of (c), and its rows per CPU second, as a part of those with other records."""
    beside = {"bad": "flat", "debezium": "changes"}
    found: dict[str, dict[str, float | bool]] = {}
    for name, other in beside.items():
        if name in figures and other in figures:
            rate = figures[name]["rows_per_s"]["c"] / figures[other]["rows_per_s"]["c"]
            cpu = figures[other]["cpu_us_per_row"]["c"] / figures[name]["cpu_us_per_row"]["c"]
            found[name] = {"rate": rate, "cpu": cpu, "goal": GOALS[name], "met": max(rate, cpu) >= GOALS[name]}
    return found


def _line(figure: Mapping[str, Any]) -> str:
    rates, cpu, worker = figure["rows_per_s"], figure["cpu_us_per_row"], figure["cpu_s"]["c"]["worker"]
    return (
        f"{figure['bytes']:6.0f} bytes {rates['b2']:>9,.0f} {rates['c']:>9,.0f} rows/s x {figure['rows_to_b2']:.2f}"
        f" {cpu['b2']:8.2f} {cpu['c']:6.2f} CPU us/row x {figure['cpu_to_b2']:.2f}, worker {worker:.1f} s"
    )


def lines(figures: Mapping[str, Any]) -> list[str]:
    """For people."""
    out = [f"shapes: {figures['records']:,} records; (b2), (c), and their ratio; medians of warm runs in turns"]
    out += [f"  {name:9} {_line(figure)}" for name, figure in figures["shapes"].items()]
    for name, goal in figures["goals"].items():
        met = "met" if goal["met"] else "MISSED"
        out.append(f"  {name}: x {goal['rate']:.2f} rows, x {goal['cpu']:.2f} by CPU; goal {goal['goal']:.2f}: {met}")
    return out
