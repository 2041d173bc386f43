"""The columns of a new Iceberg table as those of a ClickHouse table (``create.columns = "clickhouse"``).

Rules:
- The topics of the Iceberg table land in one ClickHouse table; with ``table_by``, the same records do.
- The ClickHouse side of the same job may still be creating it.
- Columns that ClickHouse computes, and those for Kafka's own fields, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from time import monotonic, sleep
from typing import Final

from chsink.clickhouse.client import ClickHouseClient
from chsink.clickhouse.connections import Connections
from chsink.clickhouse.table import read_columns
from chsink.config import Config, Route
from chsink.decode.columns import Column
from chsink.errors import preflight
from chsink.formats.table_by import Choice
from chsink.mirror.clickhouse_types import type_of_column
from chsink.mirror.nested_types import NewColumns
from chsink.notation.metadata_columns import METADATA_COLUMNS, is_column_name
from chsink.refusals import asking_target

CREATED_S: Final = 30.0
"""How long a table may take that the same job creates."""
_POLL_S: Final = 0.5


def clickhouse_columns(config: Config, table: str, own: NewColumns) -> NewColumns:
    """The columns for this Iceberg table; those of its ``own`` have the types that the job file names.

    Raises PreflightError CHS-284 if there is no such ClickHouse table, or a column has no Iceberg type, and
    UnavailableError.
    """
    config = config.expanded({route.topic for route in config.mirror.routes_to(table)})
    route = _route(config, table)
    source = config.table_of(route).canonical
    with closing(Connections(config)) as connections, asking_target():
        client = connections.client(config.clickhouse.endpoints[0].urls)
        columns = _columns(config, client, route)
        [(timezone,)] = client.query("SELECT timezone()")
    if not columns:
        raise preflight.MIRROR_NO_CLICKHOUSE_TABLE(table=table, reason=f"{source} does not exist")
    mine = [column for column in columns if column.insertable and column.name not in METADATA_COLUMNS]
    types = {c.name: type_of_column(c.type, str(timezone)) if is_column_name(c.name) else None for c in mine} | own
    if lost := [f"{c.name} {c.type}" for c in mine if types[c.name] is None]:
        raise preflight.MIRROR_NO_ICEBERG_TYPES(table=table, source=source, columns=", ".join(lost))
    return {name: kind for name, kind in types.items() if kind is not None}


def _columns(config: Config, client: ClickHouseClient, route: Route) -> tuple[Column, ...]:
    database = config.databases_of(route)[0] or config.table_of(route).database
    until = monotonic() + (CREATED_S if config.creates(route) else 0.0)
    while not (found := read_columns(client, database, route.table_name.table)) and monotonic() < until:
        sleep(_POLL_S)
    return found


def _route(config: Config, table: str) -> Route:
    """A route to the ClickHouse table that gets the same records."""
    found: dict[str, Route] = {}
    for mine in config.mirror.routes_to(table):
        same = list(_same(config, mine.topic, mine.choice))
        if not same:
            reason = f"no [[route]] lands the same records of the topic {mine.topic}"
            raise preflight.MIRROR_NO_CLICKHOUSE_TABLE(table=table, reason=reason)
        found |= {config.table_of(route).canonical: route for route in same}
    if len(found) > 1:
        reason = f"its topics land in several: {', '.join(sorted(found))}"
        raise preflight.MIRROR_NO_CLICKHOUSE_TABLE(table=table, reason=reason)
    return next(iter(found.values()))


def _same(config: Config, topic: str, choice: Choice | None) -> Iterator[Route]:
    for route in config.routes:
        if route.topic == topic and _records(route.choice) == _records(choice):
            yield route


def _records(choice: Choice | None) -> Choice | None:
    """Which records it is about: not who reports those that no table takes, nor how they are read."""
    if choice is None:
        return None
    values, patterns, named = (tuple(sorted(each)) for each in (choice.values, choice.patterns, choice.named))
    apart = named if patterns else ()
    return replace(choice, values=values, patterns=patterns, named=apart, known=None, known_patterns=(), header=0)
