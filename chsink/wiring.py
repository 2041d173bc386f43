"""Joins the adapters to the delivery protocol, for the Spark job and the command line alike.

The only module that knows the configuration and all adapters.  Nothing is connected before it is asked for.
"""

from __future__ import annotations

import os
import re
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import structlog

from chsink.clickhouse.client import ClickHouseClient, Endpoint
from chsink.clickhouse.identifiers import TableName, quote_identifier
from chsink.clickhouse.preflight import Target, check_targets
from chsink.clickhouse.table import METADATA_COLUMNS, TableColumn, TargetTable, describe
from chsink.clickhouse.window import DedupWindow
from chsink.config import Config, Route
from chsink.decode.columns import Column
from chsink.delivery.driver import Driver, Observer
from chsink.delivery.driver import Route as DeliveryRoute
from chsink.delivery.ledger import Ledger
from chsink.delivery.model import Assignment
from chsink.delivery.pipeline import Pipeline
from chsink.errors import PreflightError
from chsink.kafka import KafkaAdmin
from chsink.ports import Clock, StateStore
from chsink.sharding import Layout, NullKey, Shard
from chsink.state.keepermap import KeeperMapStore
from chsink.state.memory import MemoryStore
from statemachine.plan import Policy
from statemachine.ranges import OffsetRange, TopicPartition

if TYPE_CHECKING:
    from chsink.spark.executor import ExecutorTask

KAFKA_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
PASSED_THROUGH = frozenset(KAFKA_COLUMNS) - {"value"}


@dataclass(frozen=True, slots=True)
class Wired:
    """A driver ready to claim, and what its tasks need."""

    driver: Driver
    pipelines: Mapping[str, Pipeline]
    layouts: Mapping[str, str]
    make_task: Callable[[Sequence[Assignment], Mapping[TopicPartition, OffsetRange]], ExecutorTask]


class Wiring:
    """Adapters of one configuration, made on first use and closed together."""

    def __init__(self, config: Config, clock: Clock, log: structlog.typing.FilteringBoundLogger) -> None:
        self.config = config
        self.clock = clock
        self.log = log
        self._closing: list[Callable[[], None]] = []

    # --- adapters -------------------------------------------------------------------------------------------------

    @cached_property
    def access(self) -> Endpoint:
        """Connection settings of the first shard; other shards differ in their URLs only."""
        ch = self.config.clickhouse
        return Endpoint(
            urls=ch.endpoints[0].urls,
            user=ch.user,
            password=ch.password.get_secret_value(),
            ca_file=ch.tls.ca_file,
            cert_file=ch.tls.cert_file,
            key_file=ch.tls.key_file,
            verify=ch.tls.verify,
            compression=ch.compression,
            connect_timeout_s=ch.connect_timeout_s,
            send_receive_timeout_s=ch.insert_timeout_s,
        )

    @cached_property
    def clients(self) -> tuple[ClickHouseClient, ...]:
        """One client per shard."""
        return tuple(self.client(e.urls) for e in self.config.clickhouse.endpoints)

    def client(self, urls: Sequence[str]) -> ClickHouseClient:
        """A client of these replicas."""
        client = ClickHouseClient(replace(self.access, urls=tuple(urls)))
        self._closing.append(client.close)
        return client

    @cached_property
    def store(self) -> StateStore:
        """The configured state store.  The memory store says what it cannot do."""
        store = self._open_store()
        if not store.durable:
            self.log.warning(
                "state is kept in memory only: after a crash or restart records may be doubled or lost",
                store=store.name,
            )
        self._closing.append(store.close)
        return store

    def _open_store(self) -> StateStore:
        state = self.config.state
        match state.store:
            case "zookeeper":
                from chsink.state.zookeeper import ZooKeeperStore

                assert state.zookeeper is not None
                return ZooKeeperStore(state.zookeeper, root=state.path, timeout_s=state.timeout_s)
            case "memory":
                return MemoryStore()
            case _:
                name = self.config.state_table
                table = TableName(name.database, name.table)
                client = self.client((state.endpoint,) if state.endpoint else self.config.clickhouse.endpoints[0].urls)
                store = KeeperMapStore(client, table, path=state.path, timeout_s=state.timeout_s)
                store.prepare(create=state.create_table)
                return store

    @cached_property
    def kafka(self) -> KafkaAdmin:
        """Kafka's metadata."""
        kafka = self.config.kafka
        return KafkaAdmin(kafka.client_options(), isolation_level=kafka.isolation_level)

    @cached_property
    def targets(self) -> dict[str, Target]:
        """By topic: the routed table as each shard describes it."""
        return {r.topic: self._target(r) for r in self.config.routes}

    def close(self) -> None:
        """Release every connection that was made."""
        while self._closing:
            self._closing.pop()()

    # --- the driver -----------------------------------------------------------------------------------------------

    def driver(self, columns: tuple[str, ...], transform: str, observer: Observer) -> Wired:
        """Check the targets and put the driver together for a stream of these columns.

        Raises PreflightError for the first thing that is wrong.
        """
        check_targets(self.targets.values())
        pipelines = {t: self._pipeline(target, columns, transform) for t, target in self.targets.items()}
        layouts = {r.topic: self._layout(r) for r in self.config.routes}
        routes = {
            r.topic: DeliveryRoute(
                r.topic,
                self.targets[r.topic].name,
                self.config.clickhouse.chunk_offsets,
                layouts[r.topic].fingerprint(),
                pipelines[r.topic].fingerprint(),
            )
            for r in self.config.routes
        }
        ledger = Ledger(
            self.store,
            self.config.sink.name,
            driver_name(),
            self.clock,
            lambda: uuid.uuid4().hex,
            int(self.config.state.timeout_s * 1000),
        )
        driver = Driver(
            ledger,
            routes,
            self.kafka,
            self.window,
            self.clock,
            Policy(on_gap=self.config.errors.on_gap, on_rewind=self.config.errors.on_rewind),
            observer,
            lambda topic: routes[topic].pipeline,
        )
        by_fingerprint = {layout.fingerprint(): layout.to_json() for layout in layouts.values()}
        return Wired(driver, pipelines, by_fingerprint, self._task_maker(pipelines))

    @cached_property
    def window(self) -> DedupWindow:
        """What the target tables remember."""
        tables: dict[str, tuple[TargetTable, ...]] = {t.name: t.tables for t in self.targets.values()}
        doubt = self.config.in_doubt
        return DedupWindow(self.clients, tables, self.clock, doubt.max_age_s, doubt.margin_s, say=self.log.warning)

    def _task_maker(
        self, pipelines: Mapping[str, Pipeline]
    ) -> Callable[[Sequence[Assignment], Mapping[TopicPartition, OffsetRange]], ExecutorTask]:
        from chsink.spark.executor import ExecutorTask

        ch, errors = self.config.clickhouse, self.config.errors

        def make(assignments: Sequence[Assignment], planned: Mapping[TopicPartition, OffsetRange]) -> ExecutorTask:
            return ExecutorTask(
                {a.key.topic_partition: a for a in assignments},
                dict(planned),
                dict(pipelines),
                self.access,
                dict(ch.settings),
                ch.retry_for_s,
                errors.on_bad_value == "halt",
                ch.max_chunk_bytes,
            )

        return make

    def _target(self, route: Route) -> Target:
        name = self.config.table_of(route)
        tables = tuple(describe(c, name.database, name.table) for c in self.clients)
        urls = tuple(c.url for c in self.clients)
        return Target(
            route.topic,
            _plain_or_quoted(name.database, name.table),
            urls,
            tables,
            tuple(self.config.shard_key_of(route)),
        )

    def _layout(self, route: Route) -> Layout:
        shards = tuple(Shard(e.urls, e.weight, e.name) for e in self.config.clickhouse.endpoints)
        if len(shards) == 1:
            return Layout(shards)
        null_key: NullKey = "first" if self.config.errors.null_shard_key == "first_shard" else "dead_letter"
        key = tuple(self.config.shard_key_of(route))
        return Layout(shards, self.config.clickhouse.hash_function, key, null_key)

    def _pipeline(self, target: Target, columns: tuple[str, ...], transform: str) -> Pipeline:
        """JSON when the stream still has Kafka's ``value``; else the stream's own columns."""
        table = target.tables[0]
        names = {c.name for c in table.insertable}
        bare = not transform
        as_json = "value" in columns and (bare or "value" not in names)
        metadata = tuple(_column(c) for c in table.insertable if c.name in METADATA_COLUMNS)
        payload = tuple(
            _column(c) for c in table.insertable if c.name not in METADATA_COLUMNS and (as_json or c.name in columns)
        )
        if not as_json:
            _check_columns(target, columns, names)
        uuids = ",".join(t.uuid for t in target.tables)
        origin = (uuids, transform, self.config.kafka.isolation_level)
        return Pipeline("json" if as_json else "columns", payload, metadata, table.timezone, origin)


def _plain_or_quoted(database: str, table: str) -> str:
    """The table's one name in state rows, statements and messages: quoted only where it has to be."""
    plain = all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", part) for part in (database, table))
    return f"{database}.{table}" if plain else f"{quote_identifier(database)}.{quote_identifier(table)}"


def _check_columns(target: Target, columns: tuple[str, ...], names: set[str]) -> None:
    unknown = [c for c in columns if c not in names and c not in PASSED_THROUGH]
    if unknown:
        raise PreflightError(
            "CHS-212",
            f"table {target.name} has no column {', '.join(unknown)}, which the stream has",
            "rename or drop the column in the transform, or add it to the table",
        )
    required = [
        c.name
        for c in target.tables[0].insertable
        if c.name not in columns and c.name not in METADATA_COLUMNS and not c.default_kind and "Nullable(" not in c.type
    ]
    if required:
        raise PreflightError(
            "CHS-213",
            f"the stream has no column {', '.join(required)}, which table {target.name} requires",
            "add it in the transform, or give the table's column a DEFAULT",
        )


def _column(column: TableColumn) -> Column:
    return Column(column.name, column.type, column.default_kind, column.default_expression)


def driver_name() -> str:
    """How other drivers' errors name this one."""
    return f"{socket.gethostname()} pid {os.getpid()} {uuid.uuid4().hex[:6]}"
