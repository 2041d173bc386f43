"""Hands over one range of one topic-partition: files of every table, then one transaction.

This order makes it exactly once.  Open the producer, which fences every older attempt.  Read the group.  Write the
records that the group has not passed to files under names of this attempt.  Report all files and move the group in one
transaction.  Nothing ever refers to the files of a failed attempt.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata

from chsink import failpoints
from chsink.formats.table_by import MOST_NAMED, Choice
from chsink.mirror.choosing import Choosing
from chsink.mirror.control import Names
from chsink.mirror.events import DataWritten, Event, TableReference, UnitTag, encode, split
from chsink.mirror.files import HELD_BYTES, DataFiles, entry_of
from chsink.mirror.lacking import ColumnLook, ColumnsLack, TablesLack, Wanted, joined
from chsink.mirror.types import TableColumns, TableRows
from chsink.ports import BadValue
from chsink.statemachine.commit.handover import HandOver, hand_over
from chsink.statemachine.ranges import OffsetRange, TopicPartition

NO_COMMIT = uuid.UUID(int=0)
"""Workers hand over when a range is done, not when they are asked: their events belong to no round."""
GROUP_ROWS = 100_000
GROUP_BYTES = 64 * 2**20
"""Limits for the records that are decoded at once."""
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, in ms since 1970."""

_ReadRange = Callable[[OffsetRange], Iterable[pa.RecordBatch]]
"""The records of a range in the order of their offsets, with the columns of Kafka's source."""


@dataclass(frozen=True)
class TableWork:
    """What a worker needs of one table.  Picklable.  Files are written for the uuid and the spec in ``metadata``."""

    reference: TableReference
    metadata: TableMetadata
    io: FileIO
    columns: TableColumns
    grows: bool = False
    """Whether the table gets the columns that its records need."""
    choice: Choice | None = None
    """Which records of the topic it takes; None: all."""

    @property
    def table(self) -> str:
        """``namespace.name``."""
        return ".".join((*self.reference.namespace, self.reference.name))


@dataclass
class Written:
    """The result of one range in one table.  ``skipped`` counts records without a row; ``first_skipped`` says which
    record was the first, and why.
    """

    files: list[DataFile] = field(default_factory=list)
    rows: int = 0
    skipped: int = 0
    first_skipped: str = ""

    def add(self, later: Written) -> None:
        """Add the result of a later range."""
        self.files += later.files
        self.rows += later.rows
        self.skipped += later.skipped
        self.first_skipped = self.first_skipped or later.first_skipped


@dataclass(frozen=True)
class WorkerReport:
    """What a worker did with its plan: the ranges that it handed over, and per table what was written of them."""

    decision: HandOver
    tables: dict[str, Written]


class BadValues(Exception):
    """Records do not fit a table, so the worker handed over nothing.  ``first`` says which record, and why."""

    def __init__(self, table: str, first: str, count: int) -> None:
        super().__init__(table, first, count)
        self.table, self.first, self.count = table, first, count


@dataclass(frozen=True)
class Worker:
    """Hands over ranges of one topic-partition, of the topic with this id, for these tables.  ``choice`` is the
    fingerprint of what divides its records among tables, "" if each takes all.

    A record that does not fit a table stops the worker if ``halt_on_bad_value``, unless it is a tombstone and
    ``skip_tombstones``; otherwise that table skips it.
    """

    names: Names
    tp: TopicPartition
    topic_id: str
    tables: Sequence[TableWork]
    choice: str = ""
    halt_on_bad_value: bool = True
    skip_tombstones: bool = False

    def run(self, planned: OffsetRange, records: _ReadRange) -> WorkerReport:
        """Hand over the offsets of the plan that the group has not passed, and any offsets between group and plan.

        Raises :class:`BadValues`, ``ColumnsLack``, ``TablesLack``, and the outcomes of :mod:`chsink.mirror.control`:
        after these, run it again.
        """
        report: dict[str, Written] = {}
        with self.names.sender(self.names.worker_id(self.tp), self.names.group) as sender:
            sender.note = self.choice
            committed, stored = sender.committed([self.tp])[self.tp], sender.notes([self.tp])[self.tp]
            decision = hand_over(planned, committed, self.choice, stored)
            for piece in decision.ranges:
                events = self._written(piece, records, self.tables, report)
                failpoints.reach("worker.before_transaction")
                sender.send(str(self.tp), events, {self.tp: piece.end})
                failpoints.reach("worker.after_transaction")
        return WorkerReport(decision, report)

    def again(self, table: TableWork, hole: OffsetRange, records: _ReadRange) -> WorkerReport:
        """Hand over a hole of one table.  The group does not move."""
        report: dict[str, Written] = {}
        with self.names.sender(self.names.reread_id(self.tp), self.names.group) as sender:
            sender.send(str(self.tp), self._written(hole, records, [table], report), {})
        return WorkerReport(hand_over(hole, hole.start), report)

    def _written(
        self, piece: OffsetRange, records: _ReadRange, tables: Sequence[TableWork], report: dict[str, Written]
    ) -> list[bytes]:
        """The files of the range, and the events that report them: for every table, empty ones too."""
        attempt, newest = uuid.uuid4(), _Newest()
        written = {work.table: Written() for work in tables}
        tags = {work.table: self._tag(work, piece, attempt) for work in tables}
        files = {work.table: DataFiles(work.metadata, work.io, tags[work.table].file_id) for work in tables}
        looks = {work.table: ColumnLook(work.columns) for work in tables if work.grows}
        wanted: dict[str, Wanted] = {}
        missing: dict[str, Wanted] = {}
        choosing = Choosing({work.table: work.choice for work in tables})
        for batch in _grouped(newest.watch(records(piece))):
            chosen = choosing.of(batch)
            for of, name, own in chosen.missing() if len(missing) <= MOST_NAMED else ():
                look = ColumnLook(next(work for work in tables if work.table == of).columns.of_no_table())
                missing[name] = joined([missing.get(name, {}), look.lacking(own, [])])
            for work in tables:
                own, strays = chosen(work.table)
                self._judge(work, batch, strays, written[work.table])
                if not own.num_rows:
                    continue
                decoded = work.columns.decode(own)
                if work.grows and (lacks := looks[work.table].lacking(own, decoded.bad)):
                    wanted[work.table] = joined([wanted.get(work.table, {}), lacks])
                if not (wanted or missing):  # else the range is only looked at, and written once the tables are ready
                    files[work.table].write(self._rows(work, own, decoded, written[work.table]))
            _relieve(files.values())
        if wanted:
            raise ColumnsLack(wanted)
        if missing:
            raise TablesLack(missing)
        for table, mine in written.items():
            mine.files = files[table].close()
            report.setdefault(table, Written()).add(mine)
        return [
            event
            for work in tables
            for mine in [written[work.table]]
            for event in self._events(
                work, replace(tags[work.table], timestamp_ms=newest.ms, skipped=mine.skipped), mine
            )
        ]

    def _rows(self, work: TableWork, batch: pa.RecordBatch, decoded: TableRows, into: Written) -> pa.Table:
        """The rows of the records that fit.  Raises :class:`BadValues`."""
        self._judge(work, batch, decoded.bad, into)
        into.rows += decoded.batch.num_rows
        return decoded.batch

    def _judge(self, work: TableWork, batch: pa.RecordBatch, bad: Sequence[BadValue], into: Written) -> None:
        """Count the records without a row.  Raises :class:`BadValues`."""
        stops = [each for each in bad if not (each.tombstone and self.skip_tombstones)]
        if stops and self.halt_on_bad_value:
            raise BadValues(work.table, _place(batch, stops[0]), len(stops))
        into.skipped += len(bad)
        if bad and not into.first_skipped:
            into.first_skipped = f"{self.tp} {_place(batch, bad[0])}, in the Iceberg table {work.table}"

    def _tag(self, work: TableWork, piece: OffsetRange, attempt: uuid.UUID) -> UnitTag:
        return UnitTag(
            f"{attempt}/{work.table}",
            str(work.metadata.table_uuid),
            self.tp.topic,
            self.topic_id,
            self.tp.partition,
            piece.start,
            piece.end,
            part=0,
            parts=1,
            spec_id=work.metadata.default_spec_id,
            choice=self.choice if work.choice else None,
        )

    def _events(self, work: TableWork, tag: UnitTag, written: Written) -> list[bytes]:
        partition = work.metadata.spec().partition_type(work.metadata.schema())
        groups = split([entry_of(file, tag.spec_id, partition) for file in written.files], partition)
        tag = replace(tag, parts=len(groups))
        return [
            encode(
                Event(
                    uuid.uuid4(),
                    datetime.now(UTC),
                    self.names.group,
                    DataWritten(NO_COMMIT, work.reference, group, replace(tag, part=number), partition),
                )
            )
            for number, group in enumerate(groups)
        ]


def _relieve(files: Collection[DataFiles]) -> None:
    """Close the files of the tables that hold most, until all tables together hold no more than one alone may."""
    while len(files) > 1 and sum(each.held for each in files) > HELD_BYTES:
        max(files, key=lambda each: each.held).release()


class _Newest:
    """The largest timestamp of the records that passed, in ms.  A producer may send any number: a time outside the
    years 1 to 9999 counts as the nearest one inside.
    """

    def __init__(self) -> None:
        self.ms: int | None = None

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                times = pc.cast(batch.column("timestamp"), pa.timestamp("ms", "UTC"), safe=False)
                newest = min(max(pc.max(pc.cast(times, pa.int64())).as_py(), FIRST_MS), LAST_MS)
                self.ms = newest if self.ms is None else max(self.ms, newest)
            yield batch


def _place(records: pa.RecordBatch, bad: BadValue) -> str:
    """Which record is bad, and why."""
    column = f"column {bad.column!r}: " if bad.column else ""
    return f"offset {records.column('offset')[bad.row].as_py()}: {column}{bad.reason}"


def _grouped(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Join small batches, because decoding has a cost per batch.  A full group is yielded before the next batch is
    read: otherwise both would be in memory.
    """
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if waiting and not _fits([*waiting, batch]):
            yield _one(waiting)
            waiting = []
        waiting.append(batch)
        if sum(b.num_rows for b in waiting) >= GROUP_ROWS:
            yield _one(waiting)
            waiting = []
    if waiting:
        yield _one(waiting)


def _fits(batches: Sequence[pa.RecordBatch]) -> bool:
    rows, size = sum(b.num_rows for b in batches), sum(b.nbytes for b in batches)
    return bool(rows <= GROUP_ROWS and size <= GROUP_BYTES)


def _one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
