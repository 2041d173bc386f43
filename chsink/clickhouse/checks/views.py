"""The materialized views behind a table, and the tables that they fill: an insert into the table feeds them all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from chsink.clickhouse.checks import rules
from chsink.clickhouse.checks.rules import View
from chsink.clickhouse.checks.tables import NON_DETERMINISTIC, volatile_columns, volatile_partition
from chsink.clickhouse.feeds import dependents, filled_by
from chsink.clickhouse.grants import On, Use, rights_on, statement
from chsink.clickhouse.table import TargetTable, read_columns, read_table
from chsink.config import Config
from chsink.errors import PreflightError, preflight
from chsink.findings import Finding, Severity, found
from chsink.notation.sql import TableName
from chsink.ports import Queries, Unanswered

VIEW_DEPTH: Final = 4
_ALIAS: Final = re.compile(r"\bAS (`[^`]+`|\w+)")
"""The name of what was computed before it."""
_OF_TABLE: Final = "FROM system.tables WHERE database = {database:String} AND name = {name:String}"


@dataclass(frozen=True, slots=True)
class Dependents:
    """What hangs on a table: its views, the tables that they fill, and those of both that this user cannot see."""

    views: list[View] = field(default_factory=list)
    filled: list[TargetTable] = field(default_factory=list)
    unseen: list[TableName] = field(default_factory=list)


def view_findings(
    client: Queries, config: Config, name: str, table: TargetTable, behind: Dependents
) -> Iterator[Finding]:
    """Whether a piece that is sent again counts once behind the table, too."""
    yield from rules.views(name, behind.views, table.window_blocks, table.window_s)
    if behind.unseen:
        grant = "; ".join(statement(config, str(one), rights_on(On.VIEW, Use.VIEWS)) for one in behind.unseen)
        unseen = ", ".join(one.canonical for one in behind.unseen)
        yield found(Severity.WARNING, preflight.VIEW_UNSEEN, url=client.url, table=name, unseen=unseen, grant=grant)


def views_differ(table: TargetTable, behind: Dependents, others: Iterable[Queries]) -> Iterator[Finding]:
    """Replicas share a table's rows, but no views.  ``behind`` is what hangs on it where chsink inserts now."""
    have = {}
    for client in others:
        with suppress(Unanswered):  # a replica that is away: another check says so
            have[client.url] = attached(client, table)
    if behind.unseen or any(each.unseen for each in have.values()):
        return
    here = {view.name for view in behind.views}
    odd = {url: here ^ {view.name for view in each.views} for url, each in have.items()}
    if views := sorted(set[str]().union(*odd.values())):
        urls = ", ".join(sorted(url for url, names in odd.items() if names))
        yield found(Severity.WARNING, preflight.VIEWS_DIFFER, table=table.canonical, views=", ".join(views), urls=urls)


def attached(client: Queries, table: TargetTable, known: Mapping[TableName, list[TableName]] = {}) -> Dependents:
    """Everything behind the table, also behind the tables that its views fill.  ``known``: the views of some tables."""
    behind, fed = Dependents(), {each.at: each for each in table.feeds}
    waiting, seen = [(table.at, 0)], {table.at}
    while waiting:
        source, depth = waiting.pop()
        for view in known[source] if source in known else dependents(client, [source])[source]:
            engine, ddl, uuid = _defined(client, view)
            if not engine:
                behind.unseen.append(view)
            if engine != "MaterializedView":
                continue
            fills = filled_by(view, ddl, uuid)
            described = fed.get(fills) or _described(client, fills)
            if described is None:
                behind.unseen.append(fills)
                continue
            volatile = _volatile(client, view, ddl, described)
            behind.views.append(_view(view, described, volatile))
            behind.filled.append(described)
            if fills not in seen and depth < VIEW_DEPTH:
                seen.add(fills)
                waiting.append((fills, depth + 1))
    return behind


def _volatile(client: Queries, view: TableName, ddl: str, fills: TargetTable) -> tuple[str, ...]:
    """What of the table's partition key depends on when or where the view fills it: by a DEFAULT, or by its SELECT."""
    if not fills.partition_key:
        return ()
    given = {column.name for column in read_columns(client, view.database, view.table)}
    computed = (_ALIAS.search(ddl, one.end()) for one in NON_DETERMINISTIC.finditer(ddl))
    volatile = {c for c in volatile_columns(fills) if c not in given} | {one[1].strip("`") for one in computed if one}
    return tuple(volatile_partition(fills, sorted(volatile)))


def _view(view: TableName, fills: TargetTable, volatile: tuple[str, ...]) -> View:
    name = f"{view.database}.{view.table}"
    if not fills.engine.endswith("MergeTree"):
        return View(name, str(fills.at), fills.engine, None)
    return View(name, str(fills.at), fills.engine, fills.window_blocks, fills.window_s, volatile)


def _defined(client: Queries, table: TableName) -> tuple[str, str, str]:
    """Engine, CREATE statement and UUID; empty where this user cannot see the table."""
    rows = client.query(f"SELECT engine, create_table_query, toString(uuid) {_OF_TABLE}", _named(table))
    return (str(rows[0][0]), str(rows[0][1]), str(rows[0][2])) if rows else ("", "", "")


def _described(client: Queries, table: TableName) -> TargetTable | None:
    try:
        return read_table(client, table.database, table.table)
    except PreflightError:
        return None


def _named(table: TableName) -> dict[str, str]:
    return {"database": table.database, "name": table.table}
