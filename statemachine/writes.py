"""How a record changes: the only constructors of new states, each asserting that state never moves backwards.

Every function returns a new record; ``epoch`` and ``attempt`` are the writer's.  A retry of one write keeps its
attempt, so a late, forgotten copy of the write can match nothing once a newer attempt is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .parts import Expired, Mark, Seen, Sending, TableChoice, TopicLife, Unsettled
from .ranges import OffsetRange
from .records import MAX_GAPS, Phase, StateRecord
from .table import choice_of
from .tally import Tally


@dataclass(frozen=True, slots=True)
class Announcement:
    """What BEFORE says about a range besides its offsets (see ``StateRecord``)."""

    topic_id: str | None
    sent: Sending
    seen: Seen


def empty(epoch: int, attempt: str, life: TopicLife = TopicLife(), *, left: bool = False) -> StateRecord:
    """A row that exists and announces nothing."""
    return StateRecord(Phase.EMPTY, epoch, attempt, life.first, life.first, life=life, table_by=TableChoice(left=left))


def joined(sibling: StateRecord, replaced: StateRecord | None = None, *, epoch: int, attempt: str) -> StateRecord:
    """The row of a table that begins where ``sibling``, another table of the topic-partition, ends.

    ``replaced`` is its row from before it was left.
    """
    assert sibling.phase is not Phase.EMPTY and sibling.epoch <= epoch, sibling
    assert replaced is None or replaced.table_by.left, replaced
    anew = empty(epoch, attempt) if replaced is None else reset(replaced, epoch=epoch, attempt=attempt)
    last, sent = sibling.end - 1, replace(sibling.sent, pipeline="")
    said = Announcement(sibling.life.topic_id, sent, Seen())
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
    if fresh:
        record = _anew(record, asked.start, attempt)
    elif gap is not None:
        record = _with_gap(record, gap)
    same_choice = choice_of(record.sent.pipeline) == choice_of(said.sent.pipeline)
    same_pipeline = record.sent.pipeline == said.sent.pipeline
    return replace(
        record,
        phase=Phase.BEFORE,
        epoch=epoch,
        attempt=attempt,
        start=asked.start,
        end=asked.end,
        life=replace(record.life, topic_id=said.topic_id),
        sent=said.sent,
        seen=said.seen,
        table_by=TableChoice(record.table_by.since if same_choice else asked.start),
        tally=record.tally if same_pipeline else replace(record.tally, unknown=()),
    )


def replaying(
    record: StateRecord, offsets: tuple[int, ...], said: Announcement, *, epoch: int, attempt: str
) -> StateRecord:
    """Announce the replay of the dead letters at these offsets (ascending, at least one), as an incarnation of its own:
    offsets of one replay may lie before or between those of another.
    """
    asked = OffsetRange(offsets[0], offsets[-1] + 1)
    announced = before(record, asked, said, epoch=epoch, attempt=attempt, fresh=True)
    return replace(announced, doubt=Unsettled(only=offsets))


def after(
    record: StateRecord, *, epoch: int, attempt: str, log_start: int = 0, left_out: Tally = Tally()
) -> StateRecord:
    """All of the announced range landed, but for the records that were ``left_out``.  If what expired is given up, what
    lies below ``log_start`` is recorded as a gap.
    """
    assert record.in_doubt and record.epoch <= epoch, record
    if record.doubt.expired and log_start > record.start:
        record = _with_gap(record, OffsetRange(record.start, min(log_start, record.end)))
    tally = record.tally.plus(left_out)
    return replace(record, phase=Phase.AFTER, epoch=epoch, attempt=attempt, doubt=Unsettled(), tally=tally)


def renew(record: StateRecord, seen: Seen, *, epoch: int, attempt: str) -> StateRecord:
    """Announce a range in doubt again, to be probed.  ``seen`` is what the target holds now: whatever was sent before
    is found by the probe, whatever is sent after it is remembered.
    """
    assert record.in_doubt and record.epoch <= epoch, record
    doubt = replace(record.doubt, probe=True)
    return replace(record, epoch=epoch, attempt=attempt, seen=_not_earlier(record, seen), doubt=doubt)


def renew_tokens(record: StateRecord, seen: Seen, *, epoch: int, attempt: str) -> StateRecord:
    """The same for the list of a replay, under tokens that were never sent.  Its nonce stays, because its replay marks
    name it.  A list is one chunk however large chunks may be, and that size is part of each token.
    """
    sent = replace(record.sent, chunk_offsets=record.sent.chunk_offsets + 1)
    return replace(renew(record, seen, epoch=epoch, attempt=attempt), sent=sent)


def with_more(record: StateRecord, *, pipeline: str, mark: Mark | None, epoch: int, attempt: str) -> StateRecord:
    """From now on, records of a range in doubt may become dead letters that no older sender of the range delivered, or
    fill columns of which none sent a value.  ``mark`` is what the table of dead letters holds now, None where they go
    elsewhere, or where the record has that mark.
    """
    assert record.in_doubt and record.epoch <= epoch, record
    sent = replace(record.sent, pipeline=pipeline)
    seen = record.seen if mark is None else replace(record.seen, marks=(*record.seen.marks, mark))
    return replace(record, epoch=epoch, attempt=attempt, sent=sent, seen=seen)


def left(record: StateRecord, *, epoch: int, attempt: str) -> StateRecord:
    """A batch has landed without the table: no route leads to it.  See ``statemachine.choices``."""
    assert not record.in_doubt and record.epoch <= epoch, record
    return replace(record, epoch=epoch, attempt=attempt, table_by=replace(record.table_by, left=True))


def adopt(record: StateRecord, *, epoch: int, attempt: str, routed: bool = False) -> StateRecord:
    """Take over the record unchanged: its old owner's next write will be refused.

    If a route leads to a table that was left, others wait for it again, and what it took before does not matter.
    """
    assert record.epoch <= epoch, record
    if routed and record.table_by.left:
        table_by, sent = replace(record.table_by, left=False), replace(record.sent, pipeline="")
        record = replace(record, table_by=table_by, sent=sent)
    return replace(record, epoch=epoch, attempt=attempt)


# --- decided by a person ---------------------------------------------------------------------------------------------


def lost(record: StateRecord, *, epoch: int, attempt: str) -> StateRecord:
    """Give up the announced range: nothing more of it will land, and it is recorded as a gap."""
    return _with_gap(after(record, epoch=epoch, attempt=attempt), record.range)


def expired(record: StateRecord, *, epoch: int, attempt: str) -> StateRecord:
    """Give up what Kafka no longer holds of the announced range; the rest is still to land, under its tokens."""
    assert record.in_doubt and record.epoch <= epoch, record
    return replace(record, epoch=epoch, attempt=attempt, doubt=_given_up(record, record.deleted))


def deleted(record: StateRecord, until: int, *, epoch: int, attempt: str) -> StateRecord:
    """Kafka no longer holds what lies below ``until``: it is given up, and listed with the dead letters.  The next
    start may find more gone; what was listed once stays as it is.
    """
    assert record.in_doubt and record.epoch <= epoch, record
    doubt = _given_up(record, (*record.deleted, until))
    return replace(record, epoch=epoch, attempt=attempt, doubt=doubt)


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
    """
    assert record.in_doubt and record.epoch <= epoch, record
    return replace(
        record,
        epoch=epoch,
        attempt=attempt,
        end=min(record.end, record.start + most),
        life=replace(record.life, topic_id=said.topic_id, nonce=attempt),
        sent=said.sent,
        seen=_not_earlier(record, said.seen),
        doubt=replace(record.doubt, probe=False, expired=None),
    )


def with_new_tokens(record: StateRecord, *, epoch: int, attempt: str) -> StateRecord:
    """The same record with a new nonce: whatever is sent next has tokens that were never sent, because the table may
    remember those of removed rows beyond the record.  If a range is in doubt, none of its rows may be there.
    """
    assert record.phase is not Phase.EMPTY and record.epoch <= epoch, record
    return replace(record, epoch=epoch, attempt=attempt, life=replace(record.life, nonce=attempt))


def reset(record: StateRecord, *, epoch: int, attempt: str, left: bool = False) -> StateRecord:
    """Forget what landed, to land again from Kafka's first record on.  Whatever lands next is another incarnation: no
    older token names it.
    """
    assert record.epoch <= epoch, record
    life = TopicLife(incarnation=record.life.incarnation + 1, older_end=record.known_end, late=True)
    return empty(epoch, attempt, life, left=left)


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
    older = record.life
    assert record.phase is Phase.EMPTY and incarnation > older.incarnation and not landed.is_empty, (record, landed)
    announced = before(record, landed, said, epoch=epoch, attempt=attempt, fresh=True)
    life = replace(announced.life, incarnation=incarnation, older_end=max(older.older_end, landed.end))
    if doubtful is None:
        return after(replace(announced, life=life), epoch=epoch, attempt=attempt)
    assert landed.covers(doubtful) and doubtful.end == landed.end, (landed, doubtful)
    life = replace(life, older_end=doubtful.start)
    return replace(announced, start=doubtful.start, life=life, doubt=Unsettled(probe=True))


# --- parts of it -----------------------------------------------------------------------------------------------------


def _anew(record: StateRecord, first: int, nonce: str) -> StateRecord:
    """The topic-partition starts over at ``first``: nothing of what landed is processed any more."""
    life = replace(record.life, nonce=nonce, first=first)
    if record.phase is not Phase.EMPTY:
        life = replace(life, incarnation=life.incarnation + 1, older_end=record.known_end)
    return empty(record.epoch, record.attempt, life)


def _with_gap(record: StateRecord, gap: OffsetRange) -> StateRecord:
    """One gap more, but no more than a record holds: the processed region then begins after the oldest one."""
    oldest, *others = gaps = (*record.gaps, gap)
    if len(gaps) <= MAX_GAPS:
        return replace(record, gaps=gaps)
    return replace(record, gaps=tuple(others), life=replace(record.life, first=oldest.end))


def _not_earlier(record: StateRecord, seen: Seen) -> Seen:
    """``seen`` is of now, by a clock that may lag behind the one by which the range was announced."""
    return replace(seen, before_at=max(seen.before_at, record.seen.before_at))


def _given_up(record: StateRecord, deleted: tuple[int, ...]) -> Unsettled:
    """What is known of the range in doubt, once what Kafka no longer holds of it is given up."""
    return replace(record.doubt, expired=Expired(deleted))
