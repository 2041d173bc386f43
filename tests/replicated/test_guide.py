"""The job file and the table of docs/how-to/replicated-cluster.md, with one of its two shards, on real replicas."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chsink.config import Config
from chsink.embedded.stack import Stack
from chsink.spark import job as spark_job
from tests.conftest import CHECKOUT
from tests.support.job import command, select
from tests.support.kafka import produce
from tests.support.replicas.service import ReplicaClickHouse
from tests.support.replicas.tables import CLUSTER
from tests.support.walkthrough import steps

pytestmark = [pytest.mark.slow, pytest.mark.soak]

PAGE = (CHECKOUT / "docs" / "how-to" / "replicated-cluster.md").read_text(encoding="utf-8")
FILES = {step.name: step.text for step in steps(PAGE) if step.name}


def test_the_guides_job_lands_on_replicas(
    services: Stack, spark: SparkSession, pair: Sequence[ReplicaClickHouse], tmp_path: Path
) -> None:
    first, second = (server.url for server in pair)
    command(first, f"CREATE DATABASE IF NOT EXISTS shop ON CLUSTER {CLUSTER}")
    command(first, FILES["orders.sql"].replace("my_cluster", CLUSTER))
    services.kafka.create_topic("orders", 2)
    produce(services.kafka.bootstrap, "orders", 0, [{"id": 1, "customer": 7, "total": 12.5}])
    produce(services.kafka.bootstrap, "orders", 1, [{"id": 2, "customer": 8, "total": "0.99"}])
    job = tomllib.loads(FILES["job.toml"])
    job["sink"]["checkpoint"] = str(tmp_path / "checkpoint")
    job["kafka"]["bootstrap"] = services.kafka.bootstrap
    del job["clickhouse"]["user"], job["clickhouse"]["password"]
    job["clickhouse"]["endpoints"] = [{"url": first, "replicas": [second]}]
    job |= {"trigger": {"mode": "available_now"}, "observe": {"progress": "never"}, "spark": {"master": "local[2]"}}

    spark_job.run(Config.from_mapping(job), spark)

    command(second, "SYSTEM SYNC REPLICA shop.orders")
    for url in (first, second):
        assert select(url, "SELECT id, customer, total FROM shop.orders ORDER BY id") == "1\t7\t12.5\n2\t8\t0.99\n"
