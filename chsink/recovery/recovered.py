"""What ``recover`` found for one topic-partition: what its rows prove, and what of it is in doubt."""

from __future__ import annotations

from dataclasses import dataclass

from chsink.errors import ChsinkError
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey, StateRecord


@dataclass(frozen=True, slots=True)
class Doubt:
    """A rebuilt range that is to be probed: cut into chunks of this length.  ``missing`` are the offsets without a row
    that nothing explains.
    """

    range: OffsetRange
    chunk_offsets: int
    missing: tuple[OffsetRange, ...]

    @property
    def records(self) -> int:
        """How many are missing."""
        return sum(r.length for r in self.missing)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was found for one topic-partition: the range its rows prove, or why they prove nothing.

    ``replaced`` is the record whose place the rebuilt one takes, None where nothing is recorded.  ``kept``: it stays as
    it is, but for its tokens (:mod:`chsink.recovery.survey`).  ``doubt``: of the end of ``landed``, rows are missing.
    ``delivered``: below this offset, no dead letter has to be delivered to a topic again.
    """

    key: StateKey
    replaced: StateRecord | None
    landed: OffsetRange
    topic_id: str | None
    refusal: ChsinkError | None = None
    kept: bool = False
    doubt: Doubt | None = None
    delivered: int = 0
