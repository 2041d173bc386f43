"""What a task of the mirror does: read its topic-partition in order, and hand over its share.

Rules:
- One task owns a topic-partition and reads its offsets in order.
- Between reading a range and handing it over, the task checks that the topic is still the same and holds the range.
- Each new Python worker imports this module, so it imports nothing of the coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa

from chsink.batch.model import Ack, ChunkAck
from chsink.batch.reader import Chunk, ReadPlan, Span, TaskReader
from chsink.batch.roles import TaskBody
from chsink.errors import ChsinkError, halts, preflight, services, values
from chsink.mirror.control import ControlUnanswered, Fenced, Names, NotSent
from chsink.mirror.lacking import ColumnsLack, TablesLack, encoded
from chsink.mirror.refusals import refused
from chsink.mirror.worker import BadValues, TableWork, Worker, WorkerReport, Written
from chsink.ports import KafkaCluster
from chsink.statemachine.commit.handover import OTHER_CHOICE
from chsink.statemachine.ranges import OffsetRange, TopicPartition

CHUNK_OFFSETS = 100_000
MAX_CHUNK_BYTES = 2**31 - 2**20
FIELDS = ("topic", "partition", "offset", "timestamp", "value")


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


@dataclass(frozen=True)
class Feeds:
    """What workers need: each topic's id and tables, the client that answers questions about topics, and what to do
    with records that do not fit (:class:`chsink.mirror.worker.Worker`).  Picklable.
    """

    names: Names
    topic_ids: Mapping[str, str]
    tables: Mapping[str, tuple[TableWork, ...]]
    kafka: KafkaCluster
    choices: Mapping[str, str] = field(default_factory=dict)
    """By topic: the fingerprint of what divides its records among tables, if something does."""
    halt_on_bad_value: bool = True
    skip_tombstones: bool = False

    def worker(self, tp: TopicPartition) -> Worker:
        """The worker of a topic-partition."""
        topic_id, tables = self.topic_ids[tp.topic], self.tables[tp.topic]
        choice = self.choices.get(tp.topic, "")
        return Worker(self.names, tp, topic_id, tables, choice, self.halt_on_bad_value, self.skip_tombstones)

    def table(self, tp: TopicPartition, name: str) -> TableWork:
        """One of the topic's tables."""
        return next(work for work in self.tables[tp.topic] if work.table == name)

    def hand_over(self, share: Share, records: Iterable[pa.RecordBatch]) -> WorkerReport:
        """Hand over a share; ``records`` are the records of its topic-partition.  Raises ChsinkError."""
        tp, worker = share.topic_partition, self.worker(share.topic_partition)

        def read(piece: OffsetRange) -> Iterator[pa.RecordBatch]:
            if not OffsetRange(share.range.start, share.range.end).covers(piece):
                raise NotSent(f"the group is at {piece.start}, below the assigned range")
            unbroken = _Unbroken(piece.start)
            yield from unbroken.watch(_within(records, piece))
            self.check_held(tp, piece, share.hole_of, unbroken.until)

        try:
            if share.hole_of:
                return worker.again(self.table(tp, share.hole_of), share.range, read)
            report = worker.run(share.range, read)
        except BadValues as bad:
            raise values.MIRROR_BAD_VALUE(tp=tp, table=bad.table, first=bad.first, count=bad.count) from bad
        except ColumnsLack as lack:
            raise preflight.MIRROR_COLUMNS_MISSING(tp=tp, columns=encoded(lack.wanted)) from lack
        except TablesLack as lack:
            raise services.MIRROR_TABLES_BEGIN(tp=tp, tables=encoded(lack.wanted)) from lack
        except (Fenced, NotSent, ControlUnanswered) as error:
            reason = f"{type(error).__name__}: {error}"
            raise refused(error, self.names) or services.MIRROR_NOT_HANDED_OVER(
                tp=tp, range=share.range, reason=reason
            ) from error
        if report.decision.because == OTHER_CHOICE:
            raise services.MIRROR_NOT_HANDED_OVER(tp=tp, range=share.range, reason="the group has another table_by")
        if report.decision.refused:
            raise services.MIRROR_OFFSET_GONE(tp=tp, group=self.names.group)
        return report

    def check_held(self, tp: TopicPartition, piece: OffsetRange, table: str = "", read_until: int = 0) -> None:
        """Raise a halt if the topic was recreated, or lost offsets of the range from ``read_until`` on."""
        tables = table or " ".join(work.table for work in self.tables[tp.topic])
        if (self.kafka.topic_ids([tp.topic])[tp.topic] or "") != self.topic_ids[tp.topic]:
            raise halts.MIRROR_TOPIC_RECREATED(tp=tp, tables=tables)
        start = self.kafka.log_starts([tp])[tp]
        if start > max(piece.start, read_until) and read_until < piece.end:
            gone = OffsetRange(piece.start, min(start, piece.end))
            raise halts.MIRROR_RECORDS_GONE(tp=tp, range=gone, tables=tables)


class _Unbroken:
    """Every offset below ``until`` gave a record, so nothing is missing if Kafka deletes it later.  From there on, an
    offset without a record may be a transaction marker, or a record that was deleted just before it was read.
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

    def __call__(self, task: int, batches: Iterable[pa.RecordBatch], *, again: bool = False) -> Ack:  # noqa: ARG002 - the group says it
        """Errors of the catalogue are reported in the acknowledgement, not raised: Spark would only repeat the task."""
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
        for _ in parts:  # read to the end what an earlier attempt handed over
            pass
        return acknowledged(share, report.tables)


def acknowledged(share: Share, written: Mapping[str, Written]) -> ChunkAck:
    """Rows and skipped records of all tables: a record that two tables skip counts twice."""
    rows = sum(w.rows for w in written.values())
    skipped = sum(w.skipped for w in written.values())
    first = next((w.first_skipped for w in written.values() if w.first_skipped), "")
    return ChunkAck(share.range.start, share.range.end, rows=rows, skipped=skipped, first_skipped=first)


@dataclass(frozen=True)
class MirrorTasks:
    """:class:`chsink.batch.roles.Tasks` that hand over.  ``feeds`` gives the tables as they were read last."""

    feeds: Callable[[], Feeds]

    @property
    def fields(self) -> tuple[str, ...]:
        """Kafka's columns that the task needs itself, and those that tables or formats read."""
        works = [work for of_topic in self.feeds().tables.values() for work in of_topic]
        read = [name for work in works for name in work.columns.record_fields]
        chosen = [work.choice.reads for work in works if work.choice is not None]
        return tuple(dict.fromkeys((*FIELDS, *read, *chosen)))

    def body(self, assignments: Sequence[Share], planned: Mapping[TopicPartition, OffsetRange]) -> TaskBody:
        """See :class:`chsink.batch.roles.Tasks`."""
        spans = {a.topic_partition: Span(a.range, CHUNK_OFFSETS) for a in assignments}
        plan = ReadPlan(dict(planned), spans, MAX_CHUNK_BYTES)
        return MirrorTask(self.feeds(), plan, {a.topic_partition: a for a in assignments})
