"""Hands over one range of one topic-partition: files of every table, then one transaction.

The order is the promise.  The producer is opened, which fences every older attempt.  The group is read.  What it does
not have is written to files under names of this attempt.  One transaction reports them all and moves the group.  What a
failed attempt wrote is never referred to.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata

from chsink.mirror.control import Names
from chsink.mirror.events import DataWritten, Event, TableReference, UnitTag, encode, split
from chsink.mirror.files import entry_of, write_files
from chsink.mirror.types import TableColumns
from chsink.ports import BadValue
from chsink.statemachine.commit.handover import HandOver, hand_over
from chsink.statemachine.ranges import OffsetRange, TopicPartition

NO_COMMIT = uuid.UUID(int=0)
"""Workers hand over when a range is done, not when they are asked: their events belong to no round."""
MAX_ROWS = 1_000_000
"""Of one Arrow table that becomes files."""

Records = Callable[[OffsetRange], Iterable[pa.RecordBatch]]
"""The records of a range in the order of their offsets, with the columns of Kafka's source."""


@dataclass(frozen=True)
class TableWork:
    """What a worker needs of one table.  Picklable.  ``uuid`` and spec are those that its files are written for."""

    reference: TableReference
    metadata: TableMetadata
    io: FileIO
    columns: TableColumns

    @property
    def table(self) -> str:
        """``namespace.name``."""
        return ".".join((*self.reference.namespace, self.reference.name))


@dataclass
class Written:
    """What became of a range for one table.  ``bad`` are counts by reason."""

    files: list[DataFile] = field(default_factory=list)
    rows: int = 0
    bad: list[BadValue] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """What a worker did with its plan: the ranges that it handed over, and per table what was written of them."""

    decision: HandOver
    tables: dict[str, Written]


class BadValues(Exception):
    """A record does not fit a table, and that stops the worker: nothing was handed over."""

    def __init__(self, table: str, first: BadValue, count: int) -> None:
        super().__init__(table, first, count)
        self.table, self.first, self.count = table, first, count


@dataclass(frozen=True)
class Worker:
    """Hands over ranges of one topic-partition, of the topic with this id, for these tables."""

    names: Names
    tp: TopicPartition
    topic_id: str
    tables: Sequence[TableWork]
    halt_on_bad_value: bool = True

    def run(self, planned: OffsetRange, records: Records) -> Report:
        """Hand over what the group does not have of the plan, and what lies between the group and the plan.

        Raises :class:`BadValues`, and the outcomes of :mod:`chsink.mirror.control`: then run it again.
        """
        report: dict[str, Written] = {}
        with self.names.sender(self.names.worker_id(self.tp), self.names.group) as sender:
            decision = hand_over(planned, sender.committed([self.tp])[self.tp])
            for piece in decision.ranges:
                events = self._written(piece, records, self.tables, report)
                sender.send(str(self.tp), events, {self.tp: piece.end})
        return Report(decision, report)

    def again(self, table: TableWork, hole: OffsetRange, records: Records) -> None:
        """Hand over a hole of one table.  The group does not move."""
        with self.names.sender(self.names.reread_id(self.tp), self.names.group) as sender:
            sender.send(str(self.tp), self._written(hole, records, [table], {}), {})

    def _written(
        self, piece: OffsetRange, records: Records, tables: Sequence[TableWork], report: dict[str, Written]
    ) -> list[bytes]:
        """The files of the range, and the events that report them: for every table, empty ones too."""
        attempt, newest = uuid.uuid4(), _Newest()
        written = {work.table: Written() for work in tables}
        for batch in _grouped(newest.watch(records(piece))):
            for work in tables:
                self._write(work, batch, written[work.table], attempt)
        for table, mine in written.items():
            total = report.setdefault(table, Written())
            total.files += mine.files
            total.rows += mine.rows
            total.bad += mine.bad
        return [
            event for work in tables for event in self._events(work, piece, written[work.table], attempt, newest.ms)
        ]

    def _write(self, work: TableWork, batch: pa.RecordBatch, into: Written, attempt: uuid.UUID) -> None:
        decoded = work.columns.decode(batch)
        if decoded.bad and self.halt_on_bad_value:
            raise BadValues(work.table, decoded.bad[0], len(decoded.bad))
        into.bad += decoded.bad
        into.rows += decoded.batch.num_rows
        name = uuid.uuid5(attempt, f"{work.table} {len(into.files)}")  # the writer overwrites what has the same name
        into.files += write_files(work.metadata, work.io, decoded.batch, name)

    def _events(
        self, work: TableWork, piece: OffsetRange, written: Written, attempt: uuid.UUID, newest_ms: int | None
    ) -> list[bytes]:
        spec = work.metadata.default_spec_id
        groups = split([entry_of(file, spec) for file in written.files])
        tag = UnitTag(
            f"{attempt}/{work.table}",
            str(work.metadata.table_uuid),
            self.tp.topic,
            self.topic_id,
            self.tp.partition,
            piece.start,
            piece.end,
            0,
            len(groups),
            spec,
            newest_ms,
        )
        return [
            encode(
                Event(
                    uuid.uuid4(),
                    datetime.now(UTC),
                    self.names.group,
                    DataWritten(NO_COMMIT, work.reference, group, replace(tag, part=number)),
                )
            )
            for number, group in enumerate(groups)
        ]


class _Newest:
    """The largest timestamp of the records that passed, in ms."""

    def __init__(self) -> None:
        self.ms: int | None = None

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                times = pc.cast(batch.column("timestamp"), pa.timestamp("ms", "UTC"), safe=False)
                newest = pc.max(pc.cast(times, pa.int64())).as_py()
                self.ms = newest if self.ms is None else max(self.ms, newest)
            yield batch


def _grouped(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Batches put together up to ``MAX_ROWS``, so that files are few and memory is bounded."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if waiting and sum(b.num_rows for b in waiting) + batch.num_rows > MAX_ROWS:
            yield pa.concat_batches(waiting)
            waiting = []
        waiting.append(batch)
    if waiting:
        yield pa.concat_batches(waiting)
