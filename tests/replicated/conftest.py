"""Two replicas over one ZooKeeper, for the length of the run; skipped, loudly, where the engine is not the pinned one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chsink.embedded.zookeeper import EmbeddedZooKeeper
from tests.support.replicas.engine import why_not
from tests.support.replicas.service import ReplicaClickHouse, replicas


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper) -> Iterator[list[ReplicaClickHouse]]:
    """Two replicas in the cluster ``replicas``."""
    if reason := why_not():
        pytest.skip(reason)
    servers = replicas(tmp_path_factory.mktemp("replicas"), zookeeper.hosts)
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.stop()
