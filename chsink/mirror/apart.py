"""A coordinator in a process of its own (``mirror.coordinator = "apart"``), and what the driver has instead of it.

Rules:
- The process has no Spark.  It reads holes from Kafka itself.
- The driver starts once such a coordinator has claimed the mirror and settled every topic-partition.  After that, it
  hands over whether the coordinator runs or not.
- A driver ends if a newer one hands over, or if one that commits by itself claimed the mirror.
- What workers of the driver hand over at the moment is not known here.  So where Kafka has deleted records that were
  not handed over, they have ``mirror.timeout_s`` to do so, before this counts as a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing
from time import monotonic, sleep

import pyarrow as pa
import structlog

from chsink.batch.model import Ack, total
from chsink.errors import ChsinkError, services
from chsink.kafka.exact import ExactReader, open_exact_reader
from chsink.mirror.commit_now import ask
from chsink.mirror.control import ControlUnanswered
from chsink.mirror.coordination import OWNER_S, Coordination
from chsink.mirror.coordinator import Coordinator
from chsink.mirror.failures import in_words
from chsink.mirror.known_tables import KnownTables
from chsink.mirror.lander import MirrorLander
from chsink.mirror.opening import OpenMirror
from chsink.mirror.owner import Claims, read_owner
from chsink.mirror.task import Feeds, Share, acknowledged
from chsink.ports import Clock
from chsink.statemachine.ranges import TopicPartition

POLL_S = 0.5
ASK_S = 5.0
"""Seconds between two requests to the coordinator to settle topic-partitions."""
START_S = 60.0
"""How long a driver waits for its coordinator."""


class CoordinatorElsewhere:
    """:class:`chsink.mirror.coordination.Coordination` of a driver whose coordinator runs apart: there is nothing to
    start, commit or wait for.
    """

    def __init__(self, mirror: OpenMirror, clock: Clock, log: structlog.typing.FilteringBoundLogger) -> None:
        self._mirror, self._log = mirror, log
        names = mirror.names
        self._claims = Claims(names, (names.driver_id, names.driver_group), clock, log, what="handing over")
        self._owners, self._group = names.offsets(names.owner_group), names.offsets()
        self._asked = self._looked = -ASK_S
        self._failure: ChsinkError | None = None

    @property
    def failure(self) -> ChsinkError | None:
        """Why this driver has to end, if another one has taken its place."""
        if self._failure is None and monotonic() - self._looked >= OWNER_S:
            self._looked = monotonic()
            try:
                self.check_owned()
            except ChsinkError as error:
                self._failure = error
        return self._failure

    def start(self) -> None:
        """Claim, and wait until a coordinator apart has settled all topic-partitions.  Raises ChsinkError."""
        give_up = monotonic() + START_S
        with in_words(self._mirror.names):
            self._claims.claim()
            while waiting := self._waiting():
                if monotonic() >= give_up:
                    raise services.MIRROR_NO_COORDINATOR(waiting=waiting, seconds=f"{START_S:.0f}")
                self.take_up()
                sleep(POLL_S)

    def begin(self) -> None:
        """Nothing runs beside the driver."""

    def finish(self, _wait_s: float | None) -> None:
        """The coordinator commits what was handed over, whenever that is."""

    def join(self, _wait_s: float) -> bool:
        """There is nothing to wait for."""
        return True

    def close(self) -> None:
        """Release connections."""
        self._claims.close()
        self._owners.close()
        self._group.close()

    def check_owned(self) -> None:
        """FencedError if a newer driver hands over; do nothing while Kafka does not answer."""
        self._claims.check()
        try:
            found = read_owner(self._mirror.names, self._owners)
        except ControlUnanswered:
            return
        if found is not None and not found.apart:
            raise self._claims.taken(found)

    def take_up(self) -> None:
        """Ask the coordinator for a round: it settles topic-partitions first."""
        if monotonic() - self._asked >= ASK_S:
            self._asked = monotonic()
            with in_words(self._mirror.names):
                ask(self._mirror.names)

    def held_until(self, tp: TopicPartition) -> int | None:
        """The highest end of what a table holds of a topic-partition; None if it cannot be read now."""
        known = KnownTables(self._mirror.targets, self._mirror.names.topic)
        try:
            with in_words(self._mirror.names):
                for name in self._mirror.targets:
                    known.read(name)
        except ChsinkError:
            return None
        return known.held_until(tp)

    def _waiting(self) -> str:
        """What has to happen before a driver may plan, "" if all has."""
        names, mirror = self._mirror.names, self._mirror
        owner = read_owner(names, self._owners)
        if owner is not None and not owner.apart:  # none: nobody coordinated yet, or the control topic was deleted
            return "this mirror"
        group = self._group.committed(mirror.kafka.partitions(mirror.config.mirror.topics))
        notes = self._group.notes(group)
        choices = {topic: each.choice for target in mirror.targets.values() for topic, each in target.sharing.items()}
        new = [tp for tp, at in group.items() if at is None or notes[tp] != choices.get(tp.topic, "")]
        return ", ".join(map(str, sorted(new)[:3]))


class CoordinatorApart(Coordination):
    """A coordination without a query beside it: it reads holes from Kafka by itself."""

    def __init__(
        self,
        mirror: OpenMirror,
        clock: Clock,
        log: structlog.typing.FilteringBoundLogger,
        *,
        after_round: Callable[[], None] = lambda: None,
    ) -> None:
        self._reader = open_exact_reader(mirror.config, lambda tp: mirror.kafka.log_starts([tp])[tp])
        self._lander = MirrorLander(
            mirror.feeds(),
            renewed=mirror.renewed,
            adapt=mirror.adapt,
            landed=lambda acks: log.info("handed over", rows=total(acks).rows),
        )
        self._lander.settle_all(HoleReads(lambda: self._lander.feeds, self._reader))
        self._deleted = Deleted(mirror)
        super().__init__(
            mirror,
            self._lander.reread,
            clock,
            log,
            after_round=after_round,
            under_way=self._deleted,
            apart=True,
        )

    def close(self) -> None:
        """Release connections, after the end."""
        super().close()
        self._lander.close()
        self._reader.close()
        self._deleted.close()

    def _opened(self) -> Coordinator:
        while self._deleted():  # a start fences workers that may have read what Kafka deleted since
            sleep(POLL_S)
        return super()._opened()


class Deleted:
    """The topic-partitions of which Kafka deleted records that were not handed over, for ``mirror.timeout_s``: workers
    of another process may have read them before.
    """

    def __init__(self, mirror: OpenMirror) -> None:
        self._mirror, self._group = mirror, mirror.names.offsets()
        self._since: dict[TopicPartition, float] = {}

    def __call__(self) -> Collection[TopicPartition]:
        kafka, mirror = self._mirror.kafka, self._mirror.config.mirror
        starts = kafka.log_starts(kafka.partitions(mirror.topics))
        group, now = self._group.committed(starts), monotonic()
        short = [tp for tp, at in group.items() if at is not None and at < starts[tp]]
        self._since = {tp: self._since.get(tp, now) for tp in short}
        return [tp for tp, since in self._since.items() if now - since < mirror.timeout_s]

    def close(self) -> None:
        """Release the connection."""
        self._group.close()


class HoleReads:
    """:class:`chsink.batch.roles.ExactReads` of the mirror without Spark, one share after another."""

    def __init__(self, feeds: Callable[[], Feeds], reader: ExactReader) -> None:
        self._feeds, self._reader = feeds, reader

    def from_kafka(self, shares: Sequence[Share]) -> Sequence[Ack]:
        """Hand over these shares.  Raises ChsinkError."""
        return [self._handed_over(task, share) for task, share in enumerate(shares)]

    def _handed_over(self, task: int, share: Share) -> Ack:
        tp, feeds = share.topic_partition, self._feeds()
        with closing(self._records(feeds, share)) as records:
            report = feeds.hand_over(share, records)
        return Ack(task, tp.topic, tp.partition, (acknowledged(share, report.tables),))

    def _records(self, feeds: Feeds, share: Share) -> Generator[pa.RecordBatch]:
        for part in self._reader.read(share.topic_partition, share.range):
            if part.gone:
                feeds.check_held(share.topic_partition, share.range, share.hole_of)
                reason = f"offsets {part.range} are beyond the end of the log"
                raise services.MIRROR_NOT_HANDED_OVER(tp=share.topic_partition, range=share.range, reason=reason)
            if part.records.num_rows:
                yield part.records
