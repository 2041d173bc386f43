"""A client of a server of the run, and a table of the test's own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.embedded.clickhouse import EmbeddedClickHouse


@pytest.fixture(scope="module")
def server(clickhouse: list[EmbeddedClickHouse]) -> str:
    """The first one's URL."""
    return clickhouse[0].url


@pytest.fixture(scope="module")
def client(server: str) -> Iterator[ClickHouseClient]:
    """Connected to it without anything between."""
    client = ClickHouseClient(Connection((server,)))
    client.command("CREATE DATABASE IF NOT EXISTS client_test")
    yield client
    client.close()


@pytest.fixture
def create(client: ClickHouseClient) -> Callable[[str], None]:
    """Runs a CREATE TABLE of a MergeTree."""
    return client.command


@pytest.fixture
def table(client: ClickHouseClient) -> Iterator[str]:
    """Two columns; inserts are deduplicated."""
    name = f"client_test.t_{uuid.uuid4().hex}"
    client.command(
        f"CREATE TABLE {name} (a UInt64, b String) ENGINE = MergeTree ORDER BY a "
        "SETTINGS non_replicated_deduplication_window = 100"
    )
    yield name
    client.command(f"DROP TABLE {name} SYNC")
