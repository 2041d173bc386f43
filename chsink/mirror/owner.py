"""Who coordinates the mirror of a sink: the driver that claimed last.

Rules:
- The claim is the note of an offset in a group of its own, written in a transaction of the coordinator's transactional
  id.  So only the newest coordinator can claim, and a driver stays the owner until another driver claims.
- A driver checks the owner, claims, and then starts a coordinator: an older driver does not take the mirror back.
- A driver that finds another owner after its own claim ends.  A driver that was only fenced starts its coordinator
  again: Kafka also fences a producer that was suspended for longer than a transaction may last.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

from chsink.mirror.control import Names
from chsink.mirror.ports import GroupReader
from chsink.statemachine.ranges import TopicPartition


@dataclass(frozen=True, slots=True)
class CoordinatorClaim:
    """A claim: the ``epoch``-th, since ``since_ms``."""

    driver: str
    epoch: int
    since_ms: int

    def encode(self) -> str:
        """The note that is stored."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, note: str) -> Self | None:
        """The claim in a note; None for any other note."""
        try:
            found = json.loads(note)
            return cls(str(found["driver"]), int(found["epoch"]), int(found["since_ms"]))
        except (ValueError, KeyError, TypeError):
            return None


def read_owner(names: Names, group: GroupReader) -> CoordinatorClaim | None:
    """The current owner, from the owners' group.  Raises ``Unanswered``."""
    at = TopicPartition(names.topic, 0)
    return CoordinatorClaim.decode(group.notes([at])[at])
