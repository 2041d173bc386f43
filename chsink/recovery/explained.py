"""Why does an offset have no row, although Kafka holds a record there?  The records are decoded as the job does it.

Rules:
- A record is *explained* if a dead letter holds it, if the job skips it (``errors.on_bad_value``,
  ``errors.on_tombstone``), or if ``table_by`` gives it to another table.  Every other record is *unexplained*.
- A program's transform is not known here.  A record that has a row, and that this decoder would skip or give to another
  table, shows that there is one.  Then the decoder explains nothing.  So where it could explain anything, every record
  from the first hole on is decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chsink.clickhouse.pieces import Prepared
from chsink.clickhouse.probe import OFFSET
from chsink.dlq.fates import Fate, Fates
from chsink.kafka.exact import ExactReader
from chsink.recovery.landed import SLICE, QueriedTable, present
from chsink.statemachine.ranges import OffsetRange, TopicPartition

I64 = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
Prepare = Callable[[pa.RecordBatch], Prepared]
"""What the job makes of records, without a transform."""
NONE: I64 = np.empty(0, np.int64)
NO_SHARD = -1
NEAR = 10_000
"""Holes closer than this are read through rather than sought one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Means:
    """What can explain a record.  ``prepare`` is None if the table's columns do not fit the route's format.

    ``chooses``: a ``table_by`` chooses the table.  ``letters``: offsets that have a dead letter, ascending.
    """

    prepare: Prepare | None
    fates: Fates
    chooses: bool = False
    letters: I64 = field(default_factory=lambda: NONE)

    @property
    def by_decoder(self) -> bool:
        """Whether the decoder can explain any record."""
        skips = Fate.SKIP in (self.fates.bad_value, self.fates.tombstone)
        return self.prepare is not None and (self.chooses or skips)


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """The ``unexplained`` offsets, ascending, and how many the decoder explains.

    ``unread``: what Kafka holds from this offset on cannot be read yet.
    """

    unexplained: I64
    explained: int = 0
    unread: int | None = None


def explain(
    reader: ExactReader,
    tp: TopicPartition,
    missing: Sequence[OffsetRange],
    tables: Sequence[QueriedTable],
    *,
    end: int,
    means: Means,
) -> Told:
    """Which records of the ``missing`` ranges (ascending) should have a row in ``tables``, the shards.  Rows follow up
    to ``end``.
    """
    offsets, excused, foreign = [NONE], [np.empty(0, np.bool_)], False
    for window in windows(missing, end, whole=means.by_decoder):
        hole = mask_of(missing, window)
        rows = present(tables, tp, window) if means.by_decoder else np.zeros(window.length, np.bool_)
        for part in reader.read(tp, window):
            if part.gone:
                asked = np.flatnonzero(hole[part.range.start - window.start : part.range.end - window.start])
                if len(asked):
                    return Told(NONE, unread=part.range.start + int(asked[0]))
                continue
            found = part.records.column("offset").to_numpy()
            made, without = _fates_of(part.records, means) if means.by_decoder else (None, None)
            if made is not None:
                foreign = foreign or bool((rows[found - window.start] & ~made).any())
            asked = hole[found - window.start]
            offsets.append(found[asked])
            excused.append(np.zeros(int(asked.sum()), np.bool_) if without is None else without[asked])
    every, left_out = np.concatenate(offsets), np.concatenate(excused) & (not foreign)
    return Told(every[~left_out], int(left_out.sum()))


def first_halting(reader: ExactReader, tp: TopicPartition, offsets: OffsetRange, means: Means) -> int:
    """The first offset whose record becomes a dead letter and has none in the topic; their end if there is none."""
    for part in reader.read(tp, offsets) if means.prepare is not None and not offsets.is_empty else ():
        found = part.records.column("offset").to_numpy()
        rejected = means.prepare(part.records).rejected if means.prepare is not None and len(found) else ()
        dead = np.array([bad.row for bad in rejected if means.fates.of(bad) is Fate.DEAD_LETTER], np.int64)
        lacking = found[dead][~np.isin(found[dead], means.letters)]
        if len(lacking):
            return int(lacking[0])
    return offsets.end


def shards_of(
    reader: ExactReader, tp: TopicPartition, span: OffsetRange, tables: Sequence[QueriedTable], prepare: Prepare | None
) -> tuple[I64, int | None]:
    """For each offset of the span the shard of its record, and the last row that lies on another shard."""
    if len(tables) == 1:
        return np.zeros(span.length, np.int64), None
    shards, wrong = np.full(span.length, NO_SHARD, np.int64), NONE
    for part in reader.read(tp, span) if prepare is not None else ():
        if part.records.num_rows and prepare is not None:
            for piece in prepare(part.records).pieces:
                shards[_offsets(piece.batch) - span.start] = piece.shard
    for number, table in enumerate(tables):
        there = np.flatnonzero(present([table], tp, span))
        wrong = np.append(wrong, there[shards[there] != number])
    return shards, int(wrong.max()) + span.start if len(wrong) else None


def mask_of(ranges: Iterable[OffsetRange], window: OffsetRange) -> _Mask:
    """For each offset of the window, whether it lies in a range."""
    mask = np.zeros(window.length, np.bool_)
    for one in ranges:
        mask[max(0, one.start - window.start) : max(0, one.end - window.start)] = True
    return mask


def windows(missing: Sequence[OffsetRange], end: int, *, whole: bool) -> Iterator[OffsetRange]:
    """What has to be read: all up to the end, or only what lies near the holes (at least one, ascending)."""
    spans: list[OffsetRange] = []
    for hole in [OffsetRange(missing[0].start, end)] if whole else missing:
        if spans and hole.start - spans[-1].end <= NEAR:
            spans[-1] = OffsetRange(spans[-1].start, hole.end)
        else:
            spans.append(hole)
    for span in spans:
        for start in range(span.start, span.end, SLICE):
            yield OffsetRange(start, min(start + SLICE, span.end))


def _fates_of(records: pa.RecordBatch, means: Means) -> tuple[_Mask, _Mask]:
    """Which of the records have a row, and which are to have none."""
    made, without = np.zeros(records.num_rows, np.bool_), np.zeros(records.num_rows, np.bool_)
    if not records.num_rows or means.prepare is None:
        return made, without
    prepared = means.prepare(records)
    made = np.isin(
        records.column("offset").to_numpy(),
        np.concatenate([NONE, *(_offsets(piece.batch) for piece in prepared.pieces)]),
    )
    known = made.copy()
    for bad in prepared.rejected:
        known[bad.row], without[bad.row] = True, means.fates.of(bad) is Fate.SKIP
    return made, without | ~known if means.chooses else without


def _offsets(rows: pa.RecordBatch) -> I64:
    """A table whose state can be rebuilt has the column."""
    offsets: I64 = rows.column(OFFSET).cast(pa.int64()).to_numpy()
    return offsets
