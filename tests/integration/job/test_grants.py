"""A user with exactly the grants of ``chsink sql grants`` can run every command, on plain tables."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.embedded.kafka import EmbeddedKafka
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from tests.integration.job.faults import Failpoints
from tests.support.job import DATABASE, Job, command
from tests.support.tour import DEFAULT, SETTINGS, TABLE, Tour, user_of

pytestmark = pytest.mark.slow


@pytest.mark.soak  # the same commands run on Replicated tables, which need more
def test_every_command_runs_with_exactly_the_printed_grants(
    spark: SparkSession, failpoints: Failpoints, kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    server = EmbeddedClickHouse(
        tmp_path / "server", zookeeper=zookeeper.hosts, keeper_map_prefix=f"/grants_{uuid.uuid4().hex}"
    )
    name = f"grants-{uuid.uuid4().hex[:8]}"
    job = Job(name, tmp_path, kafka.bootstrap, [server.url], settings=SETTINGS, tables={name: TABLE})
    kafka.create_topic(name, 1)
    server.users = (DEFAULT, user_of(job))
    with server:
        command(server.url, f"CREATE DATABASE {DATABASE}")
        Tour(job, "MergeTree").go(spark, failpoints)
