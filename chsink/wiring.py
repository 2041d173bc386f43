"""Joins the adapters to the delivery protocol, for the Spark job and the command line alike.

The only module that knows the configuration and all adapters.  Nothing is connected before it is asked for.
"""

from __future__ import annotations

import math
import os
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

import structlog

from chsink.batch.driver import Driver
from chsink.batch.driver import Route as DeliveryRoute
from chsink.batch.halts import asking_target
from chsink.batch.ledger import Ledger
from chsink.batch.model import Assignment
from chsink.batch.pipeline import Pipeline
from chsink.batch.roles import Observer
from chsink.clickhouse.client import ClickHouseClient, Endpoint
from chsink.clickhouse.identifiers import plain_or_quoted, quote_string
from chsink.clickhouse.patience import PatientQueries
from chsink.clickhouse.preflight import Target
from chsink.clickhouse.table import describe
from chsink.clickhouse.window import DedupWindow, Member
from chsink.clickhouse.writer import PINNED_WHERE_KNOWN
from chsink.config import Config, Route
from chsink.kafka import KafkaAdmin
from chsink.pipelines import StreamShape, build_pipeline, fingerprint, reads_json
from chsink.ports import Clock, Queries, StateStore
from chsink.sharding import Layout, Shard
from chsink.state import ClickHouseAccess, open_store
from statemachine.ranges import OffsetRange, TopicPartition
from statemachine.table import Policy

if TYPE_CHECKING:
    from chsink.spark.executor import ExecutorTask


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
        ch = self.config.clickhouse
        access = ClickHouseAccess(lambda url: self.client((url,) if url else ch.endpoints[0].urls), ch.database)
        store = open_store(self.config.state, access)
        self._closing.append(store.close)
        if not store.durable:
            self.log.warning(
                "state is kept in memory only: after a crash or restart records may be doubled or lost",
                store=store.name,
            )
        return store

    @cached_property
    def kafka(self) -> KafkaAdmin:
        """Kafka's metadata."""
        return KafkaAdmin(self.config.kafka.client_options(), timeout_s=self.config.kafka.timeout_s)

    @cached_property
    def targets(self) -> dict[str, Target]:
        """By topic: the routed table as each shard describes it."""
        return {r.topic: self.target(r) for r in self.config.routes}

    def close(self) -> None:
        """Release every connection that was made."""
        while self._closing:
            self._closing.pop()()

    # --- the driver -----------------------------------------------------------------------------------------------

    def driver(self, stream: StreamShape, observer: Observer) -> Wired:
        """Run the checks of a start and put the driver together for a stream.

        Raises ChsinkError for the first thing that is wrong.
        """
        from chsink.doctor.examine import start

        vars(self).pop("targets", None)  # tables may have been altered since they were looked at
        start(self, {topic: stream.columns for topic, t in self.targets.items() if not reads_json(t, stream)})
        ledger = Ledger(
            self.store,
            self.config.sink.name,
            driver_name(),
            self.clock,
            lambda: uuid.uuid4().hex,
            int(self.config.state.timeout_s * 1000),
        )
        window = self.window(lambda name: ledger.owner.layout(name))  # noqa: PLW0108 - there is no owner yet
        pipelines = {topic: self.pipeline(topic, stream) for topic in self.targets}
        layouts = {r.topic: self.layout(r) for r in self.config.routes}

        def pipeline_of(topic: str, layout: str) -> str:
            return fingerprint(pipelines[topic], [m.table for m in window.members(self.targets[topic].name, layout)])

        routes = {
            r.topic: DeliveryRoute(
                r.topic,
                self.targets[r.topic].name,
                self.config.clickhouse.chunk_offsets,
                layouts[r.topic].fingerprint(),
                pipeline_of(r.topic, layouts[r.topic].fingerprint()),
            )
            for r in self.config.routes
        }
        driver = Driver(
            ledger,
            routes,
            self.kafka,
            window,
            self.clock,
            Policy(on_gap=self.config.errors.on_gap, on_rewind=self.config.errors.on_rewind),
            observer,
            pipeline_of,
        )
        by_fingerprint = {layout.fingerprint(): layout.to_json() for layout in layouts.values()}
        return Wired(driver, pipelines, by_fingerprint, self._task_maker(pipelines, window))

    def window(self, stored_layout: Callable[[str], str | None]) -> DedupWindow:
        """What the target tables remember, on the present shards and on those of layouts that records still name.

        ``stored_layout`` gives a layout by its fingerprint (``Owner.layout``).
        """
        present = {self.layout(route).fingerprint() for route in self.config.routes}
        by_name = {target.name: target for target in self.targets.values()}

        @cache
        def members(table: str, layout: str | None) -> tuple[Member, ...]:
            target = by_name[table]
            if layout is None or layout in present:
                return tuple(Member(patient(c), t) for c, t in zip(self.clients, target.tables, strict=True))
            recorded = stored_layout(layout)
            shards = Layout.from_json(recorded).shards if recorded else ()
            clients = [patient(self.client(shard.replicas)) for shard in shards]
            first = target.tables[0]
            return tuple(Member(c, describe(c, first.database, first.name)) for c in clients)

        def patient(client: Queries) -> Queries:
            return PatientQueries(client, self.clock, self.config.clickhouse.retry_for_s)

        doubt = self.config.in_doubt
        insert_s = math.ceil(self.config.clickhouse.insert_timeout_s)
        return DedupWindow(members, self.clock, doubt.max_age_s, doubt.margin_s, insert_s, say=self.log.warning)

    def _task_maker(
        self, pipelines: Mapping[str, Pipeline], window: DedupWindow
    ) -> Callable[[Sequence[Assignment], Mapping[TopicPartition, OffsetRange]], ExecutorTask]:
        from chsink.spark.executor import ExecutorTask

        ch, errors = self.config.clickhouse, self.config.errors
        settings = {**ch.settings, **self._pinned_where_known()}

        def make(assignments: Sequence[Assignment], planned: Mapping[TopicPartition, OffsetRange]) -> ExecutorTask:
            return ExecutorTask(
                {a.key.topic_partition: a for a in assignments},
                dict(planned),
                dict(pipelines),
                {
                    a.key.topic_partition: tuple(m.table for m in window.members(a.key.table, a.record.layout))
                    for a in assignments
                },
                self.access,
                settings,
                ch.retry_for_s,
                errors.on_bad_value == "halt",
                ch.max_chunk_bytes,
            )

        return make

    def _pinned_where_known(self) -> dict[str, str | int]:
        """Settings that every shard's server knows and that an insert must pin."""
        names = ", ".join(map(quote_string, PINNED_WHERE_KNOWN))
        with asking_target():
            found = [c.query(f"SELECT name FROM system.settings WHERE name IN ({names})") for c in self.clients]
        known = set.intersection(*({str(name) for (name,) in rows} for rows in found))
        return {name: value for name, value in PINNED_WHERE_KNOWN.items() if name in known}

    def target(self, route: Route) -> Target:
        """The route's table, as each shard describes it now."""
        name = self.config.table_of(route)
        assert name.database is not None
        with asking_target():
            tables = tuple(describe(c, name.database, name.table) for c in self.clients)
        urls = tuple(c.url for c in self.clients)
        return Target(
            route.topic,
            plain_or_quoted(name.database, name.table),
            urls,
            tables,
            tuple(self.config.shard_key_of(route)),
        )

    def layout(self, route: Route) -> Layout:
        """The configured shard layout of the route."""
        shards = tuple(Shard(e.urls, e.weight, e.name) for e in self.config.clickhouse.endpoints)
        if len(shards) == 1:
            return Layout(shards)
        key = tuple(self.config.shard_key_of(route))
        return Layout(shards, self.config.clickhouse.hash_function, key, self.config.errors.null_shard_key)

    def fingerprint(self, topic: str, stream: StreamShape) -> str:
        """What an insert of the topic would carry now, under the present shard layout."""
        return fingerprint(self.pipeline(topic, stream), self.targets[topic].tables)

    def pipeline(self, topic: str, stream: StreamShape) -> Pipeline:
        """How the topic's records become rows of its table."""
        return build_pipeline(self.targets[topic], stream)


def driver_name() -> str:
    """How other drivers' errors name this one."""
    return f"{socket.gethostname()} pid {os.getpid()} {uuid.uuid4().hex[:6]}"
