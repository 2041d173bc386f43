"""The mirror as a lander of micro-batches: its tasks hand over ranges, its coordinator commits them elsewhere.

Rules:
- One task owns a topic-partition and reads its offsets in order; the acknowledgements must tile what was assigned.
- What lies between the group and the plan (a checkpoint that is ahead) is read exactly, and handed over first.
- A range in which no task saw a record is handed over by the driver, without files: the group has to pass it.
- Between reading a range and handing it over, Kafka is asked whether it is still the same topic and holds the range.
- Holes are read exactly, through the stream that the lander was opened for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from time import sleep
from typing import Protocol

import numpy as np
import pyarrow as pa

from chsink.batch.confirm import confirm
from chsink.batch.model import Ack, ChunkAck, PlannedBatch
from chsink.batch.reader import Chunk, ReadPlan, Span, TaskReader
from chsink.batch.roles import BatchTasks, ExactReads, Landing, TaskBody
from chsink.errors import ChsinkError, halts, services, values
from chsink.errors.several import raise_all
from chsink.mirror.control import Fenced, Names, NotSent, Unanswered
from chsink.mirror.coordinator import Hole
from chsink.mirror.failures import refused
from chsink.mirror.worker import BadValues, Report, TableWork, Worker, Written
from chsink.statemachine.commit.handover import hand_over
from chsink.statemachine.ranges import OffsetRange, TopicPartition

CHUNK_OFFSETS = 100_000
MAX_CHUNK_BYTES = 2**31 - 2**20
SETTLE_S, POLL_S = 30.0, 0.5
"""How long a batch waits for the coordinator to settle a new topic-partition, and between two checks."""
FIELDS = ("topic", "partition", "offset", "timestamp", "value")


class Beside(Protocol):
    """The coordinator that runs beside the lander."""

    def check_owned(self) -> None:
        """FencedError if a newer driver coordinates the mirror."""

    def take_up(self) -> None:
        """Settle topic-partitions that the group does not know."""


@dataclass(frozen=True, slots=True)
class Share:
    """A range that one task is to hand over.  ``hole_of`` names the one table that lacks it; "" for all."""

    topic_partition: TopicPartition
    range: OffsetRange
    hole_of: str = ""

    @property
    def held(self) -> OffsetRange:
        """See :class:`chsink.batch.model.Assigned`."""
        return self.range


class Topics(Protocol):
    """What workers ask Kafka about topics (see ``chsink.ports.KafkaCluster``)."""

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str | None]:
        """The id of each topic."""

    def log_starts(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The first offset of each."""

    def log_ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The next offset of each."""


@dataclass(frozen=True)
class Feeds:
    """What workers need, by topic: the topic's id and its tables; whom they ask about topics; and what they do with
    records that do not fit (:class:`chsink.mirror.worker.Worker`).  Picklable.
    """

    names: Names
    topic_ids: Mapping[str, str]
    tables: Mapping[str, tuple[TableWork, ...]]
    kafka: Topics
    halt_on_bad_value: bool = True
    skip_tombstones: bool = False

    def worker(self, tp: TopicPartition) -> Worker:
        """Of a topic-partition."""
        topic_id, tables = self.topic_ids[tp.topic], self.tables[tp.topic]
        return Worker(self.names, tp, topic_id, tables, self.halt_on_bad_value, self.skip_tombstones)

    def table(self, tp: TopicPartition, name: str) -> TableWork:
        """One of the topic's tables."""
        return next(work for work in self.tables[tp.topic] if work.table == name)

    def hand_over(self, share: Share, records: Iterable[pa.RecordBatch]) -> Report:
        """Hand over a share whose records these are.  Raises ChsinkError."""
        tp, worker = share.topic_partition, self.worker(share.topic_partition)

        def read(piece: OffsetRange) -> Iterator[pa.RecordBatch]:
            if not OffsetRange(share.range.start, share.range.end).covers(piece):
                raise NotSent(f"the group is at {piece.start}, below the assigned range")
            unbroken = _Unbroken(piece.start)
            yield from unbroken.watch(_within(records, piece))
            self.check_held(tp, piece, share.hole_of, unbroken.until)

        try:
            if share.hole_of:
                worker.again(self.table(tp, share.hole_of), share.range, read)
                return Report(hand_over(share.range, share.range.start), {})
            report = worker.run(share.range, read)
        except BadValues as bad:
            raise values.MIRROR_BAD_VALUE(tp=tp, table=bad.table, first=bad.first, count=bad.count) from bad
        except (Fenced, NotSent, Unanswered) as error:
            reason = f"{type(error).__name__}: {error}"
            raise refused(error, self.names) or services.MIRROR_NOT_HANDED_OVER(
                tp=tp, range=share.range, reason=reason
            ) from error
        if report.decision.refused:
            raise services.MIRROR_OFFSET_GONE(tp=tp, group=self.names.group)
        return report

    def check_held(self, tp: TopicPartition, piece: OffsetRange, table: str = "", read_until: int = 0) -> None:
        """Raises a halt if the topic is another one by now, or lost offsets of the range behind ``read_until``."""
        tables = table or " ".join(work.table for work in self.tables[tp.topic])
        if (self.kafka.topic_ids([tp.topic])[tp.topic] or "") != self.topic_ids[tp.topic]:
            raise halts.MIRROR_TOPIC_RECREATED(tp=tp, tables=tables)
        start = self.kafka.log_starts([tp])[tp]
        if start > max(piece.start, read_until) and read_until < piece.end:
            gone = OffsetRange(piece.start, min(start, piece.end))
            raise halts.MIRROR_RECORDS_GONE(tp=tp, range=gone, tables=tables)


class _Unbroken:
    """Up to where every offset was seen.  What Kafka deletes of that after it was read is not missing; behind it, an
    offset without a record may be a marker of a transaction or a record that was deleted just before it was read.
    """

    def __init__(self, start: int) -> None:
        self.until = start

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            offsets = batch.column("offset").to_numpy()
            self.until += int(np.count_nonzero(offsets == self.until + np.arange(len(offsets))))
            yield batch


def _within(records: Iterable[pa.RecordBatch], piece: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The records of a piece; offsets ascend."""
    for batch in records:
        offsets = batch.column("offset").to_numpy()
        low, high = (int(i) for i in np.searchsorted(offsets, [piece.start, piece.end]))
        if low < high:
            yield batch.slice(low, high - low)


@dataclass(frozen=True)
class MirrorTask:
    """:data:`chsink.batch.roles.TaskBody`: one task hands over one share."""

    feeds: Feeds
    plan: ReadPlan
    shares: Mapping[TopicPartition, Share]

    def __call__(self, task: int, batches: Iterable[pa.RecordBatch]) -> Ack:
        """Errors that chsink knows are reported, not raised: Spark would only repeat the task."""
        reader = TaskReader(self.plan)
        try:
            chunks = reader.chunks(batches)
            first = next(chunks, None)
            tp = reader.topic_partition
            if tp is None or tp not in self.shares or first is None:
                return Ack(task, None if tp is None else tp.topic, None if tp is None else tp.partition)
            return Ack(task, tp.topic, tp.partition, (self._handed_over(tp, chain([first], chunks)),))
        except ChsinkError as error:
            tp = reader.topic_partition
            said = (error.name, error.params)
            return Ack(task, None if tp is None else tp.topic, None if tp is None else tp.partition, (), said)

    def _handed_over(self, tp: TopicPartition, chunks: Iterator[Chunk]) -> ChunkAck:
        share = self.shares[tp]
        parts = (part for chunk in chunks for part in chunk.parts)
        report = self.feeds.hand_over(share, parts)
        for _ in parts:  # what an earlier attempt handed over is read to its end
            pass
        return _acknowledged(share, report.tables)


def _acknowledged(share: Share, written: Mapping[str, Written]) -> ChunkAck:
    """Rows and skipped records of all tables: a record that two tables skip counts twice."""
    rows = sum(w.rows for w in written.values())
    skipped = sum(w.skipped for w in written.values())
    first = next((w.first_skipped for w in written.values() if w.first_skipped), "")
    return ChunkAck(share.range.start, share.range.end, rows=rows, skipped=skipped, first_skipped=first)


@dataclass(frozen=True)
class MirrorTasks:
    """:class:`chsink.batch.roles.Tasks` that hand over."""

    feeds: Feeds

    @property
    def fields(self) -> tuple[str, ...]:
        """Kafka's own columns: tables may have some of them."""
        return FIELDS

    def body(self, assignments: Sequence[Share], planned: Mapping[TopicPartition, OffsetRange]) -> TaskBody:
        """See :class:`chsink.batch.roles.Tasks`."""
        spans = {a.topic_partition: Span(a.range, CHUNK_OFFSETS) for a in assignments}
        plan = ReadPlan(dict(planned), spans, MAX_CHUNK_BYTES)
        return MirrorTask(self.feeds, plan, {a.topic_partition: a for a in assignments})


class MirrorLander:
    """:class:`chsink.batch.roles.Lander` of the mirror.  Start a coordinator before it: that settles the group.

    ``landed`` receives what was handed over, once that is confirmed.  Without ``beside``, a topic-partition that the
    group does not know is an error.
    """

    def __init__(
        self,
        feeds: Feeds,
        beside: Beside | None = None,
        *,
        landed: Callable[[Sequence[Ack]], None] = lambda _: None,
    ) -> None:
        self.feeds, self._beside, self._landed = feeds, beside, landed
        self._group = feeds.names.offsets()
        self._reads: ExactReads[Share] | None = None

    def landing(self) -> Landing[Share]:
        """Itself, with its tasks."""
        return Landing(self, MirrorTasks(self.feeds))

    def close(self) -> None:
        """Release connections."""
        self._group.close()

    def settle_all(self, runner: ExactReads[Share]) -> None:
        """Nothing is in doubt: what was handed over is on the control topic.  Keeps the reads for holes."""
        self._reads = runner

    def check_owned(self) -> None:
        """FencedError if a newer driver coordinates the mirror."""
        if self._beside is not None:
            self._beside.check_owned()

    def process(self, batch: PlannedBatch, runner: BatchTasks[Share]) -> None:
        """Hand over what the group does not have of the batch."""
        self._reads = runner
        self.check_owned()
        planned = {tp: r for tp, r in batch.ranges.items() if not r.is_empty}
        group = self._settled(planned)
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

    def reread(self, hole: Hole) -> None:
        """Hand over a hole of one table: a coordinator's ``reread``."""
        assert self._reads is not None, "a lander is opened before its coordinator runs"
        self._check_written_for(hole)
        self.feeds.check_held(hole.tp, hole.range, hole.table)
        self._check_written(hole)
        share = Share(hole.tp, hole.range, hole.table)
        self._confirmed([share], self._reads.from_kafka([share]))

    def _settled(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's offsets.  The coordinator settles those of partitions that were added to a topic."""
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

    def _check_written(self, hole: Hole) -> None:
        """A group that was set beyond the end of the log: what is not there yet would be passed over."""
        end = self.feeds.kafka.log_ends([hole.tp])[hole.tp]
        if end < hole.range.end:
            reason = f"the group is beyond the end of the log, {end}; the range is read once the log reaches it"
            raise services.MIRROR_NOT_HANDED_OVER(tp=hole.tp, range=hole.range, reason=reason)

    def _check_written_for(self, hole: Hole) -> None:
        """Files for another table, or another spec, would be left out and read again for ever."""
        metadata = self.feeds.table(hole.tp, hole.table).metadata
        if str(metadata.table_uuid) != hole.written_for.uuid:
            raise halts.MIRROR_TABLE_RECREATED(tables=hole.table)
        if metadata.default_spec_id != hole.written_for.spec_id:
            raise halts.MIRROR_SPEC_CHANGED(tables=hole.table)

    def handed_over(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The group's offsets, None where it has none.  UnavailableError CHS-713 if Kafka does not answer."""
        try:
            return self._group.committed(tps)
        except Unanswered as error:
            raise services.MIRROR_GROUP_UNREAD(group=self.feeds.names.group, reason=error) from error

    def _confirmed(self, shares: Sequence[Share], acks: Sequence[Ack]) -> None:
        """Every share was handed over; the driver does so for those without a record."""
        raise_all(list(confirm(acks, shares).values()))
        seen = {ack.topic_partition for ack in acks}
        for share in shares:
            if share.topic_partition not in seen:
                self.feeds.hand_over(share, ())
        self._landed(acks)
