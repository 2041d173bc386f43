"""A server of the run, and a table of the test's own, over plain HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from chsink.embedded.clickhouse import EmbeddedClickHouse
from tests.support.clickhouse_http import ask


@pytest.fixture(scope="module")
def server(clickhouse: list[EmbeddedClickHouse]) -> EmbeddedClickHouse:
    """The first one."""
    return clickhouse[0]


@pytest.fixture
def table(server: EmbeddedClickHouse) -> Iterator[str]:
    """Two columns, the second with a DEFAULT; inserts are deduplicated."""
    name = f"http_{uuid.uuid4().hex[:8]}"
    ask(
        server,
        f"CREATE TABLE {name} (a UInt64, b String DEFAULT 'none') ENGINE = MergeTree ORDER BY a "
        "SETTINGS non_replicated_deduplication_window = 100",
    )
    yield name
    ask(server, f"DROP TABLE {name} SYNC")
