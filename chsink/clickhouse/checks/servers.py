"""What one ClickHouse server says of itself, of its target tables and of this user."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from chsink.clickhouse import grants
from chsink.clickhouse.checks import rules
from chsink.clickhouse.checks.rules import View
from chsink.clickhouse.table import TargetTable, read_table
from chsink.clickhouse.writer import PINNED
from chsink.config import Config
from chsink.errors import PreflightError, preflight
from chsink.findings import Finding, Severity, found, passed, server_sentence
from chsink.notation import codes
from chsink.notation.metadata_columns import PROBE_COLUMNS
from chsink.notation.sql import TableName, parse_table, quote_identifier, quote_string
from chsink.ports import Clock, Queries, ServerRefused

VIEW_DEPTH = 4
SYSTEM_TABLES = tuple(
    f"system.{name}" for name in ("merge_tree_settings", "mutations", "parts", "processes", "replicas")
)
"""What chsink reads besides the system tables that ClickHouse shows to everybody, and besides ``system.clusters``: the
check that reads it says so itself.
"""
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


# --- grants ----------------------------------------------------------------------------------------------------------


def grant_findings(client: Queries, table: TargetTable, user: str) -> Iterator[Finding]:
    """Whether the user may do on the target what the job does, and whether he may do far more."""
    name = TableName(table.database, table.name)
    columns = ", ".join(quote_identifier(c.name) for c in table.insertable)
    to = quote_identifier(user)
    needed = {f"INSERT({columns})": f"GRANT INSERT ON {name} TO {to}"}
    if table.can_probe:
        probed = ", ".join(map(quote_identifier, PROBE_COLUMNS))
        needed[f"SELECT({probed})"] = f"GRANT SELECT({probed}) ON {name} TO {to}"
    yield from check_grants(client, str(name), needed)
    if may(client, f"DROP TABLE, TRUNCATE ON {name}"):
        yield found(Severity.INFO, preflight.GRANTS_WIDE, url=client.url, table=name)


def system_grant_findings(client: Queries, user: str) -> Iterator[Finding]:
    """Whether the user may read the system tables that chsink reads.  By default, a server requires a grant for each.

    One question for all of them; only if the answer is no, one for each.
    """
    if may(client, ", ".join(f"SELECT ON {name}" for name in SYSTEM_TABLES)):
        yield passed(preflight.GRANT_MISSING, url=client.url, privileges="SELECT", table=", ".join(SYSTEM_TABLES))
        return
    missing = [name for name in SYSTEM_TABLES if not may(client, f"SELECT ON {name}")]
    grant = "; ".join(f"GRANT SELECT ON {name} TO {quote_identifier(user)}" for name in missing)
    said = {"url": client.url, "privilege": "SELECT", "table": ", ".join(missing), "grant": grant}
    yield found(Severity.ERROR, preflight.GRANT_MISSING, **said)


def change_findings(client: Queries, config: Config, privilege: str, table: TableName) -> Iterator[Finding]:
    """Whether the user may change the table.  A warning: the job lands records until it has to."""
    for needed, statement in grants.grants(config, privilege, table).items():
        if not may(client, needed):
            said = {"url": client.url, "privilege": needed.split(" ON ")[0], "table": table, "grant": statement}
            yield found(Severity.WARNING, preflight.GRANT_MISSING, **said)


def check_grants(client: Queries, name: str, needed: Mapping[str, str]) -> Iterator[Finding]:
    """``needed``: privilege → the statement that grants it."""
    missing = [privilege for privilege in needed if not may(client, f"{privilege} ON {name}")]
    for privilege in missing:
        short = privilege.split("(")[0]
        yield found(
            Severity.ERROR,
            preflight.GRANT_MISSING,
            url=client.url,
            privilege=short,
            table=name,
            grant=needed[privilege],
        )
    if not missing:
        listed = ", ".join(p.split("(")[0] for p in needed)
        yield passed(preflight.GRANT_MISSING, url=client.url, privileges=listed, table=name)


def may(client: Queries, privileges: str) -> bool:
    """Whether this user has the privileges.  True where the server is too old to be asked: then the first use tells."""
    try:
        return bool(int(client.query(f"CHECK GRANT {privileges}")[0][0]))
    except ServerRefused as refused:
        if refused.code == codes.SYNTAX_ERROR:
            return True
        raise


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
