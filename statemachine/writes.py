"""How a record changes: the only constructors of new states, each asserting that state never moves backwards.

Every function returns a new record; ``epoch`` and ``attempt`` are the writer's.  A retry of one write keeps its
attempt, so a late, forgotten copy of the write can match nothing once a newer attempt is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from .ranges import OffsetRange
from .records import MAX_GAPS, Mark, Phase, StateRecord
from .table import choice_of
from .unknown import added


@dataclass(frozen=True, slots=True)
class Announcement:
    """What BEFORE says about a range besides its offsets: all that a retry must repeat (see ``StateRecord``)."""

    topic_id: str | None
    chunk_offsets: int
    layout: str
    pipeline: str
    before_at: int
    marks: tuple[Mark, ...] = ()


def empty(epoch: int, attempt: str, incarnation: int = 0, *, older_end: int = 0, late: bool = False) -> StateRecord:
    """A row that exists and announces nothing."""
    return StateRecord(Phase.EMPTY, epoch, attempt, incarnation=incarnation, older_end=older_end, late=late)


def joined(sibling: StateRecord, replaced: StateRecord | None = None, *, epoch: int, attempt: str) -> StateRecord:
    """The row of a table that begins where ``sibling``, another table of the topic-partition, ends.

    ``replaced`` is its row from before it was left.
    """
    assert sibling.phase is not Phase.EMPTY and sibling.epoch <= epoch, sibling
    assert replaced is None or replaced.left, replaced
    anew = empty(epoch, attempt) if replaced is None else reset(replaced, epoch=epoch, attempt=attempt)
    last, topic_id, layout = sibling.end - 1, sibling.topic_id, sibling.layout
    said = Announcement(topic_id, sibling.chunk_offsets, layout, pipeline="", before_at=0)
    begun = before(anew, OffsetRange(last, sibling.end), said, epoch=epoch, attempt=attempt, fresh=True)
    return after(begun, epoch=epoch, attempt=attempt)


def before(
    record: StateRecord,
    asked: OffsetRange,
    said: Announcement,
    *,
    epoch: int,
    attempt: str,
    fresh: bool = False,
    gap: OffsetRange | None = None,
) -> StateRecord:
    """Announce ``asked``.  It must follow the recorded range, unless ``fresh`` starts a new incarnation, which it gives
    its nonce.

    ``gap`` holds the offsets between the recorded range and ``asked``, lost by Kafka: the same write records them.
    With more than ``MAX_GAPS``, the processed region is cut after the oldest one: offsets before it are refused if they
    are offered again, never treated as processed.

    Fields without a column are counted from zero where the pipeline is another: the table may have columns for them.
    """
    assert not record.in_doubt and not asked.is_empty and record.epoch <= epoch, (record, asked)
    assert gap is None or (gap.start == record.end and not fresh), (record, asked, gap)
    follows = asked.start == (record.end if gap is None else gap.end)
    assert fresh or (record.phase is Phase.AFTER and follows), (record, asked, gap)
    recreated = fresh and record.phase is not Phase.EMPTY
    same_choice = not fresh and choice_of(record.pipeline) == choice_of(said.pipeline)
    gaps = record.gaps if gap is None else (*record.gaps, gap)
    first, gaps = (asked.start, ()) if fresh else _bounded(record.first, gaps)
    return StateRecord(
        Phase.BEFORE,
        epoch,
        attempt,
        topic_id=said.topic_id,
        incarnation=record.incarnation + recreated,
        first=first,
        start=asked.start,
        end=asked.end,
        gaps=gaps,
        chunk_offsets=said.chunk_offsets,
        layout=said.layout,
        pipeline=said.pipeline,
        before_at=said.before_at,
        marks=said.marks,
        nonce=attempt if fresh else record.nonce,
        older_end=record.known_end if recreated else record.older_end,
        late=record.late,
        skipped=0 if fresh else record.skipped,
        dead_letters=0 if fresh else record.dead_letters,
        choice_from=record.choice_from if same_choice else asked.start,
        unknown=() if fresh or said.pipeline != record.pipeline else record.unknown,
    )


def chosen(
    record: StateRecord, offsets: tuple[int, ...], said: Announcement, *, epoch: int, attempt: str
) -> StateRecord:
    """Announce the replay of the dead letters at these offsets (ascending, at least one), as an incarnation of its own:
    offsets of one replay may lie before or between those of another.
    """
    asked = OffsetRange(offsets[0], offsets[-1] + 1)
    return replace(before(record, asked, said, epoch=epoch, attempt=attempt, fresh=True), only=offsets)


def after(
    record: StateRecord,
    *,
    epoch: int,
    attempt: str,
    log_start: int = 0,
    skipped: int = 0,
    dead_letters: int = 0,
    unknown: Mapping[str, int] = MappingProxyType({}),
) -> StateRecord:
    """All of the announced range landed, but for records that did not fit: ``skipped`` and ``dead_letters``.  With
    ``expired``, what lies below ``log_start`` is recorded as a gap.  ``unknown`` counts fields without a column.
    """
    assert record.in_doubt and record.epoch <= epoch, record
    first, gaps = record.first, record.gaps
    if record.expired and log_start > record.start:
        first, gaps = _bounded(first, (*gaps, OffsetRange(record.start, min(log_start, record.end))))
    settled = replace(record, phase=Phase.AFTER, probe=False, expired=False, deleted=(), only=())
    return replace(
        settled,
        first=first,
        gaps=gaps,
        epoch=epoch,
        attempt=attempt,
        skipped=record.skipped + skipped,
        dead_letters=record.dead_letters + dead_letters,
        unknown=added(record.unknown, unknown),
    )


def renew(record: StateRecord, *, before_at: int, marks: tuple[Mark, ...], epoch: int, attempt: str) -> StateRecord:
    """Announce a range in doubt again, to be probed.  ``marks`` are what the target holds now: whatever was sent before
    them is found by the probe, whatever is sent after them is remembered.
    """
    assert record.in_doubt, record
    assert record.before_at <= before_at and record.epoch <= epoch, record
    return replace(record, before_at=before_at, marks=marks, probe=True, epoch=epoch, attempt=attempt)


def with_more(record: StateRecord, *, pipeline: str, mark: Mark | None, epoch: int, attempt: str) -> StateRecord:
    """From now on, records of a range in doubt may become dead letters that no older sender of the range delivered, or
    fill columns of which none sent a value.  ``mark`` is what the table of dead letters holds now, None where they go
    elsewhere, or where the record has that mark.
    """
    assert record.in_doubt and record.epoch <= epoch, record
    marks = record.marks if mark is None else (*record.marks, mark)
    return replace(record, pipeline=pipeline, marks=marks, epoch=epoch, attempt=attempt)


def left(record: StateRecord, *, epoch: int, attempt: str) -> StateRecord:
    """A batch has landed without the table: no route leads to it.  See ``statemachine.choices``."""
    assert not record.in_doubt and record.epoch <= epoch, record
    return replace(record, left=True, epoch=epoch, attempt=attempt)


def adopt(record: StateRecord, *, epoch: int, attempt: str, routed: bool = False) -> StateRecord:
    """Take over the record unchanged: its old owner's next write will be refused.

    If a route leads to a table that was left, others wait for it again, and what it took before does not matter.
    """
    assert record.epoch <= epoch, record
    back = replace(record, left=False, pipeline="") if record.left and routed else record
    return replace(back, epoch=epoch, attempt=attempt)


# --- decided by a person ---------------------------------------------------------------------------------------------


def lost(record: StateRecord, *, epoch: int, attempt: str) -> StateRecord:
    """Give up the announced range: nothing more of it will land, and it is recorded as a gap."""
    first, gaps = _bounded(record.first, (*record.gaps, record.range))
    return replace(after(record, epoch=epoch, attempt=attempt), first=first, gaps=gaps)


def expired(record: StateRecord, *, epoch: int, attempt: str) -> StateRecord:
    """Give up what Kafka no longer holds of the announced range; the rest is still to land, under its tokens."""
    assert record.in_doubt and record.epoch <= epoch, record
    return replace(record, expired=True, epoch=epoch, attempt=attempt)


def deleted(record: StateRecord, until: int, *, epoch: int, attempt: str) -> StateRecord:
    """Kafka no longer holds what lies below ``until``: it is given up, and listed with the dead letters.  The next
    start may find more gone; what was listed once stays as it is.
    """
    assert record.in_doubt and record.epoch <= epoch, record
    assert (record.start, *record.deleted)[-1] < until <= record.end, (record, until)
    return replace(record, expired=True, deleted=(*record.deleted, until), epoch=epoch, attempt=attempt)


def resend(
    record: StateRecord,
    said: Announcement,
    *,
    most: int,
    epoch: int,
    attempt: str,
) -> StateRecord:
    """No row of the announced range is there: announce it again under a new nonce (so under tokens that were never
    sent), with the current chunk size.  Only the first ``most`` offsets are announced; those behind them are new again.

    The old tokens may still be remembered for rows that somebody has removed since; pieces under them would be dropped.
    ``said.before_at`` is now, by a clock that may lag behind the driver's.
    """
    assert record.in_doubt and record.epoch <= epoch, record
    return replace(
        record,
        epoch=epoch,
        attempt=attempt,
        nonce=attempt,
        end=min(record.end, record.start + most),
        topic_id=said.topic_id,
        chunk_offsets=said.chunk_offsets,
        layout=said.layout,
        pipeline=said.pipeline,
        before_at=max(said.before_at, record.before_at),
        marks=said.marks,
        probe=False,
        expired=False,
        deleted=(),
    )


def with_new_tokens(record: StateRecord, *, epoch: int, attempt: str) -> StateRecord:
    """The same record with a new nonce: whatever is sent next has tokens that were never sent, because the table may
    remember those of removed rows beyond the record.  If a range is in doubt, none of its rows may be there.
    """
    assert record.phase is not Phase.EMPTY and record.epoch <= epoch, record
    return replace(record, nonce=attempt, epoch=epoch, attempt=attempt)


def reset(record: StateRecord, *, epoch: int, attempt: str) -> StateRecord:
    """Forget what landed.  Whatever lands next is another incarnation: no older token names it."""
    assert record.epoch <= epoch, record
    return empty(epoch, attempt, record.incarnation + 1, older_end=record.known_end)


def recovered(
    record: StateRecord,
    landed: OffsetRange,
    said: Announcement,
    *,
    incarnation: int,
    epoch: int,
    attempt: str,
    doubtful: OffsetRange | None = None,
) -> StateRecord:
    """State rebuilt from the table's rows, which cover ``landed``.  ``incarnation`` is one that was never used.

    ``doubtful``, its end if there is one, is in doubt: rows of it are missing.  Those that are there count as its own.
    """
    assert record.phase is Phase.EMPTY and incarnation > record.incarnation and not landed.is_empty, (record, landed)
    announced = before(record, landed, said, epoch=epoch, attempt=attempt, fresh=True)
    done = replace(announced, incarnation=incarnation, older_end=max(record.older_end, landed.end))
    if doubtful is None:
        return after(done, epoch=epoch, attempt=attempt)
    assert landed.covers(doubtful) and doubtful.end == landed.end, (landed, doubtful)
    return replace(done, start=doubtful.start, older_end=doubtful.start, probe=True)


def _bounded(first: int, gaps: tuple[OffsetRange, ...]) -> tuple[int, tuple[OffsetRange, ...]]:
    """No more gaps than a record holds: the processed region then begins after the oldest one."""
    return (first, gaps) if len(gaps) <= MAX_GAPS else (gaps[0].end, gaps[1:])
