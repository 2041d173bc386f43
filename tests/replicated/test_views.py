"""A view was altered once, and one server has loaded it since: the servers give its blocks different tokens."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from chsink.errors import HaltError
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.support.job import command, select
from tests.support.replicas.service import ReplicaClickHouse
from tests.support.replicas.tables import CLUSTER

pytestmark = [pytest.mark.slow, pytest.mark.soak]


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
    table, cluster = job.tables[job.topic], f"ON CLUSTER {CLUSTER}"
    job.create(f"CREATE TABLE {table}_copy (o UInt64) ENGINE = MergeTree ORDER BY o")
    reading = f"SELECT _kafka_offset AS o FROM {table}"
    command(first.url, f"CREATE MATERIALIZED VIEW {table}_view {cluster} TO {table}_copy AS {reading}")
    command(first.url, f"ALTER TABLE {table}_view {cluster} MODIFY QUERY {reading} WHERE id >= 0")
    job.send(0, 15)
    if restarted.startswith("before"):
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
