"""Iceberg tables of other kinds, by (s) Spark's own Iceberg sink and (m) the mirror, in turns; medians of warm runs.

Partitioned by the day of a time, all in one day; by bucket(16) of the id; and records with objects and arrays.  (s)
neither shuffles nor sorts for a partitioned table (``write.distribution-mode=none``, ``fanout-enabled``): so it writes
as many files as (m), and is at its fastest.  The rows of each run are checked.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from bench import lake as flat
from bench import peer, topic
from bench.lake import BUCKET, CHECKED, DAY, SCHEMA, Lake
from bench.measured import Measured, Place
from bench.shaped import SHAPES
from bench.shapes import produced
from bench.speed import Runs

VARIANTS = {"s": f"Iceberg's sink, Spark {peer.PYSPARK}", "m": "the mirror"}
WARM_UPS = 1
RECORD_NESTED = SHAPES["nested"].record
MOST_NESTED = 1_000_000
SAMPLE = 200
GOALS = {"bucket": 1.5}
"""Of the rate of (s)."""

_ADDRESS = StructType(NestedField(8, "city", StringType()), NestedField(9, "zip", IntegerType()))
_ITEM = StructType(
    NestedField(12, "sku", StringType()),
    NestedField(13, "count", IntegerType()),
    NestedField(14, "price", DoubleType()),
)
NESTED = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "customer", StructType(NestedField(6, "name", StringType()), NestedField(7, "address", _ADDRESS))),
    NestedField(3, "tags", ListType(10, StringType(), element_required=False)),
    NestedField(4, "items", ListType(11, _ITEM, element_required=False)),
    NestedField(5, "paid", BooleanType()),
)
SPARK_NESTED = (
    "id long, customer struct<name:string,address:struct<city:string,zip:int>>, tags array<string>, "
    "items array<struct<sku:string,count:int,price:double>>, paid boolean"
)


def wrong_nested(rows: pa.Table, records: int) -> str | None:
    """What is wrong with rows of nested records: the ids of all, and every value of some."""
    ids = rows.column("id").to_numpy()
    if len(ids) != records or not np.array_equal(np.sort(ids), np.arange(records)):
        return f"{len(ids)} rows, expected {records}, or other ids"
    at = np.argsort(ids)[sorted(random.Random(records).sample(range(records), min(SAMPLE, records)))]  # noqa: S311
    differ = [row for row in rows.take(pa.array(at)).to_pylist() if row != json.loads(RECORD_NESTED(row["id"]))]
    return f"a record landed as {differ[0]}" if differ else None


@dataclass(frozen=True)
class LakeShape:
    """A table for the mirror, and what is sent to it.  ``partitioned`` and ``columns`` are the same for Spark; "" for
    the benchmark's own columns.
    """

    what: str
    spec: PartitionSpec
    partitioned: str = ""
    schema: Schema = SCHEMA
    columns: str = ""
    record: Callable[[int], bytes] = topic.record
    checked: Sequence[str] = field(default_factory=lambda: CHECKED)
    wrong: Callable[[pa.Table, int], str | None] = flat.wrong


KINDS: Mapping[str, LakeShape] = {
    "day": LakeShape("day(ts), one day", DAY, "days(ts)"),
    "bucket": LakeShape("bucket(16, id)", BUCKET, "bucket(16, id)"),
    "nested": LakeShape(
        "objects and arrays", UNPARTITIONED_PARTITION_SPEC, "", NESTED, SPARK_NESTED, RECORD_NESTED,
        [column.name for column in NESTED.fields], wrong_nested,
    ),
}  # fmt: skip


def measure(place: Place, source: str, records: int, rounds: int) -> dict[str, Any]:
    """Rows and CPU of both, by kind of table.  The topic ``source`` holds so many flat records."""
    nested = min(records, MOST_NESTED)
    produced(place, "nested", RECORD_NESTED, nested)
    with ExitStack() as stack:
        other = peer.ensure(place.say)
        processes = {
            "s": stack.enter_context(Measured(place, "s", python=other.python, jars=other.jars)),
            "m": stack.enter_context(Measured(place, "m")),
        }
        for process in processes.values():
            process.session_s()
        sent = dict.fromkeys(KINDS, (source, records)) | {"nested": ("nested", nested)}
        figures = {name: _in_turns(place, processes, name, sent[name], rounds) for name in KINDS}
    place.stack.kafka.delete_topic("nested")
    return {"load": os.getloadavg()[0], "kinds": figures}


def _in_turns(
    place: Place, processes: Mapping[str, Measured], name: str, sent: tuple[str, int], rounds: int
) -> dict[str, Any]:
    (source, records), kind, lake = sent, KINDS[name], Lake(place.folder)
    runs = {variant: Runs(f"{name} ({variant})") for variant in processes}
    for number in range(1 - WARM_UPS, rounds + 1):
        for variant, process in processes.items():
            label = f"{name}_{number}".replace("-", "_")
            target = f"bench.{label}" if variant == "s" else lake.table(label, kind.schema, kind.spec)
            shape = {"columns": kind.columns, "partitioned": kind.partitioned}
            answer, usage = process.drain(source, target, lake=lake.properties, shape=shape)
            fault = kind.wrong(lake.rows(variant, target, kind.checked), records)
            lake.remove(variant, target)
            runs[variant].add(number, answer, usage, fault)
            place.say(f"mirror: {name}, run {number} ({variant}) {answer['seconds']:6.2f} s")
    rates = {variant: run.rate(records) for variant, run in runs.items()}
    ratio = rates["m"] / rates["s"]
    return {
        "what": kind.what,
        "records": records,
        "rows_per_s": rates,
        "cpu_us_per_row": {variant: run.cpu_us_per_row(records) for variant, run in runs.items()},
        "worker_cpu_us": runs["m"].cpu_s("worker") / records * 1e6,
        "worker_mib": runs["m"].peak_mib("worker"),
        "ratio": ratio,
        "by_round": [s / m for s, m in zip(runs["s"].seconds, runs["m"].seconds, strict=True)],
        "goal": None if name not in GOALS else {"least": GOALS[name], "met": ratio >= GOALS[name]},
    }


def lines(figures: Mapping[str, Any]) -> list[str]:
    """A table for people."""
    out = [f"tables of other kinds: (s) {VARIANTS['s']}, (m) {VARIANTS['m']}; load {figures['load']:.1f}"]
    out.append(f"{'':<19} {'records':>9} {'rows/s (s)':>10} {'(m)':>9} {'x (s)':>6}  CPU us/row (s), (m), workers; MiB")
    for kind in figures["kinds"].values():
        rates, cpu, goal = kind["rows_per_s"], kind["cpu_us_per_row"], kind["goal"]
        text = "" if goal is None else f"   goal {goal['least']}: {'met' if goal['met'] else 'MISSED'}"
        out.append(
            f"{kind['what']:<19} {kind['records']:>9,} {rates['s']:>10,.0f} {rates['m']:>9,.0f} {kind['ratio']:>6.2f}"
            f"  {cpu['s']:.2f}, {cpu['m']:.2f}, {kind['worker_cpu_us']:.2f}; {kind['worker_mib']:,.0f}{text}"
        )
    return out
