"""What the sink relies on is done by the engine: deduplication, blocks, settings, grants, limits, errors of a table."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from chsink.embedded.clickhouse import ClickHouseUser, EmbeddedClickHouse
from tests.support.clickhouse_http import ask, send


def stream_of(batches: list[int]) -> bytes:
    schema = pa.schema([("a", pa.uint64())])
    sink = pa.BufferOutputStream()
    first = 0
    with pa.ipc.new_stream(sink, schema) as writer:
        for rows in batches:
            writer.write_batch(pa.record_batch([pa.array(range(first, first + rows), pa.uint64())], schema=schema))
            first += rows
    body: bytes = sink.getvalue().to_pybytes()
    return body


def parts(server: EmbeddedClickHouse, table: str) -> list[int]:
    found = ask(server, f"SELECT rows FROM system.parts WHERE table = '{table}' AND active ORDER BY min_block_number")
    return [int(rows) for rows in found.split()]


def test_the_engine_deduplicates_by_token(server: EmbeddedClickHouse, table: str) -> None:
    insert = f"INSERT INTO {table} (a) FORMAT ArrowStream"
    body = stream_of([1000])
    for token, expected in (("one", 1000), ("one", 1000), ("two", 2000)):
        reply = send(server, insert, body, insert_deduplication_token=token)
        assert reply.status == 200 and reply.summary["written_rows"] == 1000
        assert ask(server, f"SELECT count() FROM {table}") == str(expected)
    assert send(server, insert, body, insert_deduplication_token="one", deduplicate_insert="disable").status == 200
    assert ask(server, f"SELECT count() FROM {table}") == "3000"
    inline = f"INSERT INTO {table} (a) SETTINGS insert_deduplication_token = 'one' FORMAT ArrowStream\n".encode()
    assert send(server, body=inline + body).status == 200
    assert ask(server, f"SELECT count() FROM {table}") == "3000"


def test_rows_that_were_detached_and_attached_again_have_lost_their_tokens(
    server: EmbeddedClickHouse, table: str
) -> None:
    """docs/promise.md names this limit.  If it fails: does the table remember the tokens now?  Then say so there."""
    insert, body = f"INSERT INTO {table} (a) FORMAT ArrowStream", stream_of([1000])
    send(server, insert, body, insert_deduplication_token="one")
    ask(server, f"ALTER TABLE {table} DETACH PARTITION tuple()")
    ask(server, f"ALTER TABLE {table} ATTACH PARTITION tuple()")
    assert ask(server, f"SELECT count() FROM {table}") == "1000"
    send(server, insert, body, insert_deduplication_token="one")
    assert ask(server, f"SELECT count() FROM {table}") == "2000"


def test_one_record_batch_is_one_part(server: EmbeddedClickHouse, table: str) -> None:
    ask(server, f"SYSTEM STOP MERGES {table}")
    insert = f"INSERT INTO {table} (a) FORMAT ArrowStream"
    send(server, insert, stream_of([2_000_000]))
    assert parts(server, table) == [2_000_000]
    ask(server, f"TRUNCATE TABLE {table}")
    each: dict[str, Any] = {
        "min_insert_block_size_rows": "0",
        "min_insert_block_size_bytes": "0",
        "max_insert_threads": "1",
    }
    send(server, insert, stream_of([1000, 2000, 3000]), **each)
    assert parts(server, table) == [1000, 2000, 3000]
    ask(server, f"TRUNCATE TABLE {table}")
    send(server, insert, stream_of([1000, 2000, 3000]))
    assert parts(server, table) == [6000]


def test_settings_of_an_insert_reach_the_engine(server: EmbeddedClickHouse, table: str) -> None:
    ask(server, f"SYSTEM STOP MERGES {table}")
    rows = b"".join(b"%d\n" % row for row in range(300_000))
    blocks: dict[str, Any] = {
        "max_insert_block_size": "100000",
        "min_insert_block_size_rows": "0",
        "min_insert_block_size_bytes": "0",
    }
    send(server, f"INSERT INTO {table} (a) FORMAT CSV", rows, **blocks)
    assert sum(parts(server, table)) == 300_000 and len(parts(server, table)) == 3
    limited = send(server, f"INSERT INTO {table} (a) FORMAT CSV", rows, max_memory_usage="1000000")
    assert limited.code == 241


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedClickHouse]:
    users = (
        ClickHouseUser("admin", "root's"),
        ClickHouseUser("reader", "r", ("GRANT SELECT ON shop.*",)),
        ClickHouseUser("writer", "w", ("GRANT INSERT ON shop.orders", "GRANT SELECT(id) ON shop.orders")),
    )
    fixed = (
        "<profiles><default><constraints><async_insert><readonly/></async_insert></constraints></default></profiles>"
    )
    limits = "<max_server_memory_usage>1500000000</max_server_memory_usage>"
    path = tmp_path_factory.mktemp("guarded")
    with EmbeddedClickHouse(path, users=users, users_xml=fixed, extra_xml=limits) as server:
        root = {"user": "admin", "password": "root's"}
        ask(server, "CREATE DATABASE shop", **root)
        ask(server, "CREATE TABLE shop.orders (id UInt64, x String) ENGINE = MergeTree ORDER BY id", **root)
        ask(server, "INSERT INTO shop.orders VALUES (1, 'x')", **root)
        yield server


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_authentication(guarded: EmbeddedClickHouse) -> None:
    for headers in (basic("reader", "r"), {"X-ClickHouse-User": "reader", "X-ClickHouse-Key": "r"}):
        assert send(guarded, "SELECT x FROM shop.orders", headers=headers).text == "x\n"
    assert send(guarded, "SELECT x FROM shop.orders", user="reader", password="r").text == "x\n"
    both = {**basic("reader", "r"), "X-ClickHouse-User": "reader"}
    for headers in (basic("reader", "R"), basic("nobody", ""), {"Authorization": "Bearer x"}, both):
        reply = send(guarded, "SELECT 1", headers=headers)
        assert (reply.status, reply.code) == (403, 516)
    assert "r'" not in send(guarded, "SELECT 1", headers=basic("reader", "R")).text
    assert send(guarded, "SELECT x FROM shop.orders").code == 497


def test_grants_are_the_engines(guarded: EmbeddedClickHouse) -> None:
    reader, writer = basic("reader", "r"), basic("writer", "w")
    session: dict[str, Any] = {"session_id": str(uuid.uuid4())}
    no_session: dict[str, Any] = {}
    for extra in (no_session, session, session):
        denied = send(guarded, "INSERT INTO shop.orders VALUES (2, 'y')", headers=reader, **extra)
        assert (denied.status, denied.code) == (403, 497)
    assert send(guarded, "INSERT INTO shop.orders VALUES (2, 'y')", headers=writer).status == 200
    assert send(guarded, "SELECT id FROM shop.orders ORDER BY id", headers=writer).text == "1\n2\n"
    assert send(guarded, "SELECT x FROM shop.orders", headers=writer).code == 497
    assert send(guarded, "SET DEFAULT ROLE ALL TO writer", headers=writer).code == 497
    # A session whose first request failed is the user's all the same.
    begun: dict[str, Any] = {"session_id": str(uuid.uuid4()), "headers": reader}
    assert send(guarded, "SELECT 1", nope="1", **begun).code == 115
    assert send(guarded, "SELECT x FROM orders WHERE id = 1", database="shop", **begun).text == "x\n"
    assert send(guarded, "DROP TABLE shop.orders", **begun).code == 497


def test_constraints_and_limits_are_the_engines(guarded: EmbeddedClickHouse) -> None:
    root = basic("admin", "root's")
    reply = send(guarded, "SELECT 1", headers=root, async_insert="0")
    assert reply.code in (None, 452)
    assert (
        send(guarded, "SELECT 1 SETTINGS async_insert = 0", headers=root).headers["X-ClickHouse-Exception-Code"]
        == "452"
    )
    # One allocation, which is refused at once: a slow machine is not given the time to fill the memory.
    greedy = "SELECT length(range(480000000))"
    assert send(guarded, greedy, headers=root, max_memory_usage="0").code == 241
    assert Path(guarded.path / "users.json").stat().st_mode & 0o077 == 0
