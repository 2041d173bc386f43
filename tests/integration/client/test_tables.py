"""What is recorded of a table: it changes when the table does, and not when another replica answers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.clickhouse.table import TargetTable, definition, read_table
from chsink.embedded.clickhouse import EmbeddedClickHouse

DATABASE = "table_test"


@pytest.fixture(scope="module")
def clients(clickhouse: list[EmbeddedClickHouse]) -> Iterator[list[ClickHouseClient]]:
    """One to each server, with a database."""
    clients = [ClickHouseClient(Connection((server.url,))) for server in clickhouse]
    for client in clients:
        client.command(f"CREATE DATABASE {DATABASE}")
    yield clients
    for client in clients:
        client.command(f"DROP DATABASE {DATABASE} SYNC")
        client.close()


def make(client: ClickHouseClient, name: str, engine: str, columns: str = "id UInt64, version UInt8") -> TargetTable:
    client.command(f"CREATE TABLE {DATABASE}.{name} ({columns}) ENGINE = {engine} ORDER BY id")
    table = read_table(client, DATABASE, name)
    assert table.definition == definition(client, DATABASE, name)
    return table


def test_a_table_made_anew_is_another(clients: list[ClickHouseClient]) -> None:
    first = make(clients[0], "anew", "MergeTree")
    clients[0].command(f"DROP TABLE {DATABASE}.anew SYNC")
    assert definition(clients[0], DATABASE, "anew") == ""
    second = make(clients[0], "anew", "MergeTree")
    assert first.identity != second.identity and first.definition != second.definition


def test_an_altered_table_is_the_same_with_another_definition(clients: list[ClickHouseClient]) -> None:
    before = make(clients[0], "altered", "MergeTree")
    clients[0].command(f"ALTER TABLE {DATABASE}.altered ADD COLUMN more String")
    after = read_table(clients[0], DATABASE, "altered")
    assert before.identity == after.identity and before.definition != after.definition


@pytest.mark.parametrize("arguments", ["", ", version"])
def test_replicas_made_one_by_one_are_one_table(clients: list[ClickHouseClient], arguments: str) -> None:
    kind = "ReplicatedReplacingMergeTree" if arguments else "ReplicatedMergeTree"
    name = f"t_{uuid.uuid4().hex}"
    tables = [make(c, name, f"{kind}('/tables/{name}', 'r{n}'{arguments})") for n, c in enumerate(clients)]
    assert tables[0].identity == tables[1].identity == f"/tables/{name}"
    assert tables[0].definition == tables[1].definition


def test_tables_of_two_keeper_paths_are_two(clients: list[ClickHouseClient]) -> None:
    name = f"t_{uuid.uuid4().hex}"
    tables = [make(c, name, f"ReplicatedMergeTree('/tables/{n}/{name}', 'r')") for n, c in enumerate(clients)]
    assert tables[0].identity != tables[1].identity and tables[0].definition != tables[1].definition
