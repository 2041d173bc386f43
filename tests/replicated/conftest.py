"""Two replicas over one ZooKeeper, for the length of the run; skipped, loudly, where the engine is not the pinned one.

``make_job`` is that of the job's tests for a Replicated target: tests of ``tests/integration`` that are imported here
run on replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from tests.integration.job.conftest import MakeJob, failpoints, maker
from tests.support.job import DATABASE, command
from tests.support.replicas.engine import why_not
from tests.support.replicas.service import ReplicaClickHouse, replicas, running
from tests.support.replicas.tables import CLUSTER, replicated

if TYPE_CHECKING:
    from chsink.embedded.kafka import EmbeddedKafka
    from chsink.embedded.stack import Stack

__all__ = ["client", "create", "failpoints", "make_job", "pair", "services", "trio"]


@pytest.fixture(scope="session")
def pair(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[Sequence[ReplicaClickHouse]]:
    """Two replicas in the cluster ``replicas``, with the database of the job's tests."""
    yield from started(tmp_path_factory.mktemp("replicas"), zookeeper, 2)


@pytest.fixture(scope="module")
def trio(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[Sequence[ReplicaClickHouse]]:
    """Three replicas of a module's own."""
    yield from started(tmp_path_factory.mktemp("trio"), zookeeper, 3)


def started(folder: Path, zookeeper: EmbeddedZooKeeper, count: int) -> Iterator[Sequence[ReplicaClickHouse]]:
    """Replicas with the database, until their fixture ends."""
    if reason := why_not():
        pytest.skip(reason)
    with running(replicas(folder, zookeeper.hosts, count)) as servers:
        for server in servers:
            command(server.url, f"CREATE DATABASE {DATABASE}")
        yield servers


@pytest.fixture(scope="session")
def services(_services: Stack, kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper) -> Stack:
    """Kafka and ZooKeeper; the replicas are :func:`pair`."""
    return _services


@pytest.fixture
def make_job(
    services: Stack, pair: Sequence[ReplicaClickHouse], tmp_path: Path, request: pytest.FixtureRequest
) -> MakeJob:
    """``make_job(partitions=2, …)``: a sink with a topic and a Replicated table of its own."""
    first, *others = [server.url for server in pair]

    def target(shards: int) -> dict[str, list[str]]:
        assert shards == 1, "the replicas are one shard"
        return {"shards": [first], "replicas": others}

    return maker(services, tmp_path, request, target)


@pytest.fixture(scope="module")
def client(pair: Sequence[ReplicaClickHouse]) -> Iterator[ClickHouseClient]:
    """Of both replicas, for tests of ``tests/integration/client``."""
    client = ClickHouseClient(Connection(tuple(server.url for server in pair)))
    client.command(f"CREATE DATABASE IF NOT EXISTS client_test ON CLUSTER {CLUSTER}")
    yield client
    client.close()


@pytest.fixture
def create(client: ClickHouseClient) -> Callable[[str], None]:
    """Runs a CREATE TABLE of a MergeTree, as that of a Replicated table on both."""
    return lambda sql: client.command(replicated(sql))
