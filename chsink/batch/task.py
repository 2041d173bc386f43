"""One topic-partition on an executor: record batches → chunks → columns → shards → inserts → one acknowledgement.

Rules:
- The task owns one topic-partition and reads its offsets in order; anything else is refused before it is sent.
- A chunk is sent only when it is complete: a later offset, or the end of the input, has been seen.  An input that is
  cut must raise, not end.
- Reading (and Kafka, and the JVM behind it) goes on while one chunk is being decoded and inserted, never more:
  memory is two chunks, whatever the batch.
- Errors the sink knows are reported in the acknowledgement, not raised: Spark would only run a hopeless task again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink import failpoints
from chsink.batch.halts import asking_target
from chsink.batch.model import Ack, Assignment, ChunkAck
from chsink.errors import ChsinkError, HaltError, PreflightError
from chsink.ports import BlockWriter
from statemachine.chunks import chunk, chunk_count, chunk_index
from statemachine.ranges import OffsetRange, TopicPartition
from statemachine.tokens import piece_token


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that does not fit: its index in the chunk, the column (None: all of it) and why, never the value."""

    row: int
    column: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one chunk for one shard, as they will be stored."""

    shard: int
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Prepared:
    """A chunk made ready: its pieces in shard order, and what did not fit."""

    pieces: tuple[Piece, ...]
    rejected: tuple[Rejected, ...] = ()


Prepare = Callable[[pa.Table, Assignment], Prepared]
"""Turns a chunk's records (columns topic, partition, offset and the payload) into pieces for the assignment's table."""


def one_thread() -> Executor:
    """What lands chunks in production: one thread beside the one that reads."""
    return ThreadPoolExecutor(1, thread_name_prefix="chsink-land")


@dataclass(frozen=True, slots=True)
class TaskContext:
    """What a task works with.

    ``planned`` are the batch's ranges: offsets outside them are refused.  ``writer_for`` gives the writer to the shards
    of an assignment's recorded layout.  ``executor`` lands one chunk while the next is read: one thing at a time.
    """

    task: int
    assignments: Mapping[TopicPartition, Assignment]
    planned: Mapping[TopicPartition, OffsetRange]
    prepare: Prepare
    writer_for: Callable[[Assignment], BlockWriter]
    halt_on_bad_value: bool
    max_chunk_bytes: int
    executor: Callable[[], Executor] = one_thread


def run_task(batches: Iterable[pa.RecordBatch], context: TaskContext) -> Ack:
    """Carry out the assignment of the one topic-partition that ``batches`` hold, if it has one."""
    reader = _Reader(context)
    acks: list[ChunkAck] = []
    error: ChsinkError | None = None
    try:
        for ack in _overlapped(reader.chunks(batches), lambda c: _land(c, context, reader), context.executor):
            acks.append(ack)  # noqa: PERF402 - the acks of chunks before an error are kept
    except ChsinkError as known:
        error = known
    failpoints.reach("task.after_chunks")
    tp = reader.topic_partition
    return Ack(
        context.task,
        None if tp is None else tp.topic,
        None if tp is None else tp.partition,
        tuple(acks),
        None if error is None else (error.id, error.message, error.hint, error.exit_code),
    )


@dataclass(slots=True)
class _Chunk:
    index: int
    offsets: OffsetRange
    parts: list[pa.RecordBatch] = field(default_factory=list)
    bytes: int = 0


@dataclass(slots=True)
class _Reader:
    """Checks the input and cuts it into chunks of the assigned range."""

    context: TaskContext
    topic_partition: TopicPartition | None = None
    last_offset: int = -1

    @property
    def assignment(self) -> Assignment | None:
        if self.topic_partition is None:
            return None
        return self.context.assignments.get(self.topic_partition)

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[_Chunk]:
        """The assigned range's chunks in order, empty ones too.  Nothing when no range is assigned."""
        current: _Chunk | None = None
        for batch in batches:
            if batch.num_rows == 0:
                continue
            offsets = self._check(batch)
            if self.assignment is None:
                continue
            current = current or self._chunk(0)
            for part, index in self._cut(batch, offsets):
                while current.index < index:
                    yield current
                    current = self._chunk(current.index + 1)
                self._add(current, part)
        if current is None and self.assignment is not None:
            current = self._chunk(0)
        while current is not None:
            yield current
            current = self._next(current)

    def _next(self, current: _Chunk) -> _Chunk | None:
        assert self.assignment is not None
        record = self.assignment.record
        last = chunk_count(record.range, record.chunk_offsets) - 1
        return self._chunk(current.index + 1) if current.index < last else None

    def _chunk(self, index: int) -> _Chunk:
        assert self.assignment is not None
        record = self.assignment.record
        return _Chunk(index, chunk(record.range, record.chunk_offsets, index))

    def _add(self, current: _Chunk, part: pa.RecordBatch) -> None:
        current.parts.append(part)
        current.bytes += part.nbytes
        if current.bytes > self.context.max_chunk_bytes:
            raise HaltError(
                "CHS-603",
                f"{self.topic_partition}: chunk {current.offsets} holds more than {self.context.max_chunk_bytes} bytes",
                "raise clickhouse.max_chunk_bytes until this range is settled, then lower clickhouse.chunk_offsets",
            )

    def _cut(self, batch: pa.RecordBatch, offsets: np.ndarray) -> Iterator[tuple[pa.RecordBatch, int]]:
        """The parts of the batch inside the assigned range, each in one chunk."""
        assert self.assignment is not None
        record = self.assignment.record
        low, high = (int(i) for i in np.searchsorted(offsets, [record.start, record.end]))
        while low < high:
            index = chunk_index(record.range, record.chunk_offsets, int(offsets[low]))
            end = chunk(record.range, record.chunk_offsets, index).end
            stop = int(np.searchsorted(offsets, end))
            yield batch.slice(low, stop - low), index
            low = stop

    def _check(self, batch: pa.RecordBatch) -> np.ndarray:
        """One topic-partition, ascending offsets, inside the plan.  Returns the offsets."""
        tp = TopicPartition(batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py())
        if self.topic_partition is None:
            self.topic_partition = tp
        one = (
            tp == self.topic_partition
            and pc.all(pc.equal(batch.column("topic"), tp.topic)).as_py()
            and pc.all(pc.equal(batch.column("partition"), tp.partition)).as_py()
        )
        if not one:
            raise _not_alone(f"a task holds records of {self.topic_partition} and of other topic-partitions")
        if batch.column("offset").null_count:
            raise _not_alone(f"records of {tp} have no offset")
        offsets: np.ndarray = batch.column("offset").to_numpy()
        if offsets[0] < self.last_offset or bool((np.diff(offsets) < 0).any()):
            raise _not_alone(f"the offsets of {tp} are not in ascending order")
        planned = self.context.planned.get(tp)
        if planned is None or offsets[0] < planned.start or offsets[-1] >= planned.end:
            raise _not_alone(f"records of {tp} lie outside the planned range {planned}")
        self.last_offset = int(offsets[-1])
        return offsets


def _not_alone(what: str) -> PreflightError:
    return PreflightError(
        "CHS-602",
        what,
        "keep one topic-partition per task, in offset order: remove minPartitions, maxRecordsPerPartition, "
        "repartition, coalesce, joins and sorts, and pass topic, partition and offset through unchanged",
    )


def _overlapped(
    chunks: Iterator[_Chunk], land: Callable[[_Chunk], ChunkAck], executor: Callable[[], Executor]
) -> Iterator[ChunkAck]:
    """Land each chunk on one worker while the next one is read; acks in order.

    The read-ahead error of chunk k+1 is raised only after the ack of chunk k.
    """
    with executor() as pool:
        under_way: Future[ChunkAck] | None = None
        try:
            for item in chunks:
                if under_way is not None:
                    yield under_way.result()
                under_way = pool.submit(land, item)
        finally:
            if under_way is not None:
                yield under_way.result()


def _land(item: _Chunk, context: TaskContext, reader: _Reader) -> ChunkAck:
    """Prepare the chunk and insert its pieces, each under its token."""
    if not item.parts:
        return ChunkAck(item.offsets.start, item.offsets.end)
    assignment, tp = reader.assignment, reader.topic_partition
    assert assignment is not None
    assert tp is not None
    table = pa.Table.from_batches(item.parts)
    item.parts.clear()
    prepared = context.prepare(table, assignment)
    first_rejected = _first(tp, table, prepared.rejected) if prepared.rejected else ""
    if first_rejected and context.halt_on_bad_value:
        raise _bad_value(first_rejected, len(prepared.rejected))
    rows = size = retries = inserts = 0
    writer = context.writer_for(assignment)
    failpoints.reach("task.before_insert")
    for piece in prepared.pieces:
        if assignment.record.probe and _already_there(piece, item, assignment, writer):
            continue
        token = piece_token(assignment.key, assignment.record, item.index, piece.shard)
        result = writer.insert(piece.shard, assignment.key.table, piece.batch, token, assignment.deadline_ms)
        rows, size, retries, inserts = rows + result.rows, size + result.bytes, retries + result.retries, inserts + 1
    failpoints.reach("task.after_insert")
    return ChunkAck(
        item.offsets.start,
        item.offsets.end,
        table.num_rows,
        rows,
        len(prepared.rejected),
        size,
        inserts,
        retries,
        first_rejected,
    )


def _already_there(piece: Piece, item: _Chunk, assignment: Assignment, writer: BlockWriter) -> bool:
    """When tokens cannot be trusted: whether the whole piece is in the table.  Halts when only a part of it is."""
    key = assignment.key
    with asking_target():
        there = writer.count(piece.shard, key.table, key.topic_partition, item.offsets)
    if there in (0, piece.batch.num_rows):
        return there != 0
    raise HaltError(
        "CHS-314",
        f"{key.topic_partition} {item.offsets}: shard {piece.shard} of {key.table} holds {there} of the piece's "
        f"{piece.batch.num_rows} rows, and its deduplication token may be forgotten",
        "remove or complete these rows by hand, then say so with `chsink state resolve`",
    )


def _first(tp: TopicPartition, table: pa.Table, rejected: tuple[Rejected, ...]) -> str:
    first = rejected[0]
    offset = table.column("offset")[first.row].as_py()
    where = f"column {first.column!r}: " if first.column else ""
    return f"topic {tp.topic!r} partition {tp.partition} offset {offset}: {where}{first.reason}"


def _bad_value(first: str, count: int) -> ChsinkError:
    more = f" (and {count - 1} more in this chunk)" if count > 1 else ""
    return HaltError(
        "CHS-501",
        f"{first}{more}",
        'pass such records over with errors.on_bad_value = "skip"; or change the column, and have the range, which is '
        "in doubt, sent anew (`chsink state resolve --help`)",
    )
