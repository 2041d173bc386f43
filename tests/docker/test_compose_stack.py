"""What only the official images show: ClickHouse Keeper, ClickHouse's server program, Kafka's official broker.

Replicas as such are in ``tests/replicated``.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chsink.embedded import topics
from chsink.errors import UnavailableError
from tests.contract.benches import check_servers_share_state
from tests.docker.conftest import Servers
from tests.integration.job.faults import Failpoints
from tests.support.job import DATABASE, Job, command
from tests.support.kafka import produce, read_all

pytestmark = pytest.mark.docker


def test_the_state_holds_on_keeper(servers: Servers) -> None:
    check_servers_share_state(servers.clickhouse, "default")


def test_transactions_leave_markers_in_the_official_broker(servers: Servers) -> None:
    name = f"t-{uuid.uuid4().hex[:8]}"
    topics.create_topic(servers.bootstrap, name, 1)
    assert produce(servers.bootstrap, name, 0, ["a"], transactional=name, abort=True) == (0, 2)
    assert produce(servers.bootstrap, name, 0, ["b"], transactional=name) == (2, 4)
    assert [record.offset for record in read_all(servers.bootstrap, name)] == [2]


def test_a_job_killed_after_its_insert_lands_everything_once(
    servers: Servers, spark: SparkSession, tmp_path: Path
) -> None:
    """On a Replicated table, over Keeper."""
    name = f"job-{uuid.uuid4().hex[:8]}"
    topics.create_topic(servers.bootstrap, name, 2)
    for url in servers.clickhouse:
        command(url, f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    job = Job(name, tmp_path, servers.bootstrap, servers.clickhouse[:1], replicas=servers.clickhouse[1:])
    job.make_table(name)
    job.send(0, 45)
    job.send(1, 33)
    failpoints = Failpoints(spark, tmp_path)
    failpoints.arm("task.after_insert=kill@2")
    try:
        with pytest.raises(UnavailableError):
            job.drain(spark)
        failpoints.assert_fired("task.after_insert")
    finally:
        failpoints.disarm()
    assert job.in_doubt()
    job.drain(spark)
    job.check()
