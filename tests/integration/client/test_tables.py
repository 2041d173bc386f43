"""What is recorded of a table: it changes when the table does, and not when another replica answers."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.clickhouse.dedup_mark import look, looks, why_altered
from chsink.clickhouse.definition import Ttl
from chsink.clickhouse.describe import read_facts
from chsink.clickhouse.table import TargetTable, read_table, read_tables
from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.errors import AlteredError
from chsink.notation.sql import TableName, quote_identifier

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


def definitions(client: ClickHouseClient, names: Collection[TableName]) -> dict[TableName, str]:
    """What tables are, as the driver asks before each batch."""
    return {at: fact.definition for at, fact in read_facts(client, names).items()}


def make(client: ClickHouseClient, name: str, engine: str, columns: str = "id UInt64, version UInt8") -> TargetTable:
    client.command(f"CREATE TABLE {DATABASE}.{name} ({columns}) ENGINE = {engine} ORDER BY id")
    table = read_table(client, DATABASE, name)
    assert definitions(client, [table.at]) == {table.at: table.definition}
    return table


def test_a_table_made_anew_is_another(clients: list[ClickHouseClient]) -> None:
    first = make(clients[0], "anew", "MergeTree")
    clients[0].command(f"DROP TABLE {DATABASE}.anew SYNC")
    assert definitions(clients[0], [first.at]) == {}
    second = make(clients[0], "anew", "MergeTree")
    assert first.identity != second.identity and first.definition != second.definition


def test_an_altered_table_is_the_same_with_another_definition(clients: list[ClickHouseClient]) -> None:
    before = make(clients[0], "altered", "MergeTree")
    clients[0].command(f"ALTER TABLE {DATABASE}.altered ADD COLUMN more String")
    after = read_table(clients[0], DATABASE, "altered")
    assert before.identity == after.identity and before.definition != after.definition


@pytest.mark.soak
def test_a_server_with_another_time_zone_describes_its_tables_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚡ A job went on with the zone of its start: one text became two instants.  A view's digest is kept with ranges."""
    seen = list[tuple[str, str, str]]()
    with EmbeddedClickHouse(tmp_path / "zoned") as server:
        client = ClickHouseClient(Connection((server.url,)))
        client.command(f"CREATE DATABASE {DATABASE}")
        view = TableName(DATABASE, "view")
        for zone in ("UTC", "Etc/UTC", "America/New_York"):
            server.stop()
            monkeypatch.setenv("TZ", zone)  # the engine here takes its zone from its environment
            server.start()
            if not seen:
                make(client, "zoned", "MergeTree")
                client.command(f"CREATE MATERIALIZED VIEW {view} TO {DATABASE}.zoned AS SELECT 1 AS id FROM system.one")
            table = read_table(client, DATABASE, "zoned")
            seen.append((table.timezone, table.definition, definitions(client, [view])[view]))
        client.close()
    zones, tables, views = zip(*seen, strict=True)
    assert [*zones] == ["UTC", "Etc/UTC", "America/New_York"]
    assert tables[0] == tables[1] != tables[2] and len({*views}) == 1


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


def test_many_tables_of_any_name_are_described_and_looked_at_in_one_question(clients: list[ClickHouseClient]) -> None:
    """The same as each by itself: of plain and Replicated tables, with rows and without, in two databases."""
    client, other = clients[0], f"{DATABASE} o'ther.\u00fc"
    client.command(f"CREATE DATABASE {quote_identifier(other)}")
    try:
        names = [
            "plain",
            "it's",
            "a.b",
            "back`tick\\",
            "\u00fcml\u00e4ut \U0001f600",
            "{x:String}",
            "-- no comment",
            "%s",
        ]
        tables = []
        for database in (DATABASE, other):
            for n, name in enumerate(names):
                at = TableName(database, name)
                client.command(f"CREATE TABLE {at} (id UInt64) ENGINE = MergeTree ORDER BY id")
                for _ in range(n):
                    client.command(f"INSERT INTO {at} VALUES (1)")
                tables.append(read_table(client, database, name))
        tables.append(make(client, "kept", f"ReplicatedMergeTree('/tables/{uuid.uuid4().hex}', 'r')", "id UInt64"))

        assert definitions(client, [t.at for t in tables]) == {t.at: t.definition for t in tables}
        assert read_tables(client, [t.at for t in tables]) == {t.at: t for t in tables}
        seen = looks(client, tables)
        for table in tables:
            alone = look(client, table)
            assert (seen[table.at].mark.blocks, seen[table.at].altered) == (alone.mark.blocks, False)
        assert [seen[t.at].mark.blocks for t in tables[:8]] == [*range(8)]

        client.command(f"ALTER TABLE {tables[9].at} ADD COLUMN more UInt8")
        now = definitions(client, [t.at for t in tables])
        assert [t.at for t in tables if now[t.at] != t.definition] == [tables[9].at]
        client.command(f"EXCHANGE TABLES {tables[0].at} AND {tables[1].at}")
        with pytest.raises(AlteredError, match="CHS-233"):
            looks(client, tables)
    finally:
        client.command(f"DROP DATABASE {quote_identifier(other)} SYNC")


SAYS = "SETTINGS non_replicated_deduplication_window = 100000, TTL d, it''s"
"""In a comment."""


@pytest.mark.parametrize(
    ("columns", "engine", "window", "ttl"),
    [
        ("id UInt8", "MergeTree ORDER BY id SETTINGS {w} = 5", 5, Ttl()),
        (f"id UInt8 COMMENT '{SAYS}'", "MergeTree ORDER BY id SETTINGS {w} = 5", 5, Ttl()),
        ("id UInt8", f"MergeTree ORDER BY id SETTINGS {{w}} = 5 COMMENT '{SAYS}'", 5, Ttl()),
        ("id UInt8", f"MergeTree ORDER BY id COMMENT '{SAYS}'", 0, Ttl()),
        ("id UInt8", "MergeTree ORDER BY id SETTINGS index_granularity = 100, {w} = '7'", 7, Ttl()),
        ("id UInt8", "MergeTree ORDER BY id SETTINGS {w} = 1e3", 1000, Ttl()),
        (f"`SETTINGS {{w}} = 9` UInt8, `a TTL` String DEFAULT '{SAYS}'", "MergeTree ORDER BY tuple()", 0, Ttl()),
        ("SETTINGS UInt8, x UInt8", "MergeTree PARTITION BY x ORDER BY SETTINGS SETTINGS {w} = 8", 8, Ttl()),
        ("id UInt8, s String", "MergeTree PARTITION BY s = 'x TTL ' ORDER BY id SETTINGS {w} = 4", 4, Ttl()),
        ("id UInt8, d Date TTL d + 1, d2 Date", f"MergeTree ORDER BY id COMMENT '{SAYS}'", 0, Ttl(changes_cells=True)),
        ("id UInt8, d Date", "MergeTree ORDER BY id TTL d + 1 SETTINGS {w} = 3", 3, Ttl(removes_rows=True)),
        (
            "id UInt8, d Date",
            "MergeTree ORDER BY id TTL d + 1 GROUP BY id SET d = max(d)",
            0,
            Ttl(removes_rows=True, changes_cells=True),
        ),
    ],
)
def test_what_a_comment_says_is_no_setting(
    clients: list[ClickHouseClient], columns: str, engine: str, window: int, ttl: Ttl
) -> None:
    """⚑ A window that was read from a comment is trusted where the table has forgotten its tokens."""
    name, setting = f"t_{uuid.uuid4().hex}", "non_replicated_deduplication_window"
    text = f"CREATE TABLE {DATABASE}.{name} ({columns}) ENGINE = {engine}".replace("{w}", setting)
    clients[0].command(text)
    table = read_table(clients[0], DATABASE, name)
    assert (table.window_blocks, table.ttl) == (window, ttl)
    assert why_altered(clients[0], table) is None
    if window:
        clients[0].command(f"ALTER TABLE {DATABASE}.{name} MODIFY SETTING {setting} = 2")
        assert "lowered" in str(why_altered(clients[0], table))
