"""Target tables that a start refuses or warns of: what the fix says is done, and each record lands once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from chsink.embedded.stack import Stack
from chsink.sharding.functions import apply
from tests.integration.exits.starts import alter, chsink, found, gone, lands, run_named, run_printed
from tests.integration.job.conftest import MakeJob
from tests.support.doubt import announce, insert
from tests.support.job import DATABASE, METADATA, WINDOW, Job, command, select
from tests.support.told import named_in, option_of, rest_of, says, statements_of, words_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]

PLAIN = "id UInt64, text String"
KEPT = f"ENGINE = MergeTree ORDER BY tuple() SETTINGS {WINDOW}"


def waiting(make_job: MakeJob, **fields: Any) -> Job:
    """A sink with records that wait."""
    job: Job = make_job(**{"partitions": 1, **fields})
    job.send(0, 25)
    return job


def unnamed(make_job: MakeJob, **fields: Any) -> tuple[Job, str]:
    """A sink whose table does not exist, and its name."""
    job = make_job(**{"partitions": 1, "table": False, **fields})
    table = job.tables[job.name] = f"{DATABASE}.t_{job.name}".replace("-", "_")
    job.send(0, 25)
    return job, table


# --- tables that are not there ---------------------------------------------------------------------------------------


@pytest.mark.exit_of("NO_TABLE")
def test_a_table_that_is_created_as_printed(make_job: MakeJob, spark: SparkSession) -> None:
    job, _ = unnamed(make_job, shards=2, shard_key=["id"])
    run_printed(job, found("NO_TABLE", job), "sql", "create-table")
    gone("NO_TABLE", job)
    lands(job, spark)


@pytest.mark.exit_of("NO_TABLE_YET")
def test_a_table_that_the_next_start_creates(make_job: MakeJob, spark: SparkSession) -> None:
    job, table = unnamed(make_job, settings={"schema.auto_create": True})
    printed = run_named(job, found("NO_TABLE_YET", job), "sql", "create-table").stdout
    lands(job, spark)
    gone("NO_TABLE_YET", job)
    columns = select(job.shards[0], f"SELECT name, type FROM system.columns WHERE table = '{table[4:]}' FORMAT TSVRaw")
    assert [one for one in columns.splitlines() if one.split("\t")[1] not in printed] == []


@pytest.mark.exit_of("NO_TABLE_OF_TOPIC")
@pytest.mark.parametrize("way", ["create", "route", "exclude"])
def test_a_topic_of_a_pattern_without_a_table(
    make_job: MakeJob, spark: SparkSession, services: Stack, way: str
) -> None:
    job = waiting(make_job)
    first, other = job.topic, f"{job.topic}.other"
    services.kafka.create_topic(other, 1)
    job.send(0, 7, topic=other)
    of_pattern: dict[str, object] = {"topic_pattern": rf"{first}(\..*)?", "table": "t_{topic:_}"}
    job.settings = {"route": [of_pattern]}
    said = found("NO_TABLE_OF_TOPIC", job)
    if way == "create":
        run_printed(job, said, "sql", "create-table")
        job.tables[other] = f"{DATABASE}." + f"t_{other}".replace("-", "_").replace(".", "_")
    elif way == "route":
        says(said, "or give the topic another table in a [[route]] of its own")
        job.settings = {"route": [of_pattern, {"topic": other, "table": job.tables[first]}]}
        job.tables[other] = job.tables[first]
    else:
        says(said, "or exclude the topic from topic_pattern with (?!…)")
        job.settings = {"route": [{**of_pattern, "topic_pattern": rf"(?!.*\.other){first}(\..*)?"}]}
    gone("NO_TABLE_OF_TOPIC", job)
    job.drain(spark)
    for topic in job.tables:
        job.check(topic)


@pytest.mark.exit_of("NO_TABLE_OF_VALUE")
@pytest.mark.parametrize("way", ["create", "correct"])
def test_a_table_that_only_records_name(make_job: MakeJob, spark: SparkSession, way: str) -> None:
    job = make_job(partitions=1)
    job.send_values(0, [{"id": n, "text": "x", "kind": "ab"[n % 2]} for n in range(20)])
    there, missing = job.tables[job.topic], f"{job.tables[job.topic]}_b"

    def by(second: str) -> dict[str, object]:
        return {"route": [{"topic": job.topic, "table_by": {"field": "$.kind", "tables": {"a": there, "b": second}}}]}

    job.settings = by(missing)
    said = found("NO_TABLE_OF_VALUE", job)
    if way == "create":
        run_printed(job, said, "sql", "create-table")
    else:
        says(said, "or correct the name in the job file")
        job.create(f"CREATE TABLE {(missing := f'{there}_c')} ({PLAIN}, {METADATA}) {KEPT}")
        job.settings = by(missing)
    gone("NO_TABLE_OF_VALUE", job)
    job.drain(spark)
    for at, table in enumerate((there, missing)):
        ids = select(job.shards[0], f"SELECT id FROM {table} ORDER BY id FORMAT TSV").split()
        assert ids == [str(n) for n in range(at, 20, 2)]


@pytest.mark.exit_of("NO_TABLE_OF_LETTERS")
def test_a_table_of_dead_letters_that_is_created_as_printed_and_then_lost(
    make_job: MakeJob, spark: SparkSession
) -> None:
    job = waiting(make_job)
    dead = f"{job.tables[job.topic]}_dead"
    job.settings = {"errors.on_bad_value": "dead_letter", "dead_letters.table": dead}
    job.send_values(0, [{"id": "none", "text": "x"}] * 3)
    run_printed(job, found("NO_TABLE_OF_LETTERS", job), "sql", "dead-letters")
    gone("NO_TABLE_OF_LETTERS", job)
    job.drain(spark)
    assert select(job.shards[0], f"SELECT count() FROM {dead}").strip() == "3"

    command(job.shards[0], f"DROP TABLE {dead} SYNC")
    said = found("NO_TABLE_OF_LETTERS", job)
    run_printed(job, said, "sql", "dead-letters")
    report = run_named(job, said, "verify", code=1).output
    assert "25" in report and "3 " in report, report
    gone("NO_TABLE_OF_LETTERS", job)


# --- tables that cannot carry the promise ----------------------------------------------------------------------------


def another_table(job: Job, columns: str = f"{PLAIN}, {METADATA}", engine: str = KEPT) -> None:
    """A table that is right, beside the one that was refused."""
    table = f"{job.tables[job.topic]}_right"
    job.create(f"CREATE TABLE {table} ({columns}) {engine}")
    job.tables[job.topic] = table


def by_record(job: Job, said: str) -> None:
    column = named_in(said, "such as its timestamp or")
    by = KEPT.replace("ORDER BY", f"PARTITION BY toDate({column}) ORDER BY")
    another_table(job, f"{PLAIN}, {METADATA}, {column} DateTime64(3)", by)


def time_of_record(job: Job, said: str) -> None:
    table, column = job.tables[job.topic], named_in(said, "if that is intended;")
    job.everywhere(f"ALTER TABLE {table} ADD COLUMN {column} DateTime64(3)")
    job.everywhere(f"ALTER TABLE {table} MODIFY COLUMN at DateTime DEFAULT toDateTime({column})")


def plain_json(job: Job, _: str) -> None:
    """What the column holds is kept."""
    table = job.tables[job.topic]
    row = """(99, 'earlier', '{"a": 7, "b": [1, 2.5]}', 'another', 0, 0)"""
    command(job.shards[0], f"INSERT INTO {table} VALUES {row}")
    job.everywhere(f"ALTER TABLE {table} MODIFY COLUMN doc JSON")
    kept = select(job.shards[0], f"SELECT doc.a, doc.b FROM {table} WHERE id = 99 FORMAT TSVRaw")
    assert kept == "7\t[1,2.5]\n", kept


def behind_a_view(job: Job, _: str) -> None:
    totals = job.tables[job.topic]
    another_table(job, f"{PLAIN}, n UInt64 DEFAULT 1, {METADATA}")
    grouped = f"SELECT id, text, sumState(n) AS total FROM {job.tables[job.topic]} GROUP BY id, text"
    job.everywhere(f"CREATE MATERIALIZED VIEW {totals}_view TO {totals} AS {grouped}")


def beside_it(job: Job, _: str) -> None:
    combined = job.tables[job.topic]
    another_table(job)
    job.everywhere(f"CREATE MATERIALIZED VIEW {combined}_view TO {combined} AS SELECT * FROM {job.tables[job.topic]}")


def as_declared(job: Job, said: str) -> None:
    """The one column of Kafka's that the table has besides those of :data:`METADATA`."""
    table = job.tables[job.topic]
    names = f"name LIKE '_kafka%' AND position('{METADATA}', name) = 0"
    column = select(job.shards[0], f"SELECT name FROM system.columns WHERE table = '{table[4:]}' AND {names}").strip()
    job.everywhere(f"ALTER TABLE {table} MODIFY COLUMN {column} {rest_of(said, 'use')}")


def whole_column(job: Job, said: str) -> None:
    table, column = job.tables[job.topic], rest_of(said, "replace it with the column")
    job.everywhere(f"ALTER TABLE {table} DROP COLUMN {column.split()[0]}")
    job.everywhere(f"ALTER TABLE {table} ADD COLUMN {column}")


def another_one(job: Job, _: str) -> None:
    another_table(job)


@dataclass(frozen=True)
class Case:
    """``entry`` is said of a table with these columns and this engine; ``words`` of its fix are what the step does."""

    entry: str
    words: str
    step: Callable[[Job, str], None]
    columns: str = PLAIN
    engine: str = KEPT


NOW = f"{PLAIN}, at DateTime DEFAULT now()"
CASES = {
    "log": Case("NOT_MERGE_TREE", "write to the MergeTree tables themselves", another_one, engine="ENGINE = Log"),
    "partition": Case(
        "VOLATILE_PARTITION",
        "partition by a column that comes from the record",
        by_record,
        NOW,
        KEPT.replace("ORDER BY", "PARTITION BY toDate(at) ORDER BY"),
    ),
    "default": Case("VOLATILE_DEFAULT", "holds the time at which the record was written", time_of_record, NOW),
    "queue": Case("INSERTS_QUEUED", "on every shard and replica, run", alter, engine=f"{KEPT}, async_insert = 1"),
    "replacing": Case(
        "ENGINE_COMBINES",
        "otherwise use MergeTree or ReplicatedMergeTree, and let a materialized view fill the other table",
        beside_it,
        engine=f"ENGINE = ReplacingMergeTree ORDER BY id SETTINGS {WINDOW}",
    ),
    "typed": Case(
        "TYPED_JSON",
        "declare it as JSON without typed paths (max_dynamic_paths and SKIP may stay): ALTER TABLE … MODIFY COLUMN "
        "keeps the stored data",
        plain_json,
        f"{PLAIN}, doc JSON(a UInt32, max_dynamic_paths = 16) DEFAULT '{{}}'",
    ),
    "types": Case(
        "FEW_JSON_TYPES",
        "declare it as JSON without max_dynamic_types: ALTER TABLE … MODIFY COLUMN keeps the stored data",
        plain_json,
        f"{PLAIN}, doc JSON(max_dynamic_types = 8) DEFAULT '{{}}'",
    ),
    "aggregate": Case(
        "UNFILLABLE_TYPE",
        "fill it with a materialized view from a plain column",
        behind_a_view,
        f"{PLAIN}, total AggregateFunction(sum, UInt64)",
        f"ENGINE = AggregatingMergeTree ORDER BY (id, text) SETTINGS {WINDOW}, allow_dimensions_outside_sorting_key = 1",
    ),
    "headers": Case(
        "NESTED_METADATA", "replace it", whole_column, f"{PLAIN}, _kafka_headers Nested(key String, value String)"
    ),
    "key": Case("NESTED_METADATA", "replace it", whole_column, f"{PLAIN}, _kafka_key Nested(a String)"),
    "seconds": Case("COLUMN_TAKES_NOTHING", "use", as_declared, f"{PLAIN}, _kafka_timestamp DateTime"),
    "null": Case("COLUMN_TAKES_NOT_ALL", "use", as_declared, f"{PLAIN}, _kafka_key String"),
}


@pytest.mark.exit_of("NOT_MERGE_TREE")
@pytest.mark.exit_of("VOLATILE_PARTITION")
@pytest.mark.exit_of("VOLATILE_DEFAULT")
@pytest.mark.exit_of("INSERTS_QUEUED")
@pytest.mark.exit_of("ENGINE_COMBINES")
@pytest.mark.exit_of("TYPED_JSON")
@pytest.mark.exit_of("FEW_JSON_TYPES")
@pytest.mark.exit_of("UNFILLABLE_TYPE")
@pytest.mark.exit_of("NESTED_METADATA")
@pytest.mark.exit_of("COLUMN_TAKES_NOTHING")
@pytest.mark.exit_of("COLUMN_TAKES_NOT_ALL")
@pytest.mark.parametrize("name", CASES)
def test_a_table_that_is_put_right(make_job: MakeJob, spark: SparkSession, name: str) -> None:
    case = CASES[name]
    job = waiting(make_job, columns=case.columns, engine=case.engine)
    said = found(case.entry, job)
    says(said, case.words)
    case.step(job, said)
    gone(case.entry, job)
    lands(job, spark)


@pytest.mark.parametrize("name", ["default", "replacing"])
def test_a_table_that_is_as_it_was_meant(make_job: MakeJob, spark: SparkSession, name: str) -> None:
    case = CASES[name]
    job = waiting(make_job, columns=case.columns, engine=case.engine)
    says(found(case.entry, job), "no action needed if")
    lands(job, spark)


@pytest.mark.exit_of("COLUMNS_DIFFER")
def test_shards_with_other_columns(make_job: MakeJob, spark: SparkSession) -> None:
    job = waiting(make_job, shards=2, shard_key=["id"])
    command(job.shards[1], f"ALTER TABLE {job.tables[job.topic]} DROP COLUMN text")
    says(found("COLUMNS_DIFFER", job), "give the table the same columns on every shard")
    command(job.shards[1], f"ALTER TABLE {job.tables[job.topic]} ADD COLUMN text String")
    gone("COLUMNS_DIFFER", job)
    lands(job, spark)


@pytest.mark.exit_of("KEY_NOT_INSERTABLE")
@pytest.mark.parametrize("of_route", [False, True])
def test_a_shard_key_that_is_no_column(make_job: MakeJob, spark: SparkSession, *, of_route: bool) -> None:
    job = waiting(make_job, shards=2, shard_key=["id"] if of_route else ["ident"])
    route = {"topic": job.topic, "table": job.tables[job.topic]}
    job.settings = {"route": [{**route, "shard_key": ["ident"]}]} if of_route else {}
    says(found("KEY_NOT_INSERTABLE", job), "correct clickhouse.shard_key or the route's shard_key")
    job.shard_key, job.settings = ["id"], {"route": [{**route, "shard_key": ["text"]}]} if of_route else {}
    gone("KEY_NOT_INSERTABLE", job)
    lands(job, spark)


@pytest.mark.exit_of("NO_DEDUPLICATION")
def test_a_table_that_remembers_nothing_while_ranges_are_in_doubt(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ Of one all rows are there, of the other one only a part."""
    job = make_job(partitions=2)
    for partition, end in ((0, 25), (1, 15)):
        job.send(partition, 25)
        insert(job, partition, range(end))
    announce(job, {0: (10, 25), 1: (10, 25)})
    table = job.tables[job.topic]
    job.everywhere(f"ALTER TABLE {table} MODIFY SETTING {job.window} = 0")
    said = found("NO_DEDUPLICATION", job)

    shown = run_named(job, said, "status").output
    assert shown.count("BEFORE") >= 2 and table in shown
    whole = [word.replace("TOPIC", job.topic) for word in words_of(said, "resolve", "--landed")]
    chsink(job, *(word.replace("PARTITION", "0") for word in whole), "--yes")
    words = [word.replace("TOPIC", job.topic) for word in words_of(said, "resolve", "--resend")]
    again = [word.replace("PARTITION", "1") for word in words] + ["--yes"]
    again.append(option_of(chsink(job, *again, code=2), "--senders-gone"))
    for statement in statements_of(chsink(job, *again, code=2), "DELETE FROM"):
        command(job.shards[0], f"{statement} SETTINGS lightweight_deletes_sync = 2")
    chsink(job, *again)
    alter(job, said)
    gone("NO_DEDUPLICATION", job)
    lands(job, spark)


# --- batches ---------------------------------------------------------------------------------------------------------

ROUNDS: dict[str, Callable[[Job], None]] = {
    "raise the table's deduplication window": lambda job: job.everywhere(
        f"ALTER TABLE {job.tables[job.topic]} MODIFY SETTING {job.window} = 10000"
    ),
    "clickhouse.chunk_offsets": lambda job: _set(job, "clickhouse.chunk_offsets", 1000),
    "lower kafka.max_offsets_per_trigger": lambda job: _set(job, "kafka.max_offsets_per_trigger", 20),
}


def _set(job: Job, name: str, value: int) -> None:
    job.settings = {**job.settings, name: value}


@pytest.mark.exit_of("BATCH_MAY_BE_PROBED")
@pytest.mark.exit_of("BATCH_TOO_LARGE")
@pytest.mark.parametrize("step", ROUNDS)
def test_a_batch_that_is_larger_than_the_window(make_job: MakeJob, spark: SparkSession, step: str) -> None:
    """Each step alone is enough."""
    by = "ENGINE = MergeTree PARTITION BY id % 9 ORDER BY tuple() SETTINGS non_replicated_deduplication_window = 50"
    job = waiting(make_job, engine=by, settings={"kafka.max_offsets_per_trigger": 400})
    insert(job, 0, range(9))
    job.settings = {**job.settings, "errors.on_existing_rows": "accept"}
    said = found("BATCH_MAY_BE_PROBED", job)
    fewer = found("BATCH_TOO_LARGE", job)
    says(said, step)
    ROUNDS[step](job)
    gone("BATCH_MAY_BE_PROBED", job)
    if not step.startswith("lower"):
        says(fewer, "no action needed", step)
        gone("BATCH_TOO_LARGE", job)
    command(job.shards[0], f"TRUNCATE TABLE {job.tables[job.topic]}")
    lands(job, spark)


@pytest.mark.exit_of("TOO_MANY_PARTITIONS")
@pytest.mark.parametrize("way", ["lower", "set"])
def test_more_table_partitions_than_one_insert_may_have(make_job: MakeJob, spark: SparkSession, way: str) -> None:
    job = waiting(make_job, engine=KEPT.replace("ORDER BY", "PARTITION BY id % 9 ORDER BY"))
    limit = "max_partitions_per_insert_block"
    job.settings = {f"clickhouse.settings.{limit}": 4, "errors.on_existing_rows": "accept"}
    insert(job, 0, range(9))
    said = found("TOO_MANY_PARTITIONS", job)
    if way == "lower":
        says(said, "lower clickhouse.chunk_offsets")
        _set(job, "clickhouse.chunk_offsets", 4)
    else:
        says(said, f"or set {limit} in [clickhouse.settings]")
        _set(job, f"clickhouse.settings.{limit}", 9)
    gone("TOO_MANY_PARTITIONS", job)
    command(job.shards[0], f"TRUNCATE TABLE {job.tables[job.topic]}")
    lands(job, spark)


# --- shards ----------------------------------------------------------------------------------------------------------


@pytest.mark.exit_of("HASH_DIFFERS")
def test_a_server_that_hashes_otherwise(
    make_job: MakeJob, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server here does: chsink's own function is another one."""
    job = waiting(make_job, shards=2, shard_key=["id"], settings={"clickhouse.hash_function": "cityHash64"})

    def otherwise(name: str, *of: Any) -> Any:
        return apply("sipHash64" if name == "cityHash64" else name, *of)

    monkeypatch.setattr("chsink.clickhouse.checks.hashes.apply", otherwise)
    says(found("HASH_DIFFERS", job), "set clickhouse.hash_function to another function")
    job.settings = {"clickhouse.hash_function": "xxHash64"}
    gone("HASH_DIFFERS", job)
    lands(job, spark)


@pytest.mark.exit_of("NOT_REPLICATED")
def test_servers_that_are_no_replicas(make_job: MakeJob, spark: SparkSession, services: Stack) -> None:
    job = waiting(make_job)
    other = services.clickhouse[1].url
    table = job.tables[job.topic]
    command(other, f"CREATE TABLE {table} ({PLAIN}, {METADATA}) {KEPT}")
    job.settings = {"clickhouse.endpoints": [{"url": job.shards[0], "replicas": [other]}]}
    says(found("NOT_REPLICATED", job), "or list each server as a separate shard in clickhouse.endpoints")
    job.settings = {}
    job.shards, job.weights, job.shard_key = [job.shards[0], other], [1, 1], ["id"]
    gone("NOT_REPLICATED", job)
    lands(job, spark)
