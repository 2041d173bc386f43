"""The mirror as a lander of micro-batches: its tasks hand over ranges, its coordinator commits them elsewhere.

Rules:
- The acknowledgements of the tasks must tile what was assigned.
- Offsets between the group and the plan (a checkpoint that is ahead) are read exactly, and handed over first.
- A range in which no task saw a record is handed over by the driver, without files: the group has to pass it.
- Holes are read exactly, through the stream that the lander was opened for.
- Before each batch its topics' tables are read again: a changed schema or partition spec counts from the next range on.
- A group may be set back below what the tables hold.  Records that are missing there are missing nowhere, so no halt
  counts while it is: the next start sets the group to what the tables hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from time import sleep
from typing import Protocol

from chsink.batch.confirm import confirm
from chsink.batch.model import Ack, PlannedBatch
from chsink.batch.roles import BatchTasks, ExactReads, Landing
from chsink.errors import AlteredError, HaltError, halts, services
from chsink.errors.several import raise_all
from chsink.mirror.control import ControlUnanswered, at_once
from chsink.mirror.known_tables import Hole
from chsink.mirror.task import Feeds, MirrorTasks, Share
from chsink.statemachine.commit.handover import hand_over
from chsink.statemachine.ranges import OffsetRange, TopicPartition

SETTLE_S, POLL_S = 30.0, 0.5
"""How long a batch waits for the coordinator to settle a new topic-partition, and between two checks."""


class CoordinatorBeside(Protocol):
    """The coordinator that runs beside the lander."""

    def check_owned(self) -> None:
        """FencedError if a newer driver coordinates the mirror."""

    def take_up(self) -> None:
        """Settle topic-partitions that the group does not know."""

    def held_until(self, tp: TopicPartition) -> int | None:
        """The highest end of what a table holds of a topic-partition; None while no coordinator knows."""


class MirrorLander:
    """:class:`chsink.batch.roles.Lander` of the mirror.  Start a coordinator before it: that settles the group.

    ``landed`` receives what was handed over, once that is confirmed.  ``pool`` hands over ranges without records.
    Without ``beside``, a topic-partition that the group does not know is an error.  ``renewed`` reads these tables
    again; ``adapt`` gives a table the columns that a hole's records need, and says whether it did.
    """

    def __init__(
        self,
        feeds: Feeds,
        beside: CoordinatorBeside | None = None,
        *,
        landed: Callable[[Sequence[Ack]], None] = lambda _: None,
        pool: Callable[[], Executor] = at_once,
        renewed: Callable[[Feeds, Collection[str]], Feeds] = lambda feeds, _: feeds,
        adapt: Callable[[AlteredError], bool] = lambda _: False,
    ) -> None:
        self.feeds, self._beside, self._landed = feeds, beside, landed
        self._group = feeds.names.offsets()
        self._pool, self._renewed, self._adapt = pool, renewed, adapt
        self.under_way: frozenset[TopicPartition] = frozenset()
        """The topic-partitions of the present batch: workers may have read records that Kafka deletes meanwhile."""
        self._reads: ExactReads[Share] | None = None
        self._began: dict[TopicPartition, int] = {}

    def landing(self) -> Landing[Share]:
        """The lander and its tasks."""
        return Landing(self, MirrorTasks(lambda: self.feeds))

    def close(self) -> None:
        """Release connections."""
        self._group.close()

    def settle_all(self, runner: ExactReads[Share]) -> None:
        """Nothing is in doubt: what was handed over is on the control topic.  Keeps ``runner`` to read holes."""
        self._reads = runner

    def check_owned(self) -> None:
        """FencedError if a newer driver coordinates the mirror."""
        if self._beside is not None:
            self._beside.check_owned()

    def process(self, batch: PlannedBatch, runner: BatchTasks[Share]) -> None:
        """Hand over the part of the batch that the group has not passed."""
        self._reads = runner
        self.check_owned()
        planned = {tp: r for tp, r in batch.ranges.items() if not r.is_empty}
        topics = {tp.topic for tp in planned}
        self.feeds = self._renewed(self.feeds, {work.table for topic in topics for work in self.feeds.tables[topic]})
        self.under_way = frozenset(planned)
        try:
            self._process(batch, planned, runner)
        except HaltError as halted:
            self._check_set_back(planned, halted)
            raise
        finally:
            self.under_way = frozenset()

    def _process(
        self, batch: PlannedBatch, planned: Mapping[TopicPartition, OffsetRange], runner: BatchTasks[Share]
    ) -> None:
        group = self._began = self._settled(planned)
        earlier, now = [], []
        for tp, at in planned.items():
            ranges = hand_over(at, group[tp]).ranges
            earlier += [Share(tp, r) for r in ranges if r.start < at.start]
            now += [Share(tp, at) for r in ranges if r.start >= at.start]
        if earlier:
            for share in earlier:
                self.feeds.check_held(share.topic_partition, share.range)
            self._confirmed(earlier, runner.from_kafka(earlier))
        if now:
            self._confirmed(now, runner.from_batch(batch, now))

    def _check_set_back(self, planned: Mapping[TopicPartition, OffsetRange], halted: HaltError) -> None:
        """UnavailableError CHS-712 if the group of a planned topic-partition is below what a table holds, or was."""
        if self._beside is None:
            return
        for tp, at in self.handed_over(planned).items():
            held = self._beside.held_until(tp)
            if held is None or min(at or 0, self._began.get(tp, held)) < held:
                reason = f"tables may already hold some of these records (group {self.feeds.names.group}: offset {at})"
                raise services.MIRROR_NOT_HANDED_OVER(tp=tp, range=planned[tp], reason=reason) from halted

    def reread(self, hole: Hole) -> None:
        """Hand over a hole of one table.  Coordinators call it as their ``reread``."""
        try:
            self._reread(hole)
        except AlteredError as altered:
            if not self._adapt(altered):
                raise
            self._reread(hole)

    def _reread(self, hole: Hole) -> None:
        assert self._reads is not None, "a lander is opened before its coordinator runs"
        self.feeds = self._renewed(self.feeds, [hole.table])
        self._check_written_for(hole)
        self.feeds.check_held(hole.tp, hole.range, hole.table)
        share = Share(hole.tp, hole.range, hole.table)
        self._confirmed([share], self._reads.from_kafka([share]))

    def _settled(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's offsets.  Waits for the coordinator to settle partitions that were added to a topic."""
        waited = 0.0
        while True:
            found = self.handed_over(tps)
            known = {tp: at for tp, at in found.items() if at is not None}
            if len(known) == len(found):
                return known
            if self._beside is None or waited >= SETTLE_S:
                raise services.MIRROR_OFFSET_GONE(tp=min(found.keys() - known), group=self.feeds.names.group)
            self._beside.take_up()
            sleep(POLL_S)
            waited += POLL_S

    def _check_written_for(self, hole: Hole) -> None:
        """Halt if the table is another one: its files would be ignored, and the hole read again for ever."""
        if str(self.feeds.table(hole.tp, hole.table).metadata.table_uuid) != hole.uuid:
            raise halts.MIRROR_TABLE_RECREATED(tables=hole.table)

    def handed_over(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The group's offsets, None where it has none.  UnavailableError CHS-713 if Kafka does not answer."""
        try:
            return self._group.committed(tps)
        except ControlUnanswered as error:
            raise services.MIRROR_GROUP_UNREAD(group=self.feeds.names.group, reason=error) from error

    def _confirmed(self, shares: Sequence[Share], acks: Sequence[Ack]) -> None:
        """Check that every share was handed over; hand over the shares without a record here, in the driver."""
        raise_all(list(confirm(acks, shares).values()))
        seen = {ack.topic_partition for ack in acks}
        empty = [share for share in shares if share.topic_partition not in seen]
        if empty:  # each has a producer of its own, so they run in parallel
            with self._pool() as pool:
                handed_over = [pool.submit(self.feeds.hand_over, share, ()) for share in empty]
            for each in handed_over:
                each.result()
        self._landed(acks)
