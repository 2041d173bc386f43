"""Dead letters in a ClickHouse table, delivered as one more piece of their chunk.

The table lies on the first endpoint.  A chunk's dead letters are one insert under one deduplication token, so all that
holds for pieces holds for them: the mark at BEFORE, the check before each send, the probe where the table may have
forgotten the token.  A probe counts only the letters of this sink and target table: others may use the same table.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from chsink.clickhouse.kept import Refusals, ShardRange
from chsink.clickhouse.probe import rows_of
from chsink.clickhouse.table import TargetTable
from chsink.driver.roles import Assignment
from chsink.errors import halts
from chsink.ports import BlockWriter, InsertResult
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.tokens import letters_token

NOTHING = InsertResult(0, 0, 0)
_OF_LETTERS = Refusals(*[halts.DEAD_LETTERS_INCOMPLETE] * 3)


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
        key, place = assignment.key, ShardRange(assignment, self.place, self.writer, _OF_LETTERS)
        if place.already_there(offsets, letters):
            return NOTHING
        token = letters_token(key, assignment.record, chunk)
        result = self.writer.insert(self.place, key.table, letters, token, assignment.deadline_ms)
        place.after(result).check_kept(offsets, rows_of(letters))
        return result
