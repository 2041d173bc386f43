"""``chsink mirror coordinator``: the process of a coordinator apart, which needs neither Spark nor ClickHouse.

It does at its start what a driver of the mirror does.  When a topic that waited, or that a pattern matches since, has
its first record, it starts again by itself.
"""

from __future__ import annotations

from functools import partial
from time import monotonic

import structlog

from chsink.checks import check_mirror
from chsink.clock import SystemClock
from chsink.config import Config
from chsink.errors import UnavailableError, services
from chsink.kafka.admin import KafkaAdmin, open_admin
from chsink.mirror.apart import CoordinatorApart
from chsink.mirror.opening import OpenMirror, open_mirror
from chsink.mirror.status import status_if_known
from chsink.mirror.topic import ensure_control_topic
from chsink.observe.logs import logger
from chsink.observe.metrics import MirrorMetrics
from chsink.observe.probes import Probes
from chsink.observe.serve import served
from chsink.stop import StopSignals, await_end
from chsink.tables.create import begun
from chsink.tables.iceberg import create_missing_iceberg

POLL_S = 1.0
LOOK_S = 5.0
"""Seconds between two looks for topics that have begun."""
LAST_COMMIT_S = 10.0


def run(config: Config) -> None:
    """Coordinate until SIGTERM or SIGINT; with ``available_now``, until all that was handed over is committed.

    Raises the ChsinkError that ended it.
    """
    log, metrics, observe, probes = logger(config.sink.name), MirrorMetrics(config.sink.name), config.observe, Probes()
    with (
        served(metrics.registry, probes, observe.metrics_host, observe.metrics_port, log),
        StopSignals() as stop,
    ):
        while _CoordinatorRun(config, stop, log, metrics, probes).run():
            probes.starting()
    log.info("the coordinator stopped", signal=stop.received or None)


class _CoordinatorRun:
    """One start."""

    def __init__(
        self,
        config: Config,
        stop: StopSignals,
        log: structlog.typing.FilteringBoundLogger,
        metrics: MirrorMetrics,
        probes: Probes,
    ) -> None:
        self._config, self._stop, self._log, self._metrics, self._probes = config, stop, log, metrics, probes
        self._kafka: KafkaAdmin = open_admin(config)
        self._mirror: OpenMirror = create_missing_iceberg(open_mirror(config, self._kafka), self._kafka, log)
        check_mirror(self._mirror, log)
        ensure_control_topic(self._mirror.names)
        self._looked = monotonic()

    def run(self) -> bool:
        """To its end; returns whether to start again.  Raises the ChsinkError that ended it."""
        coordination = CoordinatorApart(self._mirror, SystemClock(), self._log, after_round=self._measure)
        running = self._metrics.running.labels(self._metrics.sink)
        try:
            coordination.start()
            coordination.begin()
            running.set(1)
            begun = self._coordinate(coordination)
            self._end(coordination, begun)
        finally:
            running.set(0)
            coordination.finish(0)
            if coordination.join(POLL_S):
                coordination.close()
        return begun

    def _coordinate(self, coordination: CoordinatorApart) -> bool:
        """Until it fails, a signal, or a topic has begun: returns whether one has."""
        while not coordination.join(POLL_S):
            self._probes.looked()
            if self._stop.received or self._config.trigger.mode == "available_now":
                break
            if self._has_begun():
                return True
        return False

    def _end(self, coordination: CoordinatorApart, begun: bool) -> None:
        """Commit the rest, and raise what went wrong."""
        if coordination.failure is not None:
            self._probes.ended(coordination.failure)
        elif not begun:
            self._probes.ending()
        in_time = begun or coordination.failure is not None or bool(self._stop.received)
        coordination.finish(LAST_COMMIT_S if in_time else None)
        ask = partial(coordination.finish, LAST_COMMIT_S)
        ended = await_end(coordination.join, self._stop, ask, asked=in_time)
        if coordination.failure is not None:
            raise coordination.failure
        if not ended:
            raise services.MIRROR_NOT_COORDINATED(reason="it did not stop; a service may not answer")

    def _has_begun(self) -> bool:
        """Whether a topic of the routes that this start does not know has a record."""
        if monotonic() - self._looked < LOOK_S:
            return False
        self._looked = monotonic()
        try:
            routed = self._config.with_mirrored(self._kafka.topics).mirror.topics
            new = set(routed).difference(self._mirror.config.mirror.topics)
            topics = sorted(begun(self._config, self._kafka, new))
        except UnavailableError as error:
            self._log.debug("it is not known which topics there are", reason=error.message)
            return False
        if topics:
            self._log.info("starting again", topics=topics, because="their first records came")
        return bool(topics)

    def _measure(self) -> None:
        """After a round, in the coordinator's thread.  Without a port for metrics, nobody is asked."""
        if self._config.observe.metrics_port is None:
            return
        if found := status_if_known(self._mirror, SystemClock().now_ms(), self._log):
            self._metrics.show(found.epoch, found.measures())
