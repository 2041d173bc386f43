"""The ClickHouse side of one configuration: its shards, the routed tables on them, and what those remember."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import Final

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.clickhouse.connections import Connections
from chsink.clickhouse.replicas import said_by_each
from chsink.clickhouse.retry import RetryingQueries
from chsink.clickhouse.shards import RoutedTable, ShardTable
from chsink.clickhouse.table import (
    TargetTable,
    in_keeper,
    read_settings,
    read_table,
    read_tables,
    remembering_least,
)
from chsink.clickhouse.window import DedupWindow
from chsink.clickhouse.writer import PINNED_WHERE_KNOWN
from chsink.config import Config, Route
from chsink.errors import ChsinkError, preflight
from chsink.notation.sql import TableName, parse_table, quote_string
from chsink.ports import Clock, Replicas
from chsink.refusals import asking_target
from chsink.sharding import Layout, Shard
from chsink.statemachine.records import StateKey, TopicTable

Described = Mapping[TableName, TargetTable]
WHOLE_TABLE_S: Final = 3_600.0
"""How long a statement may take that reads a whole table."""


class Cluster:
    """Shards, targets and layouts of one configuration.  A table stays as it was described at first use;
    :meth:`anew` makes a cluster that asks again.
    """

    def __init__(self, config: Config, clock: Clock, connections: Connections) -> None:
        self.config = config
        self.clock = clock
        self._connections = connections
        self._described: dict[tuple[str, tuple[str, ...]], RoutedTable] = {}
        self._tables: dict[ClickHouseClient, Described] = {}
        self._away: set[str] = set()
        self._silent: dict[str, int] = {}

    def anew(self, config: Config) -> Cluster:
        """The same servers, whose tables may have been altered.  ``config`` differs in its routes only."""
        return Cluster(config, self.clock, self._connections)

    @property
    def access(self) -> Connection:
        """Connection settings of the first shard; other shards differ in their URLs only."""
        return self._connections.access

    @cached_property
    def clients(self) -> tuple[ClickHouseClient, ...]:
        """One client per configured shard."""
        return tuple(self.client(e.urls) for e in self.config.clickhouse.endpoints)

    @cached_property
    def patient_clients(self) -> tuple[ClickHouseClient, ...]:
        """The same for statements that read whole tables."""
        return tuple(self.client(e.urls, WHOLE_TABLE_S) for e in self.config.clickhouse.endpoints)

    def client(self, urls: Sequence[str], answer_within_s: float | None = None) -> ClickHouseClient:
        """See :class:`chsink.clickhouse.connections.Connections`."""
        return self._connections.client(urls, answer_within_s)

    def servers(self, shards: Iterable[ShardTable]) -> list[ClickHouseClient]:
        """Every replica that is listed: each of them may still be busy with an insert whose sender is gone."""
        return [self.client((url,)) for shard in shards for url in shard.replicas or (shard.url,)]

    def every_server(self, layout: str | None) -> list[ClickHouseClient]:
        """Every replica of the configured shards, and of those of a stored layout (its JSON)."""
        return [self.client((url,)) for url in sorted(self._urls(layout))]

    def former_servers(self, layout: str | None) -> list[ClickHouseClient]:
        """Replicas in a stored layout that its shards no longer have.  They may be gone, or be busy with an insert."""
        shards = Layout.from_json(layout).shards if layout else ()
        urls = {url for shard in shards for url in (*shard.replicas, *shard.former)}
        return [self.client((url,)) for url in sorted(urls - self._urls(layout))]

    def _urls(self, layout: str | None) -> set[str]:
        present = {url for endpoint in self.config.clickhouse.endpoints for url in endpoint.urls}
        return present | (_urls_of(self.placed(layout)) if layout else set())

    # --- tables -----------------------------------------------------------------------------------------------------

    @cached_property
    def targets(self) -> dict[TopicTable, RoutedTable]:
        """By topic and table: the routed table, as :meth:`described`."""
        return {leads: self.described(route) for leads, route in self.routes.items()}

    @cached_property
    def routes(self) -> dict[TopicTable, Route]:
        """The routes by topic and table, as state records name them."""
        return {(r.topic, self.config.table_of(r).canonical): r for r in self.config.routes}

    @cached_property
    def letters(self) -> ShardTable | None:
        """The table of dead letters as the first endpoint described it, None where no record becomes one there."""
        name = self.config.dead_letters_table
        if name is None or not self.config.keeps_dead_letters:
            return None
        return self.on_first_endpoint(name)

    def on_first_endpoint(self, name: TableName) -> ShardTable:
        """The table of dead letters, as the first endpoint describes it now."""
        try:
            with asking_target():
                table = self._read_now(self.clients[0], name.database, name.table)
        except ChsinkError as error:
            if error.name != preflight.NO_TABLE.name:
                raise
            raise preflight.NO_TABLE_OF_LETTERS(table=name.canonical, url=error.params["url"]) from error
        return ShardTable(self.clients[0], table, self.config.clickhouse.endpoints[0].urls)

    def described(self, route: Route) -> RoutedTable:
        """The route's table, as each shard described it at first use.  Topics may share a table and its description."""
        name, databases = self.config.table_of(route).canonical, self.config.databases_of(route)
        known = self._described.get((name, databases))
        if known is None:
            known = self._described[name, databases] = self._target(route, self._read)
        return replace(known, topic=route.topic, shard_key=tuple(self.config.shard_key_of(route)))

    def target(self, route: Route) -> RoutedTable:
        """The route's table, as each shard describes it now."""
        return self._target(route, self._read_now)

    def _read_now(self, client: Replicas, database: str, name: str) -> TargetTable:
        table = read_table(client, database, name)
        return self._remembering(client, {table.at: table})[table.at]

    def _remembering(self, client: Replicas, tables: Described) -> Described:
        """The tables with the least that any replica remembers, of those that answer.  Nobody waits twice for one that
        does not; if it answers the checks of a start, and remembers less, they refuse it.
        """
        kept = {each.at: each for table in tables.values() for each in table.with_fed if in_keeper(each.engine)}
        if kept:
            for theirs in said_by_each(client, self._away, lambda replica: read_settings(replica, kept.values())):
                tables = {at: remembering_least(table, theirs) for at, table in tables.items()}
        return tables

    def _read(self, client: ClickHouseClient, database: str, name: str) -> TargetTable:
        """The table, read together with all others of the server: hundreds of routes cost a few queries."""
        if client not in self._tables:
            places = [zip(self.clients, self._places(route), strict=True) for route in self.config.routes]
            wanted = {place for of_route in places for at, place in of_route if at is client}
            self._tables[client] = self._remembering(client, read_tables(client, wanted))
        found = self._tables[client].get(TableName(database, name))
        return self._read_now(client, database, name) if found is None else found

    def _target(self, route: Route, read: Callable[[ClickHouseClient, str, str], TargetTable]) -> RoutedTable:
        name, endpoints = self.config.table_of(route), self.config.clickhouse.endpoints
        try:
            with asking_target():
                shards = tuple(
                    ShardTable(client, read(client, at.database, at.table), endpoint.urls)
                    for client, endpoint, at in zip(self.clients, endpoints, self._places(route), strict=True)
                )
        except ChsinkError as error:
            if error.name != preflight.NO_TABLE.name:
                raise
            known = {**error.params, "named": name.canonical}  # an endpoint may have a database of its own
            if route.choice is not None:
                keys = ", ".join(f"{route.at}.table_by.tables.{value}" for value in route.choice.values)
                raise preflight.NO_TABLE_OF_VALUE(key=keys, topic=route.topic, **known) from error
            if route.topic in self.config.matched_topics:
                raise preflight.NO_TABLE_OF_TOPIC(topic=route.topic, **known) from error
            raise preflight.NO_TABLE(**known) from error
        return RoutedTable(route.topic, name.canonical, shards, tuple(self.config.shard_key_of(route)))

    def _places(self, route: Route) -> list[TableName]:
        """The route's table on each endpoint."""
        name = self.config.table_of(route)
        return [TableName(own or name.database, name.table) for own in self.config.databases_of(route)]

    def is_routed(self, key: StateKey) -> bool:
        """Whether a route still leads the record's topic to its table."""
        return key.topic_table in self.routes

    def layout(self, route: Route) -> Layout:
        """The configured shard layout of the route."""
        databases = self.config.databases_of(route)
        endpoints = zip(self.config.clickhouse.endpoints, databases, strict=True)
        shards = tuple(Shard(e.urls, e.weight, e.name, database) for e, database in endpoints)
        if len(shards) == 1:
            return Layout(shards)
        key = tuple(self.config.shard_key_of(route))
        return Layout(shards, self.config.clickhouse.hash_function, key, self.config.errors.null_shard_key)

    @property
    def layouts(self) -> dict[str, str]:
        """Every route's layout: fingerprint → JSON."""
        return {layout.fingerprint(): layout.to_json() for layout in map(self.layout, self.config.routes)}

    def placed(self, stored: str) -> str:
        """A stored layout (JSON), with the present URLs of its shards: replicas may have moved, or be gone."""
        present = [Shard(e.urls, name=e.name) for e in self.config.clickhouse.endpoints]
        return Layout.from_json(stored).placed(present).to_json()

    def window(self, stored_layout: Callable[[str], str | None] = lambda _: None) -> DedupWindow:
        """What the target tables remember, on the present shards and on those of layouts that records still name.

        ``stored_layout`` gives such a layout by its fingerprint; by default, none is known.
        """
        present = set(self.layouts)
        by_name = {target.name: target for target in self.targets.values()}
        patient: dict[int, Replicas] = {}
        retry_for_s = self.config.clickhouse.retry_for_s

        @cache
        def shards(table: str, layout: str | None) -> tuple[ShardTable, ...]:
            target = by_name[table]
            if layout is None or layout in present:
                return tuple(replace(s, client=retried(s.client)) for s in target.shards)
            recorded = stored_layout(layout)
            listed = Layout.from_json(self.placed(recorded)).shards if recorded else ()
            name = parse_table(table)
            clients = [(left(shard.replicas), shard) for shard in listed]
            return tuple(
                ShardTable(client, self._read_now(client, shard.database or name.database, name.table), shard.replicas)
                for client, shard in clients
            )

        @cache
        def left(replicas: tuple[str, ...]) -> Replicas:
            return retried(self.client(replicas))

        def retried(client: Replicas) -> Replicas:  # one for each client: all tables of a server are one question
            return patient.setdefault(id(client), RetryingQueries(client, self.clock, retry_for_s))

        @cache
        def lost(layout: str) -> list[bool]:
            recorded = stored_layout(layout)
            now = Layout.from_json(self.placed(recorded)).with_former(recorded).shards if recorded else ()
            return [bool(shard.former) for shard in now]

        letters = self.letters
        return replace(
            self.waiting(),
            shards=shards,
            lost=lost,
            foreign_accepted=self.config.errors.on_existing_rows == "accept",
            letters=None if letters is None else replace(letters, client=retried(letters.client)),
        )

    def waiting(self) -> DedupWindow:
        """A window that only waits for inserts: no table is asked for, as its servers may be gone."""
        insert_s = math.ceil(self.config.clickhouse.insert_timeout_s)
        return DedupWindow(lambda *_: (), self.clock, self.config.in_doubt.margin_s, insert_s, silent=self._silent)

    def insert_settings(self) -> dict[str, str | int]:
        """The configured settings of an insert, and those that every shard's server knows and that must be pinned."""
        names = ", ".join(map(quote_string, PINNED_WHERE_KNOWN))
        with asking_target():
            found = [c.query(f"SELECT name FROM system.settings WHERE name IN ({names})") for c in self.clients]
        known = set.intersection(*({str(name) for (name,) in rows} for rows in found))
        pinned = {name: value for name, value in PINNED_WHERE_KNOWN.items() if name in known}
        return {**self.config.clickhouse.settings, **pinned}


def _urls_of(layout: str) -> set[str]:
    return {url for shard in Layout.from_json(layout).shards for url in shard.replicas}
