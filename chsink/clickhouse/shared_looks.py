"""What tables say they hold, for the sends of one task.

Each send needs an answer (:mod:`chsink.clickhouse.dedup_mark`).  Where a task has many small pieces, the question would
cost as much as the insert.  So an answer serves all sends that follow within ``SHARED_MS``.  Rules:
- A send that is repeated asks for itself, and so does each send of a range that was in doubt: the server may have been
  restarted meanwhile.
- What the task itself has sent since the answer counts as blocks of the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from chsink.clickhouse.dedup_mark import Look, look
from chsink.clickhouse.shards import InsertShard
from chsink.notation.sql import TableName
from chsink.ports import Clock
from chsink.statemachine.parts import Mark

SHARED_MS = 500
"""Much less than a server needs for a restart."""


@dataclass(slots=True)
class TimedLook:
    """What a table said, and when it was asked (steady ms).  ``sends`` relied on it."""

    look: Look
    asked_ms: int
    sends: int = 0

    def relied_on(self, fed: int) -> Mark:
        """What the table holds for one more send, if each earlier one has made a block there and in ``fed`` others."""
        mark = self.look.mark
        now = replace(mark, blocks=mark.blocks + self.sends, fed=mark.fed + self.sends * fed)
        self.sends += 1
        return now


@dataclass(slots=True)
class SharedLooks:
    """The last answer of each table on each server.  If they are not ``shared``, each send asks."""

    shared: bool = True
    _last: dict[tuple[str, TableName], TimedLook] = field(default_factory=dict)

    def of(self, at: InsertShard, clock: Clock, *, anew: bool) -> TimedLook:
        """The answer to a question that is asked now, or was less than ``SHARED_MS`` ago if not ``anew``.

        Raises what :func:`chsink.clickhouse.dedup_mark.looks` raises.
        """
        place, now_ms = (at.url, at.table.at), clock.steady_ms()
        answer = self._last.get(place)
        if anew or answer is None or answer.look.altered or now_ms - answer.asked_ms >= SHARED_MS:
            answer = TimedLook(look(at.client, at.table), now_ms)
            if self.shared:
                self._last[place] = answer
        return answer
