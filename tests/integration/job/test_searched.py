"""A job that crashed looks for what it sends again: on servers that allow little, and in tables that make it hard."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chsink.clickhouse.grants import SYSTEM_TABLES
from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.embedded.clickhouse.users import ClickHouseUser
from chsink.embedded.stack import Stack
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.integration.job.test_evolution import STATE
from tests.support.job import DATABASE, METADATA, WINDOW, Job, command

pytestmark = pytest.mark.slow
MADE = (
    f"CREATE TABLE {DATABASE}.t (id UInt64, text String, {METADATA}) ENGINE = MergeTree ORDER BY id SETTINGS {WINDOW}"
)


def at(server: EmbeddedClickHouse, job: Job) -> None:
    """The job's only table is on this server."""
    command(server.url, f"CREATE DATABASE {DATABASE}")
    job.tables[job.name], job.shards = f"{DATABASE}.t", [server.url]
    command(server.url, MADE)


@pytest.mark.soak
def test_the_documented_grants_are_enough(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints, services: Stack, tmp_path: Path
) -> None:
    """Without a grant on ``_part``, all parts are read."""
    kafka = "_kafka_topic, _kafka_partition, _kafka_offset"
    system = [f"GRANT SELECT ON {name}" for name in SYSTEM_TABLES]
    own = (f"GRANT INSERT ON {DATABASE}.t", f"GRANT SELECT({kafka}) ON {DATABASE}.t")
    users = [ClickHouseUser("default"), ClickHouseUser("minimal", grants=(*STATE, *system, *own))]
    with EmbeddedClickHouse(tmp_path / "guarded", zookeeper=services.zookeeper.hosts, users=users) as server:
        job = make_job(partitions=1, table=False, settings={"clickhouse.user": "minimal"})
        at(server, job)
        job.send(0, 25)
        crash_before_after(job, spark, failpoints)
        job.drain(spark)
        job.check()


@pytest.mark.soak
@pytest.mark.parametrize("limit", ["force_primary_key", "max_rows_to_read"])
def test_limits_of_the_profile_stop_nobody(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints, services: Stack, tmp_path: Path, limit: str
) -> None:
    """They bound what a SELECT may do; an INSERT is free."""
    xml = f"<profiles><default><{limit}>{20 if 'max' in limit else 1}</{limit}></default></profiles>"
    with EmbeddedClickHouse(tmp_path / "limited", zookeeper=services.zookeeper.hosts, users_xml=xml) as server:
        job = make_job(partitions=1, table=False, settings={"clickhouse.retry_for_s": 3})
        at(server, job)
        job.send(0, 25)
        crash_before_after(job, spark, failpoints)
        job.drain(spark)
        assert job.in_doubt() == set()


@pytest.mark.parametrize("made", ["by hand", pytest.param("by evolution", marks=pytest.mark.soak)])
def test_a_column_may_have_the_name_of_a_virtual_one(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints, made: str
) -> None:
    """Its values may even look like names of parts."""
    grown = made == "by evolution"
    settings = {"schema.evolution": "add_columns"} if grown else {}
    job = make_job(partitions=1, columns="id UInt64" + ("" if grown else ", _part String"), settings=settings)
    values = [{"id": n, "_part": "202001_0_0_0"} for n in range(25)]
    job.send_values(0, values)
    if grown:
        job.drain(spark)
        job.send_values(0, values)
    crash_before_after(job, spark, failpoints)
    job.drain(spark)
    assert job.verdict(columns=["id"]).exactly_once
