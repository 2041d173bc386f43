"""Views that may count rows twice, tables that were emptied, and tables that chsink makes: what the fix says is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from chsink.batch import loop
from chsink.embedded.stack import Stack
from tests.integration.exits.starts import alter, found, gone, lands, refused, run_named
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.integration.job.test_evolution import SETTINGS, values
from tests.support.job import DATABASE, METADATA, WINDOW, Job, command, select
from tests.support.told import named_in, rest_of, says

pytestmark = [pytest.mark.slow, pytest.mark.soak]

# --- views -----------------------------------------------------------------------------------------------------------

FILLED = "ENGINE = MergeTree ORDER BY id"
KEPT = f"{FILLED} SETTINGS {WINDOW}"
VIEWS: dict[str, tuple[str, str, str, Callable[[str], str]]] = {
    "memory": (
        "VIEW_MAY_DOUBLE",
        "id UInt64",
        "ENGINE = Memory",
        lambda said: f"{FILLED} SETTINGS {rest_of(said, 'MergeTree table with').partition(',')[0]}",
    ),
    "partition": (
        "VIEW_PARTITION",
        "id UInt64, at DateTime DEFAULT now()",
        KEPT.replace("ORDER BY", "PARTITION BY toDate(at) ORDER BY"),
        lambda said: KEPT.replace("ORDER BY", f"PARTITION BY toDate({named_in(said, 'timestamp or')}) ORDER BY"),
    ),
}


def viewed(make_job: MakeJob, columns: str, engine: str, *, more: str = "") -> tuple[Job, str]:
    """A sink whose table a view reads, and the table that the view fills."""
    job = make_job(partitions=1, columns=f"id UInt64, text String{more}")
    filled = f"{job.tables[job.topic]}_filled"
    fill(job, columns, engine)
    job.send(0, 25)
    return job, filled


def fill(job: Job, columns: str, engine: str) -> None:
    """A view, and the table that it fills; another one than before."""
    table = job.tables[job.topic]
    job.everywhere(f"DROP VIEW IF EXISTS {table}_view SYNC")
    job.everywhere(f"DROP TABLE IF EXISTS {table}_filled SYNC")
    job.everywhere(f"CREATE TABLE {table}_filled ({columns}) {engine}")
    names = ", ".join(one.split()[0] for one in columns.split(", ") if "DEFAULT" not in one)
    job.everywhere(f"CREATE MATERIALIZED VIEW {table}_view TO {table}_filled AS SELECT {names} FROM {table}")


def once_behind(job: Job, filled: str, count: int = 25) -> None:
    """Each record is once in the view's table, too."""
    numbers = select(job.shards[0], f"SELECT count(), uniqExact(id) FROM {filled} FORMAT TSV").split()
    assert numbers == [str(count)] * 2


@pytest.mark.exit_of("VIEW_MAY_DOUBLE")
@pytest.mark.exit_of("VIEW_PARTITION")
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_that_fills_another_table(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints, name: str
) -> None:
    """⚑ The range is sent again after a crash, when the view has its rows already."""
    entry, columns, engine, better = VIEWS[name]
    job, filled = viewed(make_job, columns, engine, more=", _kafka_timestamp DateTime64(3)")
    said = found(entry, job)
    says(said, "let the view fill a MergeTree table" if name == "memory" else "by a column that comes from the record")
    more = columns if name == "memory" else "id UInt64, _kafka_timestamp DateTime64(3)"
    fill(job, more, better(said))
    gone(entry, job)
    crash_before_after(job, spark, failpoints)
    lands(job, spark)
    once_behind(job, filled)


@pytest.mark.exit_of("VIEW_DOUBLES")
@pytest.mark.exit_of("VIEW_FORGETS")
@pytest.mark.parametrize(
    ("entry", "engine"),
    [("VIEW_DOUBLES", FILLED), ("VIEW_FORGETS", f"{FILLED} SETTINGS non_replicated_deduplication_window = 1")],
)
def test_a_view_whose_table_forgets(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints, entry: str, engine: str
) -> None:
    """⚑ The range has three pieces, and is sent again after a crash."""
    job, filled = viewed(make_job, "id UInt64", engine)
    alter(job, found(entry, job))
    gone(entry, job)
    crash_before_after(job, spark, failpoints)
    lands(job, spark)
    once_behind(job, filled)


# --- emptied tables --------------------------------------------------------------------------------------------------


@pytest.mark.exit_of("SHARD_IS_EMPTY")
def test_a_shard_without_rows(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1, shards=2, shard_key=["id"])
    job.send(0, 25)
    lands(job, spark)
    job.send(0, 25)
    lands(job, spark)
    table, shard = job.tables[job.topic], job.shards[1]
    command(shard, f"CREATE TABLE {table}_backup AS {table}")
    command(shard, f"INSERT INTO {table}_backup SELECT * FROM {table}")
    command(shard, f"TRUNCATE TABLE {table}")
    said = found("SHARD_IS_EMPTY", job)
    says(said, "otherwise stop the job", "if not, restore them from a backup")
    run_named(job, said, "verify", code=1)
    command(shard, f"INSERT INTO {table} SELECT * FROM {table}_backup")
    run_named(job, said, "verify")
    gone("SHARD_IS_EMPTY", job)
    job.send(0, 5)
    lands(job, spark)


@pytest.mark.exit_of("NO_TABLE")
@pytest.mark.exit_of("TABLE_IS_EMPTY")
@pytest.mark.parametrize("entry", ["NO_TABLE", "TABLE_IS_EMPTY"])
def test_a_table_that_is_restored_from_a_backup(make_job: MakeJob, spark: SparkSession, entry: str) -> None:
    """The backup is older than the last batch; `verify` names what it lacks.  ⚑ A view had the rows before."""
    job, filled = viewed(make_job, "id UInt64", KEPT)
    lands(job, spark)
    table, url = job.tables[job.topic], job.shards[0]
    command(url, f"RENAME TABLE {table} TO {table}_backup")
    again = f"CREATE TABLE {table} AS {table}_backup"
    if entry == "TABLE_IS_EMPTY":
        command(url, again)
    said = found(entry, job)
    if entry == "NO_TABLE":
        says(said, "restore it from a backup")
        command(url, again)
    else:
        says(said, "Restore the rows from a backup")
    says(said, "if their targets still have these rows, drop the views first, and create them again afterwards")
    view = select(url, f"SELECT create_table_query FROM system.tables WHERE name = '{table.partition('.')[2]}_view'")
    command(url, f"DROP VIEW {table}_view SYNC")
    restored = f"INSERT INTO {table} SELECT * FROM {table}_backup WHERE _kafka_offset"
    command(url, f"{restored} < 20")
    named = run_named(job, said, "verify", code=1).output
    assert "missing" in named and "20" in named, named
    command(url, f"{restored} >= 20")
    command(url, view)
    run_named(job, said, "verify")
    job.send(0, 5)
    lands(job, spark)
    once_behind(job, filled, 30)
    gone(entry, job)


@pytest.mark.exit_of("TABLE_IS_ANOTHER")
def test_rows_that_landed_on_another_server(make_job: MakeJob, spark: SparkSession, services: Stack) -> None:
    """⚑ clickhouse.endpoints was changed by mistake, for one batch."""
    job = make_job(partitions=1)
    job.settings = {"state.store": "zookeeper", "state.zookeeper": services.zookeeper.hosts}
    job.send(0, 20)
    lands(job, spark)
    other, table = services.clickhouse[1].url, job.tables[job.topic]
    moved = replace(job, shards=[other])
    command(other, f"CREATE TABLE {table} (id UInt64, text String, {METADATA}) {KEPT}")
    job.send(0, 5)
    moved.drain(spark)
    said = found("TABLE_IS_ANOTHER", job)
    says(said, "If clickhouse.endpoints was changed by mistake, change it back")
    assert "20" in run_named(job, said, "verify", code=1).output
    says(said, f"Copy these rows to {table} from the table in which they landed")
    there = f"remote('127.0.0.1:{services.clickhouse[1].native_port}', {table})"
    command(job.shards[0], f"INSERT INTO {table} SELECT * FROM {there} WHERE _kafka_offset >= 20")
    run_named(job, said, "verify")
    job.send(0, 5)
    lands(job, spark)
    gone("TABLE_IS_ANOTHER", job, "CHS-220")


# --- tables that chsink makes ----------------------------------------------------------------------------------------


def made(make_job: MakeJob, **settings: Any) -> Job:
    """A sink whose table its start creates."""
    job = make_job(partitions=1, table=False, settings={**SETTINGS, **settings})
    job.tables[job.name] = f"{DATABASE}.t_{job.name}".replace("-", "_")
    return job


@pytest.mark.exit_of("NO_COLUMNS")
@pytest.mark.parametrize("way", ["send", "create"])
def test_a_topic_without_a_record(make_job: MakeJob, spark: SparkSession, way: str) -> None:
    job = made(make_job)
    said = refused("NO_COLUMNS", lambda: job.drain(spark))
    if way == "send":
        says(said, "send a record, then start again")
    else:
        says(said, "or create the table yourself")
        table = f"CREATE TABLE {job.tables[job.topic]} (id UInt64, text String, {METADATA})"
        job.create(f"{table} ENGINE = MergeTree ORDER BY id SETTINGS {WINDOW}")
        job.drain(spark)
    job.send(0, 10)
    lands(job, spark)


@pytest.mark.exit_of("TABLE_NOT_CREATED")
@pytest.mark.parametrize("way", ["correct", "print"])
def test_a_table_that_the_server_does_not_create(make_job: MakeJob, spark: SparkSession, way: str) -> None:
    job = made(make_job, **{"schema.engine": "MergeTre"})
    job.send(0, 10)
    said = refused("TABLE_NOT_CREATED", lambda: job.drain(spark))
    if way == "correct":
        says(said, "correct [schema] or the route")
        job.settings = {**job.settings, "schema.engine": "MergeTree"}
    else:
        printed = run_named(job, said, "sql", "create-table").stdout.partition("\n")[2].strip().rstrip(";")
        command(job.shards[0], printed.replace("MergeTre\n", "MergeTree\n"))
    lands(job, spark)


@pytest.mark.exit_of("COLUMNS_MISSING")
def test_fields_that_come_faster_than_a_batch_ends(
    make_job: MakeJob, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch starts over a hundred times by itself; here not at all."""
    job = make_job(partitions=1, settings={"schema.evolution": "add_columns"})
    job.send_values(0, values(0, more=1))
    monkeypatch.setattr(loop, "MOST_ADAPTED", 0)
    said = refused("COLUMNS_MISSING", lambda: job.drain(spark))
    says(said, "start again: chsink adds the columns")
    job.drain(spark)
    job.check(columns=["id", "text", "more"])


@pytest.mark.exit_of("TOO_MANY_COLUMNS")
@pytest.mark.parametrize("way", ["raise", "add"])
def test_more_fields_than_columns_are_allowed(make_job: MakeJob, spark: SparkSession, way: str) -> None:
    job = make_job(partitions=1, settings={"schema.evolution": "add_columns", "schema.max_columns": 5})
    job.send_values(0, [*values(0), *values(10, more=1)])
    said = refused("TOO_MANY_COLUMNS", lambda: job.drain(spark))
    if way == "raise":
        says(said, "raise schema.max_columns, then start again")
        job.settings = {**job.settings, "schema.max_columns": 6}
    else:
        says(said, "or add columns for these fields yourself")
        job.everywhere(f"ALTER TABLE {job.tables[job.topic]} ADD COLUMN more Nullable(Int64)")
    job.drain(spark)
    job.check(columns=["id", "text", "more"])


def test_a_field_of_which_the_engine_makes_no_column(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ The server refused to add it, under any type: nothing but giving the range up, or the evolution, led on."""
    job = made(make_job)
    job.send_values(0, values(0, _block_number=1))
    lands(job, spark)
    job.send_values(0, values(10, _row_exists=1, more=1))
    job.drain(spark)
    job.check(columns=["id", "text", "more"])
    assert [p["unknown_fields"] for p in job.status()["partitions"]] == [{"_block_number": 10, "_row_exists": 10}]
