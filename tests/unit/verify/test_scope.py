"""Of which offsets the state says that their rows are there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chsink.statemachine import writes
from chsink.statemachine.parts import Seen, Sending, TopicLife
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Phase, StateRecord
from chsink.verify.scope import Scope, SkipReason, Unjudged, holds_still, scope_of, without

LANDED = StateRecord(Phase.AFTER, 1, "a", 80, 100, life=TopicLife("t", first=10))
DOUBT = replace(LANDED, phase=Phase.BEFORE)
LOG = OffsetRange(0, 500)
EMPTY = writes.empty(1, "a")


def ranges(*pairs: tuple[int, int]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(*pair) for pair in pairs)


def test_judged_is_what_landed_and_nothing_beyond() -> None:
    ahead = Unjudged(OffsetRange(100, 500), SkipReason.NOT_LANDED)
    assert scope_of(LANDED, "t", LOG) == Scope(ranges((10, 100)), (ahead,))
    assert scope_of(LANDED, "t", OffsetRange(0, 100)) == Scope(ranges((10, 100)))
    doubt = scope_of(DOUBT, "t", LOG)
    assert doubt == Scope(ranges((10, 80)), (Unjudged(OffsetRange(80, 100), SkipReason.IN_DOUBT), ahead))


@pytest.mark.parametrize("record", [None, EMPTY])
def test_nothing_is_judged_where_nothing_landed(record: StateRecord | None) -> None:
    assert scope_of(record, "t", LOG) == Scope((), (Unjudged(LOG, SkipReason.NOT_LANDED),))


def test_gaps_and_deleted_records_are_left_out_and_named() -> None:
    record = replace(LANDED, gaps=ranges((20, 30), (50, 55)))
    scope = scope_of(record, "t", OffsetRange(25, 500))
    assert scope.judged == ranges((30, 50), (55, 100))
    assert [(u.range.start, u.range.end, u.why) for u in scope.unjudged] == [
        (10, 20, SkipReason.DELETED),
        (20, 30, SkipReason.GAP),
        (50, 55, SkipReason.GAP),
        (100, 500, SkipReason.NOT_LANDED),
    ]
    assert scope_of(LANDED, "t", OffsetRange(200, 500)).judged == ()
    shrunk = scope_of(LANDED, "t", OffsetRange(0, 60))
    assert shrunk == Scope(ranges((10, 60)), (Unjudged(OffsetRange(60, 100), SkipReason.DELETED),))


def test_of_another_topic_with_the_same_name_nothing_is_judged() -> None:
    assert scope_of(LANDED, "u", LOG) == Scope((), (Unjudged(OffsetRange(10, 100), SkipReason.RECREATED),))
    assert scope_of(LANDED, None, LOG).judged == ranges((10, 100)), "a broker without ids"


def test_what_is_asked_for_is_clipped_and_the_rest_of_it_named() -> None:
    scope = scope_of(LANDED, "t", LOG, OffsetRange(5, 120))
    assert scope.judged == ranges((10, 100))
    assert [u.why for u in scope.unjudged] == [SkipReason.EARLIER, SkipReason.NOT_LANDED]
    assert scope_of(DOUBT, "t", LOG, OffsetRange(30, 40)) == Scope(ranges((30, 40)))
    assert scope_of(DOUBT, "t", LOG, OffsetRange(85, 90)).judged == ()


def test_rows_of_earlier_incarnations_may_lie_below_their_end() -> None:
    again = writes.reset(LANDED, epoch=2, attempt="b")
    said = writes.Announcement("t", Sending(10, "", ""), Seen(0))
    began = writes.after(
        writes.before(again, OffsetRange(0, 50), said, epoch=2, attempt="c", fresh=True), epoch=2, attempt="d"
    )
    ahead = (Unjudged(OffsetRange(50, 500), SkipReason.NOT_LANDED),)
    assert scope_of(began, "t", LOG) == Scope(ranges((0, 50)), ahead, older_end=100)
    assert scope_of(LANDED, "t", LOG).older_end == 0


@given(st.data())
def test_every_offset_that_is_asked_for_is_judged_or_named_once(data: st.DataObject) -> None:
    points = data.draw(st.lists(st.integers(0, 40), min_size=6, max_size=6, unique=True).map(sorted))
    phase = data.draw(st.sampled_from([Phase.BEFORE, Phase.AFTER]))
    first, a, b, start, end, low = (*points[:5], data.draw(st.integers(0, 45)))
    gap = OffsetRange(a, b)
    record = StateRecord(phase, 1, "a", start, end, gaps=(gap,), life=TopicLife("t", first=first))
    asked = OffsetRange(*sorted((data.draw(st.integers(0, 50)), data.draw(st.integers(0, 50)))))
    scope = scope_of(record, "t", OffsetRange(low, 60), asked)
    covered = [o for r in (*scope.judged, *(u.range for u in scope.unjudged)) for o in range(r.start, r.end)]
    assert sorted(covered) == list(range(asked.start, asked.end))
    done = start if phase is Phase.BEFORE else end
    judged = [o for r in scope.judged for o in range(r.start, r.end)]
    assert judged == [o for o in range(asked.start, asked.end) if max(first, low) <= o < done and not a <= o < b]


def test_a_running_job_only_adds_and_a_reset_takes_away() -> None:
    following = writes.before(
        LANDED, OffsetRange(100, 120), writes.Announcement("t", Sending(10, "", ""), Seen(0)), epoch=1, attempt="b"
    )
    assert holds_still(LANDED, following)
    assert holds_still(LANDED, writes.after(following, epoch=1, attempt="c"))
    assert holds_still(None, LANDED) and holds_still(EMPTY, LANDED)
    assert not holds_still(LANDED, writes.reset(LANDED, epoch=2, attempt="d"))
    assert not holds_still(LANDED, None)


def test_without_leaves_what_is_between() -> None:
    whole = OffsetRange(10, 20)
    assert without(whole, []) == [whole]
    assert without(whole, ranges((5, 12), (15, 16), (19, 30))) == list(ranges((12, 15), (16, 19)))
    assert without(whole, ranges((0, 50))) == []
