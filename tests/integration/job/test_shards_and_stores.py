"""Several topics, tables and shards in one job, and the same job on each state store.

The oracle of the shards is the engine: it hashes what each shard stores, and the slots of the shard's weight are
counted there.
"""

from __future__ import annotations

import re
from itertools import accumulate

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.embedded.stack import Stack
from chsink.errors import ChsinkError, UnavailableError
from chsink.notation.sql import quote_table
from chsink.recovery.landed import Extent, extent
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.integration.exits import commands as halts
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.support.doubt import quietly_connected, run
from tests.support.job import WINDOW, Job, command, select
from tests.support.told import fix_of, says, words_of

WEIGHTS = (3, 1, 2)


def on_its_shard(job: Job, topic: str, hashed: str, where: str = "1") -> None:
    """Each shard holds rows of the topic's table, and only those whose slot is its own; of those ``where`` selects."""
    total = sum(WEIGHTS)
    for url, end, weight in zip(job.shards, accumulate(WEIGHTS), WEIGHTS, strict=True):
        slot = f"{hashed} % {total}"
        inside = f"{slot} >= {end - weight} AND {slot} < {end}"
        counted = f"SELECT countIf({inside}), countIf(NOT ({inside})) FROM {job.tables[topic]} WHERE {where} FORMAT TSV"
        right, wrong = map(int, select(url, counted).split())
        assert right > 0 and wrong == 0, (url, right, wrong)


def test_three_topics_to_two_tables_on_three_shards_with_state_in_zookeeper(
    make_job: MakeJob, spark: SparkSession, services: Stack
) -> None:
    job = make_job(
        partitions=2,
        shards=3,
        weights=WEIGHTS,
        shard_key=["text", "id"],
        settings={
            "clickhouse.chunk_offsets": 25,
            "state.store": "zookeeper",
            "state.zookeeper": services.zookeeper.hosts,
            "state.path": "/chsink/of-tests",
        },
    )
    own, shared = job.topic, f"{job.name}-b"
    for topic in (shared, f"{job.name}-c"):
        services.kafka.create_topic(topic, 1)
        job.sent[topic, 0] = 1000
    job.make_table(shared)
    job.tables[f"{job.name}-c"] = job.tables[shared]
    job.send(0, 40)
    job.send(1, 25)
    for topic in list(job.tables)[1:]:
        job.send(0, 30, topic=topic)
    job.drain(spark)
    for topic in job.tables:
        job.check(topic)
    on_its_shard(job, own, "xxHash64(text, id)")
    on_its_shard(job, shared, "xxHash64(text, id)")
    assert job.phases() == {0: ("AFTER", 0, 40), 1: ("AFTER", 0, 25)}, "read from ZooKeeper"


@pytest.mark.soak
def test_int_hash_shards_with_state_in_memory_which_says_what_it_cannot_do(
    make_job: MakeJob, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"clickhouse.hash_function": "intHash64", "clickhouse.chunk_offsets": 50, "state.store": "memory"}
    job = make_job(partitions=2, shards=3, weights=WEIGHTS, shard_key=["id"], settings=settings)
    assert make_job(partitions=1, table=False, tables={"t": "t"}).config().state.store == "keepermap", "the default"
    job.send(0, 60)
    job.send_values(1, ({"id": 2**64 - n, "text": "large"} for n in range(1, 30)))
    job.drain(spark)
    job.check()
    on_its_shard(job, job.topic, "intHash64(id)")
    warned = "state is kept in memory only: after a crash or restart records may be lost or duplicated"
    assert warned in capsys.readouterr().err
    assert not job.status()["partitions"], "nothing of it outlives the job"


@pytest.mark.soak
def test_the_records_key_chooses_the_shard_of_a_table_without_it(make_job: MakeJob, spark: SparkSession) -> None:
    settings = {"clickhouse.hash_function": "cityHash64", "clickhouse.chunk_offsets": 20}
    job = make_job(partitions=1, shards=3, weights=WEIGHTS, shard_key=["_kafka_key"], settings=settings)
    for number in range(40):
        key = f"customer {number % 12}"
        job.send_values(0, [{"id": number, "text": key}], key=key.encode())
    job.drain(spark)
    job.check()
    on_its_shard(job, job.topic, "cityHash64(text)")


@pytest.mark.soak
def test_the_sharding_changes_while_a_range_is_in_doubt(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints
) -> None:
    """The range is settled by the layout under which its rows were sent; what comes after goes by the new one."""
    job = make_job(partitions=1, shards=3, weights=WEIGHTS, shard_key=["id"], settings={"clickhouse.chunk_offsets": 20})
    job.send(0, 60)
    failpoints.arm("driver.before_after=fail")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.assert_fired("driver.before_after")
    failpoints.disarm()
    assert job.in_doubt() == {0}
    changed = {"clickhouse.hash_function": "sipHash64", "clickhouse.shard_key": '["text", "id"]'}
    job.settings = {**job.settings, **changed}
    job.drain(spark)
    job.send(0, 60)
    job.drain(spark)
    job.check()
    on_its_shard(job, job.topic, "xxHash64(id)", "_kafka_offset < 60")
    on_its_shard(job, job.topic, "sipHash64(text, id)", "_kafka_offset >= 60")


@pytest.mark.parametrize("restored", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_a_named_shard_moves_while_a_range_is_in_doubt(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints, *, restored: bool
) -> None:
    """⚑ after another change of the layout, the range was sent to the server that the shard had left.  A table that was
    restored is the same one.
    """
    job = make_job(partitions=1, shards=3, shard_key=["id"])
    left, stays, now = job.shards
    table = job.tables[job.topic]
    if restored:
        uuid = select(left, f"SELECT uuid FROM system.tables WHERE database || '.' || name = '{table}'").strip()
        command(now, f"DROP TABLE {table} SYNC")
        create = select(left, f"SHOW CREATE TABLE {table} FORMAT TSVRaw")
        command(now, create.replace(table, f"{table} UUID '{uuid}'", 1))
    job.settings = {"clickhouse.endpoints": f'[{{ url = "{left}", name = "a" }}, {{ url = "{stays}", name = "b" }}]'}
    job.send(0, 60)
    failpoints.arm("driver.after_before=fail")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.disarm()
    moved = f'[{{ url = "{now}", name = "a" }}, {{ url = "{stays}", name = "b", weight = 2 }}]'
    job.settings = {"clickhouse.endpoints": moved}
    job.send(0, 20)
    if not restored:
        halts.follow(
            job,
            halts.halted("PIPELINE_CHANGED", job, spark),
            "--resend",
            more=("--senders-gone", *halts.settings_of(job)),
        )
    job.drain(spark)
    assert select(left, f"SELECT count() FROM {table}").strip() == "0"
    job.shards, job.weights = [now, stays], [1, 2]
    job.check()


def move(table: str, left: str, now: str) -> None:
    """The table's rows are on another server."""
    rows = select(left, f"SELECT * FROM {table} FORMAT JSONEachRow")
    command(now, f"INSERT INTO {table} FORMAT JSONEachRow {rows}")
    command(left, f"TRUNCATE TABLE {table}")


def as_they_were(error: ChsinkError) -> list[tuple[str, str]]:
    """Names and URLs in the fix."""
    return re.findall(r"[(;] ?(\w+): (http\S+?)(?=[;)])", fix_of(error))


@pytest.mark.soak
@pytest.mark.exit_of("SHARD_NAMES_CHANGED")
@pytest.mark.parametrize("moved", [False, "--landed", "--resend"])
def test_a_shard_has_moved_and_another_one_has_its_server(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints, *, moved: bool | str
) -> None:
    """⚑ Found by a reader: rows of the range were looked for on one of two servers, and might be on the other.
    ⚑ Found by an adversary: where they had been moved, and a start had sent them again, both were there.
    """
    job = make_job(partitions=1, shards=3, shard_key=["id"])
    servers = job.shards

    def named(a: str, b: str) -> dict[str, list[dict[str, str]]]:
        return {"clickhouse.endpoints": [{"url": a, "name": "a"}, {"url": b, "name": "b"}]}

    job.settings = named(*servers[:2])
    job.send(0, 20)
    crash_before_after(job, spark, failpoints)
    if moved:
        move(job.tables[job.topic], servers[0], servers[2])
    job.settings = named(servers[2], servers[0])
    error = halts.halted("SHARD_NAMES_CHANGED", job, spark)
    doctor = CliRunner().invoke(app, ["doctor", "-c", str(job.file()), *halts.settings_of(job)])
    assert doctor.exit_code and "CHS-409" in doctor.stdout

    job.settings = {"clickhouse.endpoints": [{"url": u, "name": n} for n, u in as_they_were(error)]}
    if moved:
        if moved == "--resend":
            says(
                error,
                "with --resend, once you have deleted those that are there, on every server, and then start the job",
            )
            for url in servers:
                command(url, f"TRUNCATE TABLE {job.tables[job.topic]}")
        words = ["resolve", job.topic, "0", str(moved), "--senders-gone", "--yes", *halts.settings_of(job)]
        assert run(job, *words).exit_code == 0
    job.drain(spark)
    job.shards, job.weights = servers, [1, 1, 1]
    assert len(job.landed()) == 20 and job.verdict().exactly_once
    status = CliRunner().invoke(app, [*words_of(error, "status"), "-c", str(job.file()), *halts.settings_of(job)])
    assert status.exit_code == 0 and "BEFORE" not in status.stdout

    job.settings = named(servers[2], servers[0])
    job.send(0, 20)
    job.drain(spark)
    assert len(job.landed()) == 40
    assert job.verdict().exactly_once


@pytest.mark.soak
def test_rows_of_a_range_in_doubt_were_copied_to_a_new_shard(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints
) -> None:
    """⚑ Found by an adversary: ``--resend`` counted on the recorded shards only, found nothing, and all landed again."""
    job = make_job(partitions=1, shards=3, shard_key=["id"])
    servers, table = job.shards, job.tables[job.topic]
    job.shards, job.weights = servers[:2], [1, 1]
    job.send(0, 20)
    crash_before_after(job, spark, failpoints)
    for url in servers[:2]:
        move(table, url, servers[2])
    job.shards, job.weights = servers, [1, 1, 1]
    words = ("resolve", job.topic, "0", "--resend", "--senders-gone", "--yes")
    refused = run(job, *words)
    assert "CHS-322" in refused.stderr and "holds 20 rows" in refused.stderr
    [statement] = re.findall(r"on each shard: (DELETE [^;]+)", refused.stderr)
    for url in servers:
        command(url, f"{statement} SETTINGS lightweight_deletes_sync = 2")
    assert run(job, *words).exit_code == 0
    job.drain(spark)
    assert len(job.landed()) == 20 and job.verdict().exactly_once


@pytest.mark.soak
def test_a_removed_shard_keeps_its_rows(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ doctor took the one shard that was left for another table, and asked for copies of rows that are there."""
    job = make_job(partitions=1, shards=2, shard_key=["id"])
    job.send(0, 60)
    job.drain(spark)
    both, job.shards, job.weights, job.shard_key = job.shards, job.shards[:1], [1], []
    said = CliRunner().invoke(app, ["doctor", "-c", str(job.file())]).stdout
    assert "the new one applies to new records only" in said and "landed in another table" not in said
    job.send(0, 20)
    job.drain(spark)
    job.shards, job.weights, job.shard_key = both, [1, 1], ["id"]
    job.check()


@pytest.mark.soak
def test_each_shard_has_the_table_in_a_database_of_its_own(make_job: MakeJob, spark: SparkSession) -> None:
    """Both on one server, as in a ring of servers of which each holds a replica of two shards."""
    job = make_job(partitions=1, table=False)
    url, table = job.shards[0], f"own_{job.name}".replace("-", "_")
    databases = [f"{table}_{number}" for number in range(2)]
    for database in databases:
        command(url, f"CREATE DATABASE {database}")
        what = "(id UInt64, text String, _kafka_topic String, _kafka_partition UInt32, _kafka_offset UInt64)"
        command(url, f"CREATE TABLE {database}.{table} {what} ENGINE = MergeTree ORDER BY tuple() SETTINGS {WINDOW}")
    job.tables[job.name] = table
    endpoints = ", ".join(f'{{ url = "{url}", database = "{database}" }}' for database in databases)
    own = {"clickhouse.endpoints": f"[{endpoints}]", "clickhouse.shard_key": '["id"]'}
    job.settings = {**job.settings, **own}
    job.send(0, 60)
    job.drain(spark)
    job.drain(spark)
    rows = [
        {int(line) for line in select(url, f"SELECT id FROM {database}.{table} FORMAT TSV").split()}
        for database in databases
    ]
    assert rows[0] | rows[1] == set(range(60)) and not rows[0] & rows[1]
    for number, database in enumerate(databases):
        counted = f"SELECT count(), countIf(xxHash64(id) % 2 = {number}) FROM {database}.{table} FORMAT TSV"
        everything, right = map(int, select(url, counted).split())
        assert everything == right == len(rows[number]) > 0
    with quietly_connected(job) as opened:
        target = opened.clickhouse.target(opened.config.routes[0])
        places = [(s.client, quote_table(s.table.canonical)) for s in target.shards]
        assert extent(places, TopicPartition(job.topic, 0)) == Extent(OffsetRange(0, 60), 60)
