"""The offsets whose rows are in the table according to the recorded state.

Rules:
- The run judges what the state calls done when it begins: the state only grows, so rows of these offsets are there
  from then on.  Ranges in doubt, recorded gaps and offsets that were never announced are not judged.
- Offsets below the end of earlier incarnations may hold rows of those as well as rows of the current one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Phase, StateRecord


class SkipReason(StrEnum):
    """Why offsets are not judged."""

    NOT_LANDED = "not landed yet"
    IN_DOUBT = "in doubt: the job settles them first"
    GAP = "a recorded gap: Kafka no longer held these records when the job reached them"
    EARLIER = "before the first offset that the job read since the last reset"
    DELETED = "Kafka no longer holds these records"
    RECREATED = "the topic was deleted and recreated: Kafka holds other records"
    CHANGED = "the recorded state was reset or recovered during the run"


@dataclass(frozen=True, slots=True, order=True)
class Unjudged:
    """Offsets that cannot be judged."""

    range: OffsetRange
    why: SkipReason


@dataclass(frozen=True, slots=True)
class Scope:
    """What is judged of one topic-partition: ascending ranges, apart from each other, and what is left out."""

    judged: tuple[OffsetRange, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    older_end: int = 0

    @property
    def offsets(self) -> int:
        """How many offsets are judged."""
        return sum(r.length for r in self.judged)


def scope_of(
    record: StateRecord | None, topic_id: str | None, log: OffsetRange, asked: OffsetRange | None = None
) -> Scope:
    """``log``: what Kafka holds now, of the topic with this id.  ``asked``: None for all of both."""
    if record is None or record.phase is Phase.EMPTY:
        return Scope(unjudged=_named([(asked or log, SkipReason.NOT_LANDED)]))
    whole = asked or OffsetRange(record.life.first, record.end)
    if record.is_of_another(topic_id):
        return Scope(unjudged=_named([(whole, SkipReason.RECREATED)]))
    done, waits_until = _done(record), log.end if asked is None else whole.end
    left_out = [
        (_clip(OffsetRange(0, record.life.first), whole), SkipReason.EARLIER),
        *((_clip(gap, whole), SkipReason.GAP) for gap in record.gaps),
        (_clip(OffsetRange(done, record.end), whole), SkipReason.IN_DOUBT),
        (OffsetRange(max(record.end, whole.start), max(record.end, whole.start, waits_until)), SkipReason.NOT_LANDED),
    ]
    landed = without(_clip(OffsetRange(record.life.first, done), whole), record.gaps)
    lost = [OffsetRange(0, log.start), OffsetRange(log.end, max(log.end, record.end))]
    left_out += [(_clip(r, hole), SkipReason.DELETED) for r in landed for hole in lost]
    judged = tuple(kept for r in landed for kept in without(r, lost))
    return Scope(judged, _named(left_out), record.life.older_end if record.life.incarnation else 0)


def holds_still(before: StateRecord | None, after: StateRecord | None) -> bool:
    """Whether what ``before`` calls done is done by ``after`` too: a job only adds to it, a person may reset it."""
    if before is None or before.phase is Phase.EMPTY:
        return True
    return after is not None and before.life.incarnation == after.life.incarnation and _done(before) <= _done(after)


def _done(record: StateRecord) -> int:
    """The end of what landed."""
    return record.start if record.in_doubt else record.end


def without(whole: OffsetRange, holes: Iterable[OffsetRange]) -> list[OffsetRange]:
    """What ``whole`` holds besides ``holes``, ascending."""
    left, at = [], whole.start
    for hole in sorted(holes):
        if hole.end <= at or hole.start >= whole.end:
            continue
        if hole.start > at:
            left.append(OffsetRange(at, hole.start))
        at = max(at, hole.end)
    if at < whole.end:
        left.append(OffsetRange(at, whole.end))
    return left


def _clip(part: OffsetRange, whole: OffsetRange) -> OffsetRange:
    start = min(max(part.start, whole.start), whole.end)
    return OffsetRange(start, max(start, min(part.end, whole.end)))


def _named(found: Iterable[tuple[OffsetRange, SkipReason]]) -> tuple[Unjudged, ...]:
    return tuple(Unjudged(r, why) for r, why in sorted(found) if not r.is_empty)
