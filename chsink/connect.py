"""The services of one configuration, opened for a command or a job and closed together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property

import structlog

from chsink.clickhouse.cluster import Cluster
from chsink.clock import SystemClock
from chsink.config import Config
from chsink.kafka.admin import KafkaAdmin, open_admin
from chsink.observe.logs import logger
from chsink.ports import Clock, StateStore
from chsink.state import ClickHouseAccess, open_store


@dataclass(frozen=True)
class Services:
    """What a sink talks to.  The store is opened at first use; Kafka and ClickHouse connect by themselves."""

    config: Config
    clock: Clock
    log: structlog.typing.FilteringBoundLogger
    kafka: KafkaAdmin
    clickhouse: Cluster
    _closing: ExitStack

    @cached_property
    def store(self) -> StateStore:
        """The configured state store.  The memory store says what it cannot do."""
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
    """The services of the configuration, until the block ends."""
    clock, log = SystemClock(), logger(config.sink.name)
    with ExitStack() as closing:
        cluster = Cluster(config, clock)
        closing.callback(cluster.close)
        yield Services(config, clock, log, open_admin(config), cluster, closing)
