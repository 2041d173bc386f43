"""What ClickHouse's own replication does here, on which the sink relies."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import pytest
from clickhouse_connect.driver.client import Client

from tests.support.clickhouse_http import connected, scalar
from tests.support.job import eventually
from tests.support.replicas.service import ReplicaClickHouse
from tests.support.replicas.tables import CLUSTER

QUORUM = {"insert_quorum": 2, "insert_quorum_parallel": 0, "async_insert": 0, "insert_deduplicate": 1}


@pytest.fixture
def clients(pair: Sequence[ReplicaClickHouse]) -> Iterator[list[Client]]:
    opened = [connected(server) for server in pair]
    yield opened
    for client in opened:
        client.close()


def make_table(client: Client, settings: str = "") -> str:
    """One table on both servers, by ON CLUSTER; returns its name."""
    name = f"replicated_{uuid.uuid4().hex[:8]}"
    client.command(
        f"CREATE TABLE {name} ON CLUSTER {CLUSTER} (n UInt64) "
        f"ENGINE = ReplicatedMergeTree('/tests/{name}', '{{replica}}') ORDER BY n {settings}"
    )
    return name


def send(client: Client, table: str, token: str) -> None:
    settings = {**QUORUM, "insert_deduplication_token": token}
    client.raw_insert(table, insert_block=b"1\n2\n3\n", fmt="TSV", settings=settings)


def test_a_token_is_kept_once_whichever_replica_it_is_sent_to(clients: list[Client]) -> None:
    table = make_table(clients[0])
    for client in (*clients, *clients):
        send(client, table, "one")
    assert [scalar(client, f"SELECT count() FROM {table}") for client in clients] == [3, 3]


@pytest.mark.parametrize("where", ["everywhere", "on another replica"])
def test_a_token_is_forgotten_once_a_block_comes_that_is_later_than_the_windows_seconds(
    clients: list[Client], where: str
) -> None:
    """The clock alone forgets nothing: the window ends at the newest block.  ⚑ Replicas have settings of their own, and
    each of them removes the tokens of all.
    """
    cleaning = "cleanup_delay_period = 1, max_cleanup_delay_period = 2, cleanup_delay_period_random_add = 0"
    table = make_table(clients[0], f"SETTINGS {cleaning}")
    for client in clients if where == "everywhere" else clients[1:]:
        client.command(f"ALTER TABLE {table} MODIFY SETTING replicated_deduplication_window_seconds = 1")
    send(clients[0], table, "one")

    def rows_after_a_later_block() -> int:
        send(clients[0], table, uuid.uuid4().hex)
        before = scalar(clients[0], f"SELECT count() FROM {table}")
        send(clients[0], table, "one")
        return int(scalar(clients[0], f"SELECT count() FROM {table}") - before)

    eventually("the token is forgotten", lambda: rows_after_a_later_block() == 3)


def test_a_replica_that_does_not_fetch_answers_with_its_old_rows_and_no_error(clients: list[Client]) -> None:
    """⚑ Whoever looks for rows must ask a replica that is current."""
    table = make_table(clients[0])
    send(clients[0], table, "one")
    clients[1].command(f"SYSTEM STOP FETCHES {table}")
    clients[0].raw_insert(table, insert_block=b"4\n", fmt="TSV", settings={"async_insert": 0})
    assert scalar(clients[1], f"SELECT count() FROM {table}") == 3
    clients[1].command(f"SYSTEM START FETCHES {table}")
    eventually("the fourth row", lambda: scalar(clients[1], f"SELECT count() FROM {table}") == 4)
