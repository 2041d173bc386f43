"""A task's input: the records of one topic-partition, checked, and cut by offset into chunks of the assigned range.

Rules:
- The task owns one topic-partition and reads its offsets in order; anything else is refused before it is handed on.
- A chunk is handed on only when it is complete: a later offset, or the end of the input, has been seen.  An input that
  is cut must raise, not end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.errors import stream
from chsink.statemachine.chunks import chunk, chunk_count, chunk_index
from chsink.statemachine.ranges import OffsetRange, TopicPartition


@dataclass(frozen=True, slots=True)
class Span:
    """What one task is to read of its topic-partition: a range, cut every ``chunk_offsets`` offsets."""

    range: OffsetRange
    chunk_offsets: int


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What the tasks of one batch may read, and what of it they are to hand on.

    ``planned`` are the batch's ranges: offsets outside them are refused.  A topic-partition without a span is read and
    left.
    """

    planned: Mapping[TopicPartition, OffsetRange]
    spans: Mapping[TopicPartition, Span]
    max_chunk_bytes: int


@dataclass(slots=True)
class Chunk:
    """One chunk's records, as the input brought them; ``parts`` is empty where the range has no record there."""

    topic_partition: TopicPartition
    index: int
    offsets: OffsetRange
    parts: list[pa.RecordBatch] = field(default_factory=list)
    bytes: int = 0

    def take(self) -> pa.RecordBatch:
        """The records as one batch, which the chunk then no longer holds."""
        table = pa.Table.from_batches(self.parts)
        self.parts = []
        # Arrow leaves a column beyond 2 GiB in several batches: a piece is never a part of a chunk.
        batches = table.combine_chunks().to_batches()
        assert len(batches) == 1, "max_chunk_bytes is below 2 GiB"
        return batches[0]


@dataclass(slots=True)
class TaskReader:
    """Checks the input and cuts it.  ``topic_partition`` is None until a record was seen."""

    plan: ReadPlan
    topic_partition: TopicPartition | None = None
    last_offset: int = -1

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Chunk]:
        """The assigned range's chunks in order, empty ones too.  Nothing when no range is assigned."""
        current: Chunk | None = None
        for batch in batches:
            if batch.num_rows == 0:
                continue
            offsets = self._check(batch)
            if self._span is None:
                continue
            current = current or self._chunk(0)
            for part, index in self._cut(batch, offsets):
                while current.index < index:
                    yield current
                    current = self._chunk(current.index + 1)
                self._add(current, part)
        if current is None and self._span is not None:
            current = self._chunk(0)
        while current is not None:
            yield current
            current = self._next(current)

    @property
    def _span(self) -> Span | None:
        return None if self.topic_partition is None else self.plan.spans.get(self.topic_partition)

    @property
    def _assigned(self) -> Span:
        assert self._span is not None
        return self._span

    def _next(self, current: Chunk) -> Chunk | None:
        last = chunk_count(self._assigned.range, self._assigned.chunk_offsets) - 1
        return self._chunk(current.index + 1) if current.index < last else None

    def _chunk(self, index: int) -> Chunk:
        assert self.topic_partition is not None
        return Chunk(self.topic_partition, index, chunk(self._assigned.range, self._assigned.chunk_offsets, index))

    def _add(self, current: Chunk, part: pa.RecordBatch) -> None:
        current.parts.append(part)
        current.bytes += part.nbytes
        if current.bytes > self.plan.max_chunk_bytes:
            raise stream.CHUNK_TOO_LARGE(
                tp=self.topic_partition, offsets=current.offsets, limit=self.plan.max_chunk_bytes
            )

    def _cut(self, batch: pa.RecordBatch, offsets: np.ndarray) -> Iterator[tuple[pa.RecordBatch, int]]:
        """The parts of the batch inside the assigned range, each in one chunk."""
        span = self._assigned
        low, high = (int(i) for i in np.searchsorted(offsets, [span.range.start, span.range.end]))
        while low < high:
            index = chunk_index(span.range, span.chunk_offsets, int(offsets[low]))
            end = chunk(span.range, span.chunk_offsets, index).end
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
            raise stream.TASK_MIXES(tp=self.topic_partition)
        if batch.column("offset").null_count:
            raise stream.OFFSET_MISSING(tp=tp)
        offsets: np.ndarray = batch.column("offset").to_numpy()
        if offsets[0] < self.last_offset or bool((np.diff(offsets) < 0).any()):
            raise stream.OFFSETS_DESCEND(tp=tp)
        planned = self.plan.planned.get(tp)
        if planned is None or offsets[0] < planned.start or offsets[-1] >= planned.end:
            raise stream.OUTSIDE_PLAN(tp=tp, planned=planned)
        self.last_offset = int(offsets[-1])
        return offsets
