"""The servers of a Replicated table get another time zone between two sends of one piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chsink.embedded.stack import Stack
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from chsink.errors import HaltError, UnavailableError
from tests.integration.job.conftest import MakeJob, maker
from tests.replicated.conftest import started
from tests.support.job import command, select
from tests.support.proxies import HttpFault, HttpProxy
from tests.support.replicas.service import ReplicaClickHouse

pytestmark = [pytest.mark.slow, pytest.mark.soak]
BY_LOCAL_DAY = "ENGINE = MergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY tuple()"


@pytest.fixture
def zoned(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sequence[ReplicaClickHouse]]:
    monkeypatch.setenv("TZ", "UTC")
    yield from started(tmp_path / "zoned", zookeeper, 2)


@pytest.fixture
def gate(zoned: Sequence[ReplicaClickHouse]) -> Iterator[HttpProxy]:
    with HttpProxy(zoned[0].url) as gate:
        yield gate


@pytest.fixture
def make_job(
    services: Stack,
    zoned: Sequence[ReplicaClickHouse],
    gate: HttpProxy,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> MakeJob:
    return maker(services, tmp_path, request, lambda _: {"shards": [gate.url], "replicas": [zoned[1].url]})


def test_the_zone_changes_while_a_piece_is_sent_again(
    make_job: MakeJob,
    services: Stack,
    zoned: Sequence[ReplicaClickHouse],
    gate: HttpProxy,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """⚑ Found by an adversary: rows whose local day changed went to another table partition, and were there twice."""
    job = make_job(partitions=1, columns="id UInt64, ts DateTime", engine=BY_LOCAL_DAY)
    assert services.zookeeper is not None
    job.settings = {"state.store": "zookeeper", "state.zookeeper": services.zookeeper.hosts}
    job.send_values(0, ({"id": n, "ts": "2026-01-02 01:00:00"} for n in range(10)))

    def move(zone: str = "America/New_York") -> None:
        monkeypatch.setenv("TZ", zone)
        for server in zoned:
            server.restart()

    gate.before_late = move
    gate.inject(HttpFault.LATE_504, match="insert_deduplication_token")
    with pytest.raises(UnavailableError, match="CHS-707"):
        job.drain(spark)
    with pytest.raises(HaltError, match="CHS-309"):
        job.drain(spark)
    move("UTC")
    job.drain(spark)
    table = job.tables[job.topic]
    command(zoned[1].url, f"SYSTEM SYNC REPLICA {table}")
    assert select(zoned[1].url, f"SELECT count(), uniqExact(id) FROM {table} FORMAT TSV").split() == ["10", "10"]
