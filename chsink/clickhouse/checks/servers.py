"""What one ClickHouse server says of itself and of its target tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from chsink.clickhouse.checks import rules
from chsink.clickhouse.table import TargetTable
from chsink.clickhouse.writer import PINNED
from chsink.errors import preflight
from chsink.findings import Finding, Severity, found, passed, server_sentence
from chsink.notation import codes
from chsink.notation.sql import quote_string
from chsink.ports import Clock, Queries, ServerRefused


def server_findings(client: Queries, settings: Mapping[str, object]) -> Iterator[Finding]:
    """Version, and whether this user may set what every insert sets."""
    yield rules.server_version(client.url, str(client.query("SELECT version()")[0][0]))
    yield from _pinned(client, {**settings, **PINNED})


def clock_findings(replicas: Sequence[Queries], clock: Clock, margin_s: int) -> Iterator[Finding]:
    """The clocks of one endpoint's servers against each other: a mark of one is compared with the time of another."""
    clocks = {replica.url: _ahead(replica, clock) for replica in replicas}
    if len(clocks) > 1:
        yield rules.clocks(clocks, margin_s)


def _ahead(client: Queries, clock: Clock) -> tuple[int, int]:
    """By how many ms the server is ahead of the steady clock, which may have any zero: at least, and at most."""
    sent = clock.steady_ms()
    there = int(client.query("SELECT toUnixTimestamp64Milli(now64(3))")[0][0])
    return there - clock.steady_ms(), there - sent


def _pinned(client: Queries, settings: Mapping[str, object]) -> Iterator[Finding]:
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


def _refusal(client: Queries, settings: Mapping[str, object]) -> str | None:
    listed = ", ".join(f"{n} = {quote_string(v) if isinstance(v, str) else v}" for n, v in settings.items())
    try:
        client.query(f"SELECT 1 SETTINGS {listed}")
    except ServerRefused as refused:
        if refused.code in codes.SETTINGS:
            return server_sentence(refused)
        raise
    return None


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
