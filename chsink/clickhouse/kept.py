"""Did the table keep the pieces of a range in doubt?

Rules:
- Where tokens are doubted, each piece is looked for before it is sent, and after.
- Where they are trusted, the first piece on a shard is looked for once it was sent: if somebody moved parts, no other
  one is stored twice.  All others of the range are looked for by one question, after the last one was sent.
- A plain MergeTree may remember the token of an insert that failed: it notes the token before it stores the part.  So
  a piece whose first send failed or was not answered is looked for, too.
- One bit stands for an offset, in what was sent and in the answer: a range of millions of offsets stays small.
- The answer counts rows, too.  Where they are not one for each bit, or a bit is missing, the piece is asked for by
  itself, offset by offset.  So is a piece that has several rows of one record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.clickhouse.probe import (
    OFFSET,
    WORD,
    Presence,
    RowCounts,
    has_more,
    lacks,
    presence,
    rows_after,
    rows_of,
    rows_there,
)
from chsink.driver.roles import Assignment
from chsink.errors import ChsinkError, halts
from chsink.errors.entry import Entry
from chsink.ports import BlockWriter, InsertResult, Word
from chsink.refusals import asking_target
from chsink.statemachine.ranges import OffsetRange

NOTHING: Final = Word(0, 0)


@dataclass(frozen=True, slots=True)
class Refusals:
    """What is raised about rows of which the table holds a part, lacks some after they were sent, or holds too many."""

    incomplete: Entry
    dropped: Entry
    stored_again: Entry


OF_PIECES: Final = Refusals(
    incomplete=halts.PIECE_INCOMPLETE, dropped=halts.PIECE_DROPPED, stored_again=halts.PIECE_STORED_AGAIN
)


@dataclass(frozen=True, slots=True)
class ShardRange:
    """A range on one shard."""

    assignment: Assignment
    shard: int
    writer: BlockWriter
    refusals: Refusals = OF_PIECES

    def already_there(self, offsets: OffsetRange, piece: pa.RecordBatch) -> bool:
        """Whether the whole piece of the chunk is in the table, if tokens cannot be trusted.  Halts if a part is."""
        if not self.assignment.record.doubt.probe:
            return False
        there = rows_there(self.assignment, self.shard, self.writer, offsets)
        found = presence(piece, there)
        if found is Presence.PARTIAL:
            raise self._refused(self.refusals.incomplete, offsets, rows_of(piece), there)
        return found is Presence.COMPLETE

    def after(self, result: InsertResult) -> ShardRange:
        """The same, once a piece was sent.  If an earlier send was unsure, it is looked for like one sent again."""
        return replace(self, assignment=replace(self.assignment, again=True)) if result.unsure else self

    def check_kept(self, offsets: OffsetRange, sent: RowCounts) -> None:
        """Halts unless the table has each of these rows of the chunk once, as far as somebody has to look."""
        there = rows_after(self.assignment, self.shard, self.writer, offsets)
        if there is None:
            return
        if lacks(sent, there):
            raise self._refused(self.refusals.dropped, offsets, sent, there)
        if self.assignment.alone and has_more(sent, there):
            raise self._refused(self.refusals.stored_again, offsets, sent, there)

    def _refused(self, entry: Entry, offsets: OffsetRange, sent: RowCounts, there: RowCounts) -> ChsinkError:
        key = self.assignment.key
        known = {"tp": key.topic_partition, "offsets": offsets, "shard": self.shard, "table": key.table}
        known |= {"there": sum(there.values()), "rows": sum(sent.values())}
        return entry(**{name: known[name] for name in entry.parameters})


@dataclass(slots=True)
class SentAgain:
    """What was sent of a range to one shard: its chunks, and the bits of each by word."""

    place: ShardRange
    pieces: list[tuple[OffsetRange, dict[int, int]]] = field(default_factory=list)

    def add(self, offsets: OffsetRange, piece: pa.RecordBatch) -> None:
        """The piece of the next chunk."""
        words = _words(piece)
        if words is None:
            self.place.check_kept(offsets, rows_of(piece))
        else:
            self.pieces.append((offsets, words))

    def check(self) -> None:
        """HaltError unless the table has each row once, as far as it may be asked."""
        if not self.pieces:
            return
        at, whole = self.place, OffsetRange(self.pieces[0][0].start, self.pieces[-1][0].end)
        with asking_target():
            there = at.writer.recent_words(at.shard, at.assignment.topic_partition, whole)
        if there is None:
            return
        for offsets, words in self.pieces:
            if not all(_each_once(bits, there.get(word, NOTHING)) for word, bits in words.items()):
                at.check_kept(offsets, {o: 1 for word, bits in words.items() for o in _offsets(word, bits)})


@dataclass(frozen=True, slots=True)
class Kept:
    """What one task has sent of ranges in doubt and not looked for yet."""

    _sent: dict[tuple[str, int], SentAgain] = field(default_factory=dict)

    def sent(self, place: ShardRange, offsets: OffsetRange, piece: pa.RecordBatch) -> None:
        """The piece of this chunk was sent.  It is looked for now, or with the others, or not at all."""
        assignment = place.assignment
        if not (assignment.record.doubt.probe or (assignment.again and place.writer.can_probe(place.shard))):
            return
        name = str(assignment.key), place.shard
        if assignment.record.doubt.probe or name not in self._sent:
            self._sent[name] = SentAgain(place)
            place.check_kept(offsets, rows_of(piece))
        else:
            self._sent[name].add(offsets, piece)

    def check(self) -> None:
        """HaltError unless all is there once that was not looked for yet."""
        for sent in self._sent.values():
            sent.check()


def _words(piece: pa.RecordBatch) -> dict[int, int] | None:
    """A bit for each row; None where a record has several."""
    offsets = pc.cast(piece.column(OFFSET), pa.int64()).to_numpy(zero_copy_only=False)
    words, at = np.unique(offsets // WORD, return_inverse=True)
    bits = np.zeros(len(words), np.uint64)
    np.bitwise_or.at(bits, at, np.uint64(1) << (offsets % WORD).astype(np.uint64))
    found = dict(zip(words.tolist(), bits.tolist(), strict=True))
    return found if sum(b.bit_count() for b in found.values()) == piece.num_rows else None


def _each_once(sent: int, there: Word) -> bool:
    """Whether no bit is missing, and there are as many rows as bits."""
    return not sent & ~there.bits and there.rows == there.bits.bit_count()


def _offsets(word: int, bits: int) -> Iterator[int]:
    return (word * WORD + bit for bit in range(WORD) if bits >> bit & 1)
