"""A view was altered once.  Where one server has loaded it since, the servers give its blocks different tokens."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from chsink.clickhouse.dedup_mark import JITTER_S
from chsink.errors import HaltError
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.support.job import Job, command, select
from tests.support.replicas.service import ReplicaClickHouse
from tests.support.replicas.tables import CLUSTER

pytestmark = [pytest.mark.slow, pytest.mark.soak]


def viewed(job: Job, *, altered: bool) -> str:
    """The job's table, which feeds a view on both replicas."""
    table, cluster = job.tables[job.topic], f"ON CLUSTER {CLUSTER}"
    job.create(f"CREATE TABLE {table}_copy (o UInt64) ENGINE = MergeTree ORDER BY o")
    reading = f"SELECT _kafka_offset AS o FROM {table}"
    command(job.shards[0], f"CREATE MATERIALIZED VIEW {table}_view {cluster} TO {table}_copy AS {reading}")
    if altered:
        command(job.shards[0], f"ALTER TABLE {table}_view {cluster} MODIFY QUERY {reading} WHERE id >= 0")
    return table


@pytest.mark.parametrize("restarted", ["before, and answers now", "while the range is in doubt"])
def test_a_replica_restarted(
    make_job: MakeJob,
    pair: Sequence[ReplicaClickHouse],
    spark: SparkSession,
    failpoints: Failpoints,
    restarted: str,
) -> None:
    """⚑ Nobody did anything while the range was in doubt; sent again, it would be in the view's table twice."""
    job, (first, second) = make_job(partitions=1), pair
    table = viewed(job, altered=True)
    job.send(0, 15)
    if restarted.startswith("before"):
        time.sleep(3 * JITTER_S)  # servers tell their start in whole seconds
        second.stop()
        second.start()
    crash_before_after(job, spark, failpoints)
    if restarted.startswith("before"):
        job.shards, job.replicas = [second.url], [first.url]
    else:
        first.stop()
        first.start()

    with pytest.raises(HaltError, match=r"CHS-317.*_view"):
        job.drain(spark)

    command(first.url, f"SYSTEM SYNC REPLICA {table}_copy")
    assert select(first.url, f"SELECT o FROM {table}_copy ORDER BY o FORMAT TSV").split() == [*map(str, range(15))]


@pytest.mark.parametrize("altered", [False, True])
def test_another_replica_answers(
    make_job: MakeJob, pair: Sequence[ReplicaClickHouse], spark: SparkSession, failpoints: Failpoints, altered: bool
) -> None:
    """Both have had the view since they started: their tokens agree, and nobody has to decide anything."""
    job, (first, second) = make_job(partitions=1), pair
    table = viewed(job, altered=altered)
    job.send(0, 15)
    crash_before_after(job, spark, failpoints)
    job.shards, job.replicas = [second.url], [first.url]

    job.drain(spark)

    job.check()
    for server in pair:
        command(server.url, f"SYSTEM SYNC REPLICA {table}_copy")
        assert select(server.url, f"SELECT o FROM {table}_copy ORDER BY o FORMAT TSV").split() == [*map(str, range(15))]
