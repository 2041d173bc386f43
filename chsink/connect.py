"""The services of one configuration, opened for a command or a job and closed together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

import structlog

from chsink.batch.ledger import read_records
from chsink.clickhouse.cluster import Cluster
from chsink.clock import SystemClock
from chsink.config import Config
from chsink.errors import ChsinkError, UnavailableError
from chsink.kafka.admin import KafkaAdmin, open_admin
from chsink.observe.logs import logger
from chsink.ports import Clock, StateStore
from chsink.state import ClickHouseAccess, open_store


@dataclass(frozen=True)
class Services:
    """The services that a sink uses.  The state store opens on first use; the clients of Kafka and ClickHouse connect
    when needed.
    """

    clock: Clock
    log: structlog.typing.FilteringBoundLogger
    kafka: KafkaAdmin
    clickhouse: Cluster
    _closing: ExitStack

    @property
    def config(self) -> Config:
        """The configuration, with a route for each topic that :meth:`take_up_topics` found."""
        return self.clickhouse.config

    def take_up_topics(self) -> None:
        """Add a route for each topic that matches a pattern now, and forget the cached tables: they may have changed.

        Raises InvalidConfigError if the routes contradict each other, UnavailableError if Kafka does not answer.
        """
        self.clickhouse.refresh(self.config.expanded(self.kafka.topics() if self.config.topic_pattern else ()))

    def take_up_known_topics(self) -> None:
        """As :meth:`take_up_topics`; if Kafka does not answer, use the topics in the state store, if it can be read."""
        try:
            self.take_up_topics()
        except UnavailableError:
            topics: set[str] = set()
            with suppress(ChsinkError):
                topics = {key.topic for key in read_records(self.store, self.config.sink.name)}
            self.clickhouse.refresh(self.config.expanded(topics))

    @cached_property
    def store(self) -> StateStore:
        """The configured state store.  Logs a warning for the memory store, which does not survive a restart."""
        ch = self.config.clickhouse
        access = ClickHouseAccess(
            lambda url: self.clickhouse.client((url,) if url else ch.endpoints[0].urls), ch.database
        )
        store = open_store(self.config.state, access)
        self._closing.callback(store.close)
        if not store.durable:
            self.log.warning(
                "state is kept in memory only: after a crash or restart records may be lost or duplicated",
                store=store.name,
            )
        return store


@contextmanager
def connected(config: Config) -> Iterator[Services]:
    """The services of the configuration, closed when the block ends.  Topics that match patterns have their routes, as
    far as Kafka or the state store answers.
    """
    clock, log = SystemClock(), logger(config.sink.name)
    with ExitStack() as closing:
        cluster = Cluster(config, clock)
        closing.callback(cluster.close)
        services = Services(clock, log, open_admin(config), cluster, closing)
        if config.topic_pattern:
            services.take_up_known_topics()
        yield services
