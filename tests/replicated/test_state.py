"""The state in KeeperMap, through either replica."""

from __future__ import annotations

from collections.abc import Sequence

from tests.contract.benches import check_servers_share_state
from tests.support.job import DATABASE
from tests.support.replicas.service import ReplicaClickHouse


def test_the_state_holds_through_either_replica(pair: Sequence[ReplicaClickHouse]) -> None:
    check_servers_share_state([server.url for server in pair], DATABASE)
