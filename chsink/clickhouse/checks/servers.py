"""What one ClickHouse server says of itself and of its target tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from chsink.clickhouse.checks import rules
from chsink.clickhouse.checks.rules import View
from chsink.clickhouse.table import TargetTable, read_table
from chsink.clickhouse.writer import PINNED
from chsink.errors import PreflightError, preflight
from chsink.findings import Finding, Severity, found, passed, server_sentence
from chsink.notation import codes
from chsink.notation.sql import parse_table, quote_identifier, quote_string
from chsink.ports import Clock, Queries, ServerRefused

VIEW_DEPTH = 4
_PART = r"(?:`(?:[^`\\]|\\.)+`|[^\s.`(]+)"
TO = re.compile(rf"CREATE MATERIALIZED VIEW {_PART}\.{_PART} TO ({_PART}\.{_PART})")


def server_findings(client: Queries, clock: Clock, margin_s: int, settings: Mapping[str, Any]) -> Iterator[Finding]:
    """Version, clock, and whether this user may set what every insert sets."""
    version, skew_s = _version_and_skew(client, clock)
    yield rules.server_version(client.url, version)
    yield rules.clock_skew(client.url, skew_s, margin_s)
    yield from _pinned(client, {**settings, **PINNED})


def _version_and_skew(client: Queries, clock: Clock) -> tuple[str, float]:
    """The skew is what is left of the difference when the round trip could explain all it can."""
    client.query("SELECT 1")
    sent = clock.now_ms()
    version, there = client.query("SELECT version(), toUnixTimestamp64Milli(now64(3))")[0]
    got = clock.now_ms()
    return str(version), (max(0, there - got) - max(0, sent - there)) / 1000


def _pinned(client: Queries, settings: Mapping[str, Any]) -> Iterator[Finding]:
    """One question with all settings; only when it is refused, one for each."""
    if _refusal(client, settings) is None:
        yield passed(preflight.SETTING_PINNED, url=client.url)
        return
    for name, value in settings.items():
        refusal = _refusal(client, {name: value})
        if refusal is not None:
            yield found(
                Severity.ERROR,
                preflight.SETTING_PINNED if name in PINNED else preflight.SETTING_INVALID,
                url=client.url,
                name=name,
                value=value,
                refusal=refusal,
            )


def _refusal(client: Queries, settings: Mapping[str, Any]) -> str | None:
    listed = ", ".join(f"{n} = {quote_string(v) if isinstance(v, str) else v}" for n, v in settings.items())
    try:
        client.query(f"SELECT 1 SETTINGS {listed}")
    except ServerRefused as refused:
        if refused.code in codes.SETTINGS:
            return server_sentence(refused)
        raise
    return None


# --- what hangs on the table -----------------------------------------------------------------------------------------


def table_views(client: Queries, table: TargetTable) -> list[View]:
    """The materialized views behind the table, and behind the tables that they fill."""
    found: list[View] = []
    waiting, seen = [((table.database, table.name), 0)], {(table.database, table.name)}
    while waiting:
        (database, name), depth = waiting.pop()
        for view in _dependents(client, database, name):
            fills = _filled_by(client, *view)
            described = _described(client, fills)
            deduplicates = described is not None and described.engine.endswith("MergeTree")
            found.append(
                View(
                    ".".join(view),
                    ".".join(map(quote_identifier, fills)),
                    described.engine if described else "",
                    described.window_blocks if described and deduplicates else None,
                )
            )
            if fills not in seen and depth < VIEW_DEPTH:
                seen.add(fills)
                waiting.append((fills, depth + 1))
    return found


def _dependents(client: Queries, database: str, name: str) -> list[tuple[str, str]]:
    rows = client.query(
        "SELECT arrayZip(dependencies_database, dependencies_table) FROM system.tables "
        "WHERE database = {database:String} AND name = {name:String}",
        {"database": database, "name": name},
    )
    views = sorted((str(d), str(n)) for row in rows for d, n in row[0])
    return [v for v in views if _engine(client, *v) == "MaterializedView"]


def _engine(client: Queries, database: str, name: str) -> str:
    rows = client.query(
        "SELECT engine FROM system.tables WHERE database = {database:String} AND name = {name:String}",
        {"database": database, "name": name},
    )
    return str(rows[0][0]) if rows else ""


def _filled_by(client: Queries, database: str, view: str) -> tuple[str, str]:
    """The table that a view fills: the one of its TO, else its own inner table."""
    rows = client.query(
        "SELECT create_table_query, toString(uuid) FROM system.tables "
        "WHERE database = {database:String} AND name = {name:String}",
        {"database": database, "name": view},
    )
    ddl, uuid = rows[0]
    found = TO.match(ddl)
    if found is None:
        return database, f".inner_id.{uuid}"
    named = parse_table(found[1])
    return named.database or database, named.table


def _described(client: Queries, table: tuple[str, str]) -> TargetTable | None:
    try:
        return read_table(client, *table)
    except PreflightError:
        return None


def total_replicas(client: Queries, table: TargetTable) -> tuple[int, str]:
    """How many replicas the table has, and its path in the Keeper; (1, '') for a table that is not replicated."""
    rows = client.query(
        "SELECT total_replicas, zookeeper_path FROM system.replicas "
        "WHERE database = {database:String} AND table = {name:String}",
        {"database": table.database, "name": table.name},
    )
    return (int(rows[0][0]), str(rows[0][1])) if rows else (1, "")


def setting(client: Queries, name: str) -> str:
    """The effective value of a setting for this user, '' where the server does not know it."""
    rows = client.query("SELECT value FROM system.settings WHERE name = {name:String}", {"name": name})
    return str(rows[0][0]) if rows else ""


def table_partitions(client: Queries, table: TargetTable) -> int:
    """How many table partitions hold data."""
    rows = client.query(
        "SELECT uniqExact(partition_id) FROM system.parts "
        "WHERE active AND database = {database:String} AND table = {name:String}",
        {"database": table.database, "name": table.name},
    )
    return int(rows[0][0])
