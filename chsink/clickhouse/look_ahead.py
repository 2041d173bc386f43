"""The columns that all chunks of a task need, found at once.

A chunk with a field that has no column is not sent, and the batch starts over once the column is there.  So a backlog
whose chunks each bring a new field would start over for each of them.

Rules:
- After the first chunk that lacks a column, nothing more of the range is sent: the chunks behind it are only looked at.
- What they lack is reported with it, as far as the table has room.
- A chunk behind it that cannot be looked at ends the look: when the batch comes again, it says so itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from chsink.batch.model import Ack, ChunkAck
from chsink.batch.reader import Chunk
from chsink.batch.task import LandChunks
from chsink.clickhouse.unknown_fields import missing_columns
from chsink.errors import ChsinkError, preflight


@dataclass(slots=True)
class LookAhead:
    """:class:`chsink.batch.task.LandChunks` over ``land``.  ``look`` raises what ``land`` raises for missing columns,
    of which the table has ``room`` for so many.
    """

    land: LandChunks
    look: Callable[[Chunk], None]
    room: int
    _landed: int = 0
    _missing: ChsinkError | None = None
    _ended: bool = False

    def __call__(self, chunk: Chunk) -> ChunkAck:
        """Land the chunk, or only look at it."""
        if self._missing is None:
            try:
                ack = self.land(chunk)
            except ChsinkError as error:
                if not missing_columns(error):
                    raise
                self._missing = error
            else:
                self._landed += 1
                return ack
        elif chunk.parts and not self._ended:
            self._look(self._missing, chunk)
        return ChunkAck(chunk.offsets.start, chunk.offsets.end)

    def finish(self) -> None:
        """All were landed, or all will be sent and looked for again when the batch starts over."""
        if self._missing is None:
            self.land.finish()

    def _look(self, missing: ChsinkError, chunk: Chunk) -> None:
        try:
            self.look(chunk)
        except ChsinkError as error:
            [columns] = missing_columns(missing, error).values()
            parts = [kinds for one in (missing, error) for kinds in missing_columns(one).values()]
            self._ended = len(parts) < 2 or len(columns) > self.room
            if not self._ended:
                self._missing = preflight.COLUMNS_MISSING(**{**missing.params, "columns": json.dumps(columns)})

    def told(self, ack: Ack) -> Ack:
        """The task's answer: the chunks that landed, and what the others lack."""
        if self._missing is None:
            return ack
        return replace(ack, chunks=ack.chunks[: self._landed], error=(self._missing.name, self._missing.params))
