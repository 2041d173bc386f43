"""Adds columns for fields that have none (``schema.evolution = "add_columns"``), on every shard, before a record with
such a field is sent.

``ADD COLUMN IF NOT EXISTS`` appends columns at the end, so the columns of an earlier announced range can still be found
(:mod:`chsink.formats.announced_columns`).  Two drivers may add the same column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from structlog.typing import FilteringBoundLogger as BoundLogger

from chsink import failpoints
from chsink.clickhouse import grants
from chsink.clickhouse.client import ClickHouseClient
from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.grants import Use
from chsink.clickhouse.table import read_columns
from chsink.clickhouse.unknown_fields import missing_columns
from chsink.config import Route
from chsink.decode.inferred import narrowest
from chsink.errors import AlteredError, preflight
from chsink.findings import server_sentence
from chsink.notation import codes
from chsink.notation.sql import TableName
from chsink.ports import ServerRefused
from chsink.refusals import asking_target
from chsink.tables.statements import add_columns, declared

_Place = tuple[ClickHouseClient, str]
"""A server, and the database of the table there."""


def add_missing(clickhouse: Cluster, log: BoundLogger, altered: AlteredError) -> bool:
    """Add the columns that tasks reported as missing.  Returns whether they reported any."""
    missing = missing_columns(altered)
    for table, columns in missing.items():
        [route, *_] = _routes(clickhouse, table)
        with asking_target():
            for place in _places(clickhouse, route):
                _add(clickhouse, log, route, place, {name: narrowest(kinds) for name, kinds in columns.items()})
                failpoints.reach("tables.between_servers")
    return bool(missing)


def level(clickhouse: Cluster, log: BoundLogger) -> None:
    """Give each shard all columns that another shard has, for routes with ``add_columns``: a driver may have stopped
    between two shards.  Copies columns that a user added, too, because chsink does not know which ones it added itself.
    """
    routes = {
        clickhouse.config.table_of(r).canonical: r
        for r in clickhouse.config.routes
        if clickhouse.config.adds_columns(r)
    }
    with asking_target():
        for route in routes.values():
            _level(clickhouse, log, route)


def _level(clickhouse: Cluster, log: BoundLogger, route: Route) -> None:
    table = clickhouse.config.table_of(route).table
    found = [(place, read_columns(*place, table)) for place in _places(clickhouse, route)]
    every = {c.name: declared(c) for _, columns in found for c in columns if c.insertable}
    for place, columns in found:
        lacking = {n: kind for n, kind in every.items() if n not in {c.name for c in columns}}
        if lacking and columns:
            _add(clickhouse, log, route, place, lacking)


def _routes(clickhouse: Cluster, table: str) -> list[Route]:
    return [r for r in clickhouse.config.routes if clickhouse.config.table_of(r).canonical == table]


def _places(clickhouse: Cluster, route: Route) -> Iterator[_Place]:
    """One server of each shard: replicas of a table share its columns."""
    config = clickhouse.config
    for client, own in zip(clickhouse.clients, config.databases_of(route), strict=True):
        yield client, own or config.table_of(route).database


def _add(
    clickhouse: Cluster,
    log: BoundLogger,
    route: Route,
    place: _Place,
    columns: Mapping[str, str],
) -> None:
    client, database = place
    name = TableName(database, clickhouse.config.table_of(route).table)
    statement = add_columns(clickhouse.config, str(name), columns)
    wait_s = int(clickhouse.config.clickhouse.insert_timeout_s)
    log.info("adding columns", table=name.canonical, url=client.url, sql=statement)
    try:
        client.command(statement, {"alter_sync": 2, "distributed_ddl_task_timeout": wait_s})
    except ServerRefused as refused:
        there = {c.name for c in read_columns(client, database, name.table)}
        if there.issuperset(columns):  # the columns were added; only the wait for an offline replica failed
            log.warning("a replica does not have the columns yet", table=name.canonical, url=client.url)
            return
        said = {"table": name.canonical, "url": client.url, "reason": server_sentence(refused), "sql": statement}
        if refused.code == codes.ACCESS_DENIED:
            grant = grants.change_statements(clickhouse.config, Use.ADD, name)
            raise preflight.ADD_NOT_GRANTED(**said, grant=grant) from refused
        raise preflight.COLUMNS_NOT_ADDED(**said) from refused
