"""A job whose only shard has replicas: what its start demands, quorums, a new table and new columns on all replicas."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from chsink.errors import PreflightError, UnavailableError
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints
from tests.support.job import DATABASE, command, select
from tests.support.replicas.tables import CLUSTER

pytestmark = pytest.mark.slow


def test_an_insert_must_reach_most_replicas(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ The only replica that has it may fail.  The jobs of all other tests have what the fix says."""
    job = make_job(partitions=1)
    job.send(0, 5)
    with pytest.raises(PreflightError, match="CHS-207.* has 2 replicas and insert_quorum is 0") as refused:
        job.drain(spark, {"clickhouse.settings.insert_quorum": 0})
    assert 'set insert_quorum = "auto" in [clickhouse.settings]' in refused.value.hint


def test_servers_that_share_no_table_are_refused(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ Listed as replicas of one shard, but each with a table of its own: they would hold different rows."""
    job = make_job(partitions=1, table=False)
    name = f"{DATABASE}.t_{job.name}".replace("-", "_")
    job.tables[job.name] = name
    columns = "(id UInt64, text String, _kafka_topic String, _kafka_partition UInt32, _kafka_offset UInt64)"
    for number, url in enumerate((*job.shards, *job.replicas)):
        engine = f"ReplicatedMergeTree('/tests/{name}/{number}', '{{replica}}')"
        command(url, f"CREATE TABLE {name} {columns} ENGINE = {engine} ORDER BY tuple()")
    job.send(0, 5)
    with pytest.raises(PreflightError, match="CHS-207.* is not one table on its replicas"):
        job.drain(spark)


@pytest.mark.soak
def test_a_replica_that_forgets_sooner_bounds_a_round(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints
) -> None:
    """⚑ It removes the tokens that the replica in use would keep: the job starts, and relies on the shortest window.  Nine
    blocks are surely remembered, so a round has four chunks of ten offsets.
    """
    job = make_job(partitions=1)
    job.send(0, 100)
    table, (other,) = job.tables[job.topic], job.replicas
    command(other, f"ALTER TABLE {table} MODIFY SETTING replicated_deduplication_window = 10")
    failpoints.arm("driver.after_after=fail@2")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.disarm()
    assert job.phases() == {0: ("AFTER", 40, 80)}
    job.drain(spark)
    job.check()


@pytest.mark.soak
def test_an_insert_waits_for_its_quorum(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ The other replica does not fetch: the rows are there, but may be lost, so nothing is recorded as landed."""
    impatient = {"connect_timeout_s": 2, "insert_timeout_s": 2, "retry_for_s": 1}
    job = make_job(partitions=2, settings={f"clickhouse.{name}": value for name, value in impatient.items()})
    job.send(0, 25)
    job.send(1, 5)
    table, (other,) = job.tables[job.topic], job.replicas
    command(other, f"SYSTEM STOP FETCHES {table}")
    with pytest.raises(UnavailableError, match="CHS-704") as waited:
        job.drain(spark)
    assert waited.value.exit_code == 5
    assert job.in_doubt() == {0, 1}
    assert job.landed(), "the replica that was asked has rows"
    command(other, f"SYSTEM START FETCHES {table}")
    job.drain(spark)
    job.check()


@pytest.mark.soak
@pytest.mark.parametrize("cluster", [CLUSTER, None])
def test_a_new_table_and_new_columns_on_all_replicas(
    cluster: str | None, make_job: MakeJob, spark: SparkSession
) -> None:
    """``ON CLUSTER``, and by each server's own URL."""
    job = make_job(partitions=1, table=False)
    job.tables[job.name] = f"{DATABASE}.t_{job.name}".replace("-", "_")
    job.settings = {"schema.auto_create": True, "schema.evolution": "add_columns"}
    if cluster:
        job.settings |= {"schema.cluster": cluster}
    job.send_values(0, [{"id": n} for n in range(20)])
    job.drain(spark)
    job.send_values(0, [{"id": 20 + n, "more": "x"} for n in range(20)])
    job.drain(spark)
    job.check(columns=("id", "more"))
    engine = f"SELECT engine FROM system.tables WHERE concat(database, '.', name) = '{job.tables[job.topic]}'"
    for url in (*job.shards, *job.replicas):
        assert select(url, engine).strip() == "ReplicatedMergeTree"
