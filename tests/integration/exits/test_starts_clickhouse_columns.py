"""Streams and formats that do not fill a table: what the fix says is done, and each record lands once."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.integration.exits.starts import found, gone, refused
from tests.integration.job.conftest import MakeJob
from tests.support.job import Job, select
from tests.support.kafka import Value
from tests.support.told import named_in, rest_of, says

pytestmark = [pytest.mark.slow, pytest.mark.soak]


def once(job: Job, count: int = 10) -> None:
    """Each of so many records of the partition has one row."""
    table = job.tables[job.topic]
    [line] = select(job.shards[0], f"SELECT count(), uniqExact(_kafka_offset) FROM {table} FORMAT TSV").splitlines()
    assert line.split() == [str(count)] * 2
    assert not job.in_doubt()


# --- formats ---------------------------------------------------------------------------------------------------------

Options = Mapping[str, Any]


def objects() -> list[Value]:
    """Of these fields, a table has some."""
    return [
        {"id": n, "text": "x", "price": "1.50", "day": 20_000, "at": 1_700_000_000, "tags": [{"k": "a", "v": "b"}]}
        for n in range(10)
    ]


def rows() -> list[Value]:
    return [f"{n},x" for n in range(10)]


@dataclass(frozen=True)
class Case:
    """``entry`` is said of a route with these options to a table with these columns; ``words`` of its fix lead to the
    other options, or to another declaration of a column.
    """

    entry: str
    columns: str
    wrong: Options
    words: str
    right: Options | None = None
    alter: str = ""
    values: Callable[[], Iterable[Value]] = field(default=objects)


TWO = "id UInt64, text String"
CSV, BOTH = ({"type": "csv", "columns": names} for names in (["id"], ["id", "text"]))
NESTED = f"{TWO}, tags Nested(k String, v String)"
CASES = {
    "a name": Case(
        "FORMAT_COLUMN_UNKNOWN",
        TWO,
        {"type": "json", "fields": {"texxt": "$.price"}},
        "correct the name in the route",
        {"type": "json", "fields": {"text": "$.price"}},
    ),
    "a new column": Case(
        "FORMAT_COLUMN_UNKNOWN",
        TWO,
        {"type": "json", "fields": {"cost": "$.price"}},
        "or add the column to the table",
        alter="ADD COLUMN cost String",
    ),
    "named": Case("FORMAT_COLUMN_REQUIRED", TWO, CSV, "name the column in the route's format", BOTH, values=rows),
    "nullable": Case(
        "FORMAT_COLUMN_REQUIRED",
        TWO,
        {"type": "csv", "columns": ["id", ""]},
        "make it Nullable",
        alter="MODIFY COLUMN text Nullable(String)",
        values=rows,
    ),
    "default": Case(
        "FORMAT_COLUMN_REQUIRED",
        TWO,
        {"type": "csv", "columns": ["id", ""]},
        "or give it a DEFAULT",
        alter="MODIFY COLUMN text String DEFAULT 'none'",
        values=rows,
    ),
    "decimals": Case(
        "FORMAT_DECIMALS",
        TWO,
        {"type": "json", "decimals": {"text": 2}},
        "remove the column from `decimals`",
        {"type": "json"},
    ),
    "constant": Case(
        "FORMAT_CONSTANT",
        f"{TWO}, n UInt8",
        {"type": "json", "constants": {"n": 300}},
        "correct the value in `constants` of the route's format",
        {"type": "json", "constants": {"n": 30}},
    ),
    "nested": Case(
        "FORMAT_NESTED",
        NESTED,
        {"type": "json", "fields": {"tags.k": "$.text"}},
        "remove the column from the options of the route's format",
        {"type": "json"},
    ),
}


def route_of(job: Job, **more: Any) -> dict[str, Any]:
    return {"route": [{"topic": job.topic, "table": job.tables[job.topic], **more}]}


@pytest.mark.exit_of("FORMAT_COLUMN_UNKNOWN")
@pytest.mark.exit_of("FORMAT_COLUMN_REQUIRED")
@pytest.mark.exit_of("FORMAT_DECIMALS")
@pytest.mark.exit_of("FORMAT_CONSTANT")
@pytest.mark.exit_of("FORMAT_NESTED")
@pytest.mark.parametrize("name", CASES)
def test_options_that_are_put_right(make_job: MakeJob, spark: SparkSession, name: str) -> None:
    case = CASES[name]
    job = make_job(partitions=1, columns=case.columns)
    job.send_values(0, case.values())
    job.settings = route_of(job, format=case.wrong)
    says(found(case.entry, job), case.words)
    if case.right is not None:
        job.settings = route_of(job, format=case.right)
    if case.alter:
        job.everywhere(f"ALTER TABLE {job.tables[job.topic]} {case.alter}")
    gone(case.entry, job)
    job.drain(spark)
    once(job)


@pytest.mark.exit_of("FORMAT_EPOCH")
@pytest.mark.parametrize(
    ("kind", "wrong", "words", "shown"),
    [
        ("day Date", "millis", "of the route's format, use", "2024-10-04"),
        ("at DateTime('UTC')", "days", "for a date, and", "2023-11-14 22:13:20"),
    ],
)
def test_a_unit_that_does_not_fit(
    make_job: MakeJob, spark: SparkSession, kind: str, wrong: str, words: str, shown: str
) -> None:
    """The unit is the first that the fix names for such a column."""
    job, column = make_job(partitions=1, columns=f"id UInt64, {kind}"), kind.split(maxsplit=1)[0]
    job.send_values(0, objects())
    job.settings = route_of(job, format={"type": "json", "epoch": {column: wrong}})
    unit = named_in(found("FORMAT_EPOCH", job), words)
    job.settings = route_of(job, format={"type": "json", "epoch": {column: unit}})
    gone("FORMAT_EPOCH", job)
    job.drain(spark)
    once(job)
    assert select(job.shards[0], f"SELECT DISTINCT {column} FROM {job.tables[job.topic]}").strip() == shown


@pytest.mark.exit_of("FORMAT_COLUMN_OPEN")
def test_a_format_of_one_column_for_a_table_of_two(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1, columns="id UInt64 DEFAULT 7, text String")
    job.send_values(0, rows())
    job.settings = route_of(job, format="raw")
    written = rest_of(found("FORMAT_COLUMN_OPEN", job), "name the column: format =").replace("…", "text")
    job.settings = route_of(job, format=tomllib.loads(f"format = {written}")["format"])
    gone("FORMAT_COLUMN_OPEN", job)
    job.drain(spark)
    once(job)


# --- streams of a transform ------------------------------------------------------------------------------------------


def parsed(stream: DataFrame) -> DataFrame:
    """With the columns that a transform reads from the value."""
    record = f.from_json(stream.value.cast("string"), "id long, text string, kind string")
    return stream.withColumn("r", record).selectExpr("*", "r.id", "r.text", "r.kind")


PLACE = ("topic", "partition", "offset")
STREAMS: dict[str, tuple[str, tuple[str, ...], str, tuple[str, ...], str]] = {
    "rename": ("COLUMN_UNKNOWN", ("id", "text AS texxt"), "rename or drop the column", ("id", "text"), ""),
    "add": (
        "COLUMN_UNKNOWN",
        ("id", "text", "kind"),
        "or add it to the table",
        ("id", "text", "kind"),
        "ADD COLUMN kind Nullable(String)",
    ),
    "give": ("COLUMN_REQUIRED", ("id",), "add it in the transform", ("id", "text"), ""),
    "default": (
        "COLUMN_REQUIRED",
        ("id",),
        "or give the table's column a DEFAULT",
        ("id",),
        "MODIFY COLUMN text String DEFAULT 'none'",
    ),
}


@pytest.mark.exit_of("COLUMN_UNKNOWN")
@pytest.mark.exit_of("COLUMN_REQUIRED")
@pytest.mark.parametrize("name", STREAMS)
def test_a_transform_that_does_not_fit_the_table(make_job: MakeJob, spark: SparkSession, name: str) -> None:
    entry, wrong, words, right, alter = STREAMS[name]
    job = make_job(partitions=1)
    job.send(0, 10)
    # "texxt" also lacks "text": the unknown column is said first
    said = refused(entry, lambda: job.drain_sink(spark, lambda stream: parsed(stream).selectExpr(*PLACE, *wrong)))
    says(said, words)
    if alter:
        job.everywhere(f"ALTER TABLE {job.tables[job.topic]} {alter}")
    job.drain_sink(spark, lambda stream: parsed(stream).selectExpr(*PLACE, *right))
    once(job)


@pytest.mark.exit_of("STREAM_WITHOUT_KEY")
@pytest.mark.parametrize("way", ["keep", "key_format", "_kafka_key"])
def test_a_transform_that_drops_the_key(make_job: MakeJob, spark: SparkSession, way: str) -> None:
    job = make_job(partitions=1, columns=f"{TWO}, _kafka_key Nullable(String)" if way == "_kafka_key" else TWO)
    job.send(0, 10, key=json.dumps({"id": 5}).encode())
    read = {} if way == "_kafka_key" else {"key_format": "json", "key_columns": ["id"]}
    job.settings = route_of(job, **read)
    said = refused("STREAM_WITHOUT_KEY", lambda: job.drain_sink(spark, lambda stream: stream.drop("key")))
    kept = "timestamp" if way == "keep" else "key"
    if way == "keep":
        assert rest_of(said, "keep Kafka's column").split()[0] == "key"
    else:
        says(said, "or remove what reads it", way)
        job.settings = route_of(job)
        if way == "_kafka_key":
            job.everywhere(f"ALTER TABLE {job.tables[job.topic]} DROP COLUMN {way}")
    job.drain_sink(spark, lambda stream: stream.drop(kept))
    once(job)


@pytest.mark.exit_of("KEY_NOT_IN_STREAM")
@pytest.mark.parametrize("way", ["keep", "correct"])
def test_a_transform_that_drops_the_shard_key(make_job: MakeJob, spark: SparkSession, way: str) -> None:
    job = make_job(partitions=1, shards=2, shard_key=["_kafka_key"])
    job.send(0, 10, key=b"k")

    def drain(*more: str) -> None:
        job.drain_sink(spark, lambda stream: parsed(stream).selectExpr(*PLACE, "id", "text", *more))

    said = refused("KEY_NOT_IN_STREAM", drain)
    if way == "keep":
        drain(named_in(said, "let the transform keep the column"))
    else:
        says(said, "or correct clickhouse.shard_key")
        job.shard_key = ["id"]
        drain()
    job.check()


@pytest.mark.exit_of("STREAM_WITHOUT_CHOICE")
@pytest.mark.parametrize(
    ("choice", "way"), [("field", "keep"), ("field", "change"), ("header", "keep"), ("column", "keep")]
)
def test_a_transform_that_drops_what_chooses_the_table(
    make_job: MakeJob, spark: SparkSession, choice: str, way: str
) -> None:
    job = make_job(partitions=1)
    values: list[Value] = [{"id": n, "text": "x", "kind": "a"} for n in range(10)]
    job.send_values(0, values, headers=[("kind", b"a")])
    kinds = {"a": job.tables[job.topic]}

    def by(source: str) -> dict[str, Any]:
        name = "$.kind" if source == "field" else "kind"
        return {"route": [{"topic": job.topic, "table_by": {source: name, "tables": kinds}}]}

    job.settings = by(choice)

    def chosen(*columns: str) -> None:
        kept = (*PLACE, "id", "upper(text) AS text", *columns)
        job.drain_sink(spark, lambda stream: parsed(stream).selectExpr(*kept))

    said = refused("STREAM_WITHOUT_CHOICE", chosen)
    if way == "keep":
        chosen(named_in(said, "keep the column"))
    else:
        says(said, "or let table_by read a column")
        job.settings = by("column")
        chosen("kind")
    once(job)
    texts = select(job.shards[0], f"SELECT DISTINCT text FROM {job.tables[job.topic]}").strip()
    if (choice, way) == ("field", "keep"):
        says(said, "if the transform keeps the column `value`, chsink parses that column and ignores the columns")
    assert texts == ("x" if (choice, way) == ("field", "keep") else "X")
