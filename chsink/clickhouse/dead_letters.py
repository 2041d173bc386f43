"""Dead letters in a ClickHouse table, delivered as one more piece of their chunk.

The table lies on the first endpoint.  A chunk's dead letters are one insert under one deduplication token, so all that
holds for pieces holds for them: the mark at BEFORE, the check before each send, the probe where the table may have
forgotten the token.  A probe counts only the letters of this sink and target table: others may use the same table.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from chsink.batch.model import Assignment
from chsink.clickhouse.probe import Presence, Rows, has_more, lacks, presence, rows_after, rows_of, rows_there
from chsink.clickhouse.table import TargetTable
from chsink.errors import ChsinkError, halts
from chsink.ports import BlockWriter, InsertResult
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey
from chsink.statemachine.tokens import letters_token

NOTHING = InsertResult(0, 0, 0)


@dataclass(frozen=True, slots=True)
class LettersTable:
    """The table of dead letters as a task is given it: the first endpoint's URLs, and what it is there."""

    urls: tuple[str, ...]
    table: TargetTable


@dataclass(frozen=True, slots=True)
class TableLetters:
    """:class:`chsink.dlq.letters.Delivery` by a writer, whose ``place`` is the table of dead letters."""

    writer: BlockWriter
    place: int

    def deliver(
        self, assignment: Assignment, chunk: int, offsets: OffsetRange, letters: pa.RecordBatch
    ) -> InsertResult:
        """See :class:`chsink.dlq.letters.Delivery`."""
        key, record = assignment.key, assignment.record
        if record.doubt.probe and self._are_there(assignment, offsets, letters):
            return NOTHING
        token = letters_token(key, record, chunk)
        result = self.writer.insert(self.place, key.table, letters, token, assignment.deadline_ms)
        self._check_kept(assignment, offsets, letters)
        return result

    def _are_there(self, assignment: Assignment, offsets: OffsetRange, letters: pa.RecordBatch) -> bool:
        """Halts if only some of them are."""
        there = rows_there(assignment, self.place, self.writer, offsets)
        found = presence(letters, there)
        if found is Presence.PARTIAL:
            raise _incomplete(assignment.key, offsets, letters, there)
        return found is Presence.COMPLETE

    def _check_kept(self, assignment: Assignment, offsets: OffsetRange, letters: pa.RecordBatch) -> None:
        """Halts unless the table has the dead letters once, as far as somebody has to look."""
        there = rows_after(assignment, self.place, self.writer, offsets)
        if there is None:
            return
        sent = rows_of(letters)
        if lacks(sent, there) or (assignment.alone and has_more(sent, there)):
            raise _incomplete(assignment.key, offsets, letters, there)


def _incomplete(key: StateKey, offsets: OffsetRange, letters: pa.RecordBatch, there: Rows) -> ChsinkError:
    found = {"there": sum(there.values()), "rows": letters.num_rows}
    return halts.DEAD_LETTERS_INCOMPLETE(tp=key.topic_partition, offsets=offsets, **found)
