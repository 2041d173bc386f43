"""The official client, unmodified, in a database of the module's own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from clickhouse_connect.driver.client import Client

from chsink.embedded.clickhouse import EmbeddedClickHouse
from tests.support.clickhouse_http import connected


@pytest.fixture(scope="module")
def server(clickhouse: list[EmbeddedClickHouse]) -> EmbeddedClickHouse:
    """The first one."""
    return clickhouse[0]


@pytest.fixture(scope="module")
def database(server: EmbeddedClickHouse) -> Iterator[str]:
    """A database of the module's own."""
    name = f"official_{uuid.uuid4().hex[:8]}"
    with connected(server) as client:
        client.command(f"CREATE DATABASE {name}")
        yield name
        client.command(f"DROP DATABASE {name} SYNC")


@pytest.fixture
def client(server: EmbeddedClickHouse, database: str) -> Iterator[Client]:
    """Connected to it."""
    with connected(server, database=database) as connection:
        yield connection


@pytest.fixture
def table(client: Client) -> Iterator[str]:
    """Three columns; inserts are deduplicated."""
    name = f"t_{uuid.uuid4().hex[:8]}"
    client.command(
        f"CREATE TABLE {name} (id UInt32, name Nullable(String), amount Float64) ENGINE = MergeTree ORDER BY id "
        "SETTINGS non_replicated_deduplication_window = 100"
    )
    yield name
    client.command(f"DROP TABLE IF EXISTS {name} SYNC")
