"""The Keeper loses the data of all replicas, of which one has fewer rows; a person does what CHS-244 says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from pyspark.sql import SparkSession

from chsink.embedded.stack import Stack
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from tests.integration.exits.starts import found, run_named
from tests.integration.job.conftest import MakeJob, maker
from tests.support.job import command, eventually, select
from tests.support.replicas.service import ReplicaClickHouse
from tests.support.told import named_in, says

pytestmark = [pytest.mark.slow, pytest.mark.soak]


@pytest.fixture
def make_job(
    services: Stack, trio: Sequence[ReplicaClickHouse], tmp_path: Path, request: pytest.FixtureRequest
) -> MakeJob:
    lagging, first, other = (server.url for server in trio)
    return maker(services, tmp_path, request, lambda _: {"shards": [first], "replicas": [lagging, other]})


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chsink.clickhouse.replicas.CATCH_UP_S", 3)


@pytest.mark.exit_of("REPLICA_READONLY")
def test_the_replica_with_the_most_rows_comes_first(
    make_job: MakeJob, trio: Sequence[ReplicaClickHouse], spark: SparkSession, zookeeper: EmbeddedZooKeeper
) -> None:
    """⚑ The one that is restored first decides: the others gave up rows that had been confirmed."""
    job, urls = make_job(partitions=1), [server.url for server in trio]
    table = job.tables[job.topic]
    of_table = f"FROM system.replicas WHERE concat(database, '.', table) = '{table}'"
    job.send(0, 30)
    job.drain(spark)
    command(urls[0], f"SYSTEM STOP FETCHES {table}")
    job.send(0, 30)
    job.drain(spark)
    keeper = KazooClient(zookeeper.hosts)
    keeper.start()
    keeper.delete(select(urls[0], f"SELECT zookeeper_path {of_table} FORMAT TSVRaw").strip(), recursive=True)
    keeper.stop()
    keeper.close()
    for url in urls:
        command(url, f"SYSTEM RESTART REPLICA {table}")
        eventually("read-only", lambda: select(url, f"SELECT is_readonly {of_table}").strip() == "1")  # noqa: B023

    said = found("REPLICA_READONLY", job)
    says(said, "beginning with the replica that has the most rows")

    rows = {url: int(select(url, f"SELECT count() FROM {named_in(said, 'run SELECT count() FROM')}")) for url in urls}
    assert sorted(rows.values()) == [30, 60, 60]
    for url in sorted(urls, key=lambda url: -rows[url]):
        for statement in ("SYSTEM RESTART REPLICA", "SYSTEM RESTORE REPLICA"):
            command(url, f"{statement} {named_in(said, statement)}")
    assert "BEFORE" not in run_named(job, said, "status").output
    command(urls[0], f"SYSTEM START FETCHES {table}")
    for url in urls:
        command(url, f"SYSTEM SYNC REPLICA {table}")
    assert [int(select(url, f"SELECT count() FROM {table}")) for url in urls] == [60, 60, 60]
    run_named(job, said, "verify")
    job.send(0, 5)
    job.drain(spark)
    job.check()
