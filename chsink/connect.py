"""The services of one configuration, opened for a command or a job and closed together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

import structlog

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.connections import Connections
from chsink.clock import SystemClock
from chsink.config import Config
from chsink.driver.ledger import read_records
from chsink.errors import ChsinkError, PreflightError, UnavailableError
from chsink.kafka.admin import KafkaAdmin, open_admin
from chsink.observe.logs import logger
from chsink.ports import Clock, StateStore
from chsink.state import ClickHouseAccess, open_store


@dataclass
class Services:
    """The services that a sink uses.  The state store opens on first use; the clients of Kafka and ClickHouse connect
    when needed.
    """

    clock: Clock
    log: structlog.typing.FilteringBoundLogger
    kafka: KafkaAdmin
    clickhouse: Cluster
    _open_store: Callable[[], StateStore]

    @property
    def config(self) -> Config:
        """The configuration, with a route for each topic that :meth:`take_up_topics` found."""
        return self.clickhouse.config

    @cached_property
    def store(self) -> StateStore:
        """The configured state store."""
        return self._open_store()

    def take_up_topics(self) -> None:
        """Add a route for each topic that matches a pattern now, and let tables be described again: they may have
        changed.

        Raises InvalidConfigError if the routes contradict each other, UnavailableError if Kafka does not answer.
        """
        self.take_up(self.config.expanded(self.kafka.topics() if self.config.topic_pattern else ()))

    def take_up_known_topics(self) -> None:
        """As :meth:`take_up_topics`; if Kafka does not answer, use the topics in the state store, if it can be read."""
        try:
            self.take_up_topics()
        except (UnavailableError, PreflightError):  # or Kafka refuses this user
            topics: set[str] = set()
            with suppress(ChsinkError):
                topics = {key.topic for key in read_records(self.store, self.config.sink.name)}
            self.take_up(self.config.expanded(topics))

    def take_up(self, config: Config) -> None:
        """Use a configuration that differs in its routes only."""
        self.clickhouse = self.clickhouse.anew(config)


@contextmanager
def connected(config: Config) -> Iterator[Services]:
    """The services of the configuration, closed when the block ends.  Topics that match patterns have their routes, as
    far as Kafka or the state store answers.
    """
    clock, log = SystemClock(), logger(config.sink.name)
    with ExitStack() as stack:
        connections = stack.enter_context(closing(Connections(config)))

        def state_store() -> StateStore:
            first, database = config.clickhouse.endpoints[0].urls, config.clickhouse.database
            access = ClickHouseAccess(lambda url: connections.client((url,) if url else first), database)
            store = stack.enter_context(closing(open_store(config.state, access)))
            if not store.durable:
                log.warning(
                    "state is kept in memory only: after a crash or restart records may be lost or duplicated",
                    store=store.name,
                )
            return store

        services = Services(clock, log, open_admin(config), Cluster(config, clock, connections), state_store)
        if config.topic_pattern:
            services.take_up_known_topics()
        yield services
