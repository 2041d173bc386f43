"""What a decision of a person makes of a record, and what the state machine then does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chsink.statemachine import writes
from chsink.statemachine.codec import decode, encode
from chsink.statemachine.parts import Expired, Mark, Seen, Sending, Unsettled
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import MAX_GAPS, Phase, StateKey, StateRecord
from chsink.statemachine.table import Facts, Halt, Policy, StepKind, decide, settle
from chsink.statemachine.tokens import piece_token

KEY = StateKey("s", "t", 0, "d.t")
SAID = writes.Announcement("id", Sending(10, "layout", "pipeline"), Seen(1000, (Mark(5, 1),)))
FACTS = Facts("id", 0, 1000, pipeline="pipeline")


def doubtful() -> StateRecord:
    """[10, 20) in doubt after [0, 10)."""
    done = writes.after(
        writes.before(writes.empty(1, "a"), OffsetRange(0, 10), SAID, epoch=1, attempt="b", fresh=True),
        epoch=1,
        attempt="c",
    )
    return writes.before(done, OffsetRange(10, 20), SAID, epoch=1, attempt="d")


def test_lost_is_done_with_and_kept_as_a_gap() -> None:
    record = writes.lost(doubtful(), epoch=2, attempt="e")

    assert (record.phase, record.range, record.gaps) == (Phase.AFTER, OffsetRange(10, 20), (OffsetRange(10, 20),))
    assert decode(encode(record)) == record


def test_after_lost_the_same_batch_is_skipped_and_the_next_one_written() -> None:
    record = writes.lost(doubtful(), epoch=2, attempt="e")

    same = decide(record, OffsetRange(10, 20), FACTS, Policy())
    following = decide(record, OffsetRange(20, 30), FACTS, Policy())

    assert [s.kind for s in same.steps] == [StepKind.SKIP]
    assert [(s.kind, s.range) for s in following.steps] == [(StepKind.WRITE, OffsetRange(20, 30))]


def test_what_was_lost_is_refused_when_it_is_offered_later() -> None:
    record = writes.lost(doubtful(), epoch=2, attempt="e")
    record = writes.before(record, OffsetRange(20, 30), SAID, epoch=2, attempt="f")

    assert decide(record, OffsetRange(12, 30), FACTS, Policy()).halt is Halt.OUTSIDE_PROCESSED


def test_what_expired_is_given_up_and_the_rest_is_settled() -> None:
    gone = Facts("id", 13, 1000, pipeline="pipeline")
    record = writes.expired(doubtful(), epoch=2, attempt="e")
    assert decode(encode(record)) == record
    assert record.range == doubtful().range

    assert settle(doubtful(), gone).halt is Halt.IN_DOUBT_LOST
    assert [(s.kind, s.range) for s in settle(record, gone).steps] == [(StepKind.SETTLE, OffsetRange(10, 20))]
    recreated = Facts("new", 0, 1000, pipeline="pipeline")
    assert settle(record, recreated).halt is Halt.IN_DOUBT_LOST

    kept = writes.after(record, epoch=2, attempt="f", log_start=10)
    some = writes.after(record, epoch=2, attempt="f", log_start=13)
    none = writes.after(record, epoch=2, attempt="f", log_start=90)
    assert [r.gaps for r in (kept, some, none)] == [(), (OffsetRange(10, 13),), (OffsetRange(10, 20),)]
    assert not kept.doubt.expired
    assert writes.after(doubtful(), epoch=1, attempt="f", log_start=13).gaps == ()


@pytest.mark.parametrize("planned", [OffsetRange(10, 20), OffsetRange(10, 30)])
def test_a_batch_does_not_send_again_what_kafka_lost_unless_it_was_given_up(planned: OffsetRange) -> None:
    gone = Facts("id", 13, 1000, pipeline="pipeline")
    given_up = writes.expired(doubtful(), epoch=2, attempt="e")
    assert decide(doubtful(), planned, gone, Policy()).halt is Halt.IN_DOUBT_LOST
    assert decide(given_up, planned, gone, Policy()).steps[0].kind is StepKind.REINSERT


@pytest.mark.parametrize(("log_start", "halt"), [(12, Halt.OUTSIDE_PROCESSED), (13, None)])
def test_a_later_round_passes_over_what_was_given_up_and_kafka_deleted(log_start: int, halt: Halt | None) -> None:
    """⚑ After a crash the whole batch is decided again, and its first round has a gap that nobody can land any more."""
    record = writes.after(writes.expired(doubtful(), epoch=2, attempt="e"), epoch=2, attempt="f", log_start=13)
    record = writes.before(record, OffsetRange(20, 30), SAID, epoch=2, attempt="g")
    record = writes.after(record, epoch=2, attempt="h")
    facts = Facts("id", log_start, 1000, pipeline="pipeline")
    decision = decide(record, OffsetRange(10, 40), facts, Policy())
    assert decision.halt is halt
    if halt is None:
        writing = [step.range for step in decision.steps if step.kind is StepKind.WRITE]
        assert writing == [OffsetRange(30, 40)]


def test_a_range_is_given_up_by_itself_where_the_job_file_says_so() -> None:
    """``errors.in_doubt``: only where ``--expired`` would help."""
    gone, lists = Facts("id", 13, 1000, pipeline="pipeline"), Policy(in_doubt="dead_letter")
    assert [s.kind for s in settle(doubtful(), gone, lists).steps] == [StepKind.SETTLE]
    assert decide(doubtful(), OffsetRange(10, 20), gone, lists).steps[0].kind is StepKind.REINSERT
    assert settle(doubtful(), replace(gone, topic_id="new", log_start=0), lists).halt is Halt.IN_DOUBT_LOST
    assert settle(doubtful(), replace(gone, pipeline="other"), lists).halt is Halt.PIPELINE_CHANGED


def test_what_is_deleted_is_found_in_runs_that_stay_as_they_were_listed() -> None:
    """⚑ A start after a crash finds more gone: what was listed before is not listed with other offsets."""
    first = writes.deleted(doubtful(), 13, epoch=2, attempt="e")
    more = writes.deleted(first, 20, epoch=2, attempt="f")
    assert decode(encode(more)) == more
    assert (first.deleted_runs, first.doubt.expired) == ((OffsetRange(10, 13),), Expired((13,)))
    assert more.deleted_runs == (OffsetRange(10, 13), OffsetRange(13, 20))
    with pytest.raises(AssertionError):
        writes.deleted(first, 13, epoch=2, attempt="f")
    done = writes.after(more, epoch=2, attempt="g", log_start=20)
    assert (done.gaps, done.doubt) == ((OffsetRange(10, 20),), Unsettled())


def test_lost_ranges_are_bounded_like_other_gaps() -> None:
    record = doubtful()
    for n in range(MAX_GAPS + 2):
        record = writes.lost(record, epoch=2, attempt=f"l{n}")
        record = writes.before(record, OffsetRange(record.end, record.end + 10), SAID, epoch=2, attempt=f"b{n}")

    assert len(record.gaps) == MAX_GAPS
    assert record.life.first <= record.gaps[0].start


def resent() -> StateRecord:
    return writes.resend(
        doubtful(),
        writes.Announcement("id", Sending(5, "new", "changed"), Seen(9000, (Mark(7, 1),))),
        most=10,
        epoch=2,
        attempt="e",
    )


def test_resend_keeps_the_range_and_takes_the_present_pipeline() -> None:
    record = resent()

    assert (record.phase, record.range, record.life.first, record.life.incarnation) == (
        Phase.BEFORE,
        OffsetRange(10, 20),
        0,
        0,
    )
    assert (record.sent.layout, record.sent.pipeline, record.seen.before_at, record.seen.marks) == (
        "new",
        "changed",
        9000,
        (Mark(7, 1),),
    )
    assert record.sent.chunk_offsets == 5
    decision = decide(record, OffsetRange(10, 20), Facts("id", 0, 1000, pipeline="changed"), Policy())
    assert [s.kind for s in decision.steps] == [StepKind.REINSERT]


def test_resend_uses_tokens_that_were_never_sent() -> None:
    """Rows of the old pieces may have been removed by hand; their tokens are still remembered."""
    old = doubtful()
    again = writes.resend(
        resent(),
        writes.Announcement("id", Sending(5, "layout", "pipeline"), Seen(9001, (Mark(7, 1),))),
        most=10,
        epoch=3,
        attempt="f",
    )

    tokens = {piece_token(KEY, r, 0, 0) for r in (old, resent(), again)}

    assert len(tokens) == 3


def test_resend_is_whole_whatever_was_given_up_before() -> None:
    given_up = writes.expired(doubtful(), epoch=2, attempt="e")
    said = writes.Announcement("id", Sending(5, "layout", "pipeline"), Seen(9000, ()))
    record = writes.resend(given_up, said, most=10, epoch=3, attempt="f")

    assert settle(record, Facts("id", 13, 1000, pipeline="pipeline")).halt is Halt.IN_DOUBT_LOST


def test_resend_of_more_chunks_than_fit_announces_the_first_and_the_rest_is_new() -> None:
    """⚑ the rest is written by the batch that brings the range again, or by a checkpoint that starts at the recorded end."""
    said = writes.Announcement("id", Sending(2, "new", "changed"), Seen(9000, (Mark(7, 1),)))
    record = writes.resend(doubtful(), said, most=4, epoch=2, attempt="e")

    assert record.range == OffsetRange(10, 14)
    facts = Facts("id", 0, 1000, pipeline="changed")
    for state, first in ((record, StepKind.REINSERT), (writes.after(record, epoch=2, attempt="f"), StepKind.SKIP)):
        steps = decide(state, OffsetRange(10, 20), facts, Policy()).steps
        assert [(s.kind, s.range) for s in steps] == [
            (first, OffsetRange(10, 14)),
            (StepKind.WRITE, OffsetRange(14, 20)),
        ]


def test_reset_starts_a_new_incarnation_with_other_tokens() -> None:
    record = writes.reset(doubtful(), epoch=2, attempt="e")

    assert (record.phase, record.life.incarnation) == (Phase.EMPTY, 1)
    anew = writes.before(record, OffsetRange(10, 20), SAID, epoch=2, attempt="f", fresh=True)
    assert anew.life.incarnation == 1
    assert piece_token(KEY, anew, 0, 0) != piece_token(KEY, doubtful(), 0, 0)


@pytest.mark.parametrize("record", [doubtful(), writes.after(doubtful(), epoch=1, attempt="e")])
def test_new_tokens_change_nothing_else(record: StateRecord) -> None:
    changed = writes.with_new_tokens(record, epoch=2, attempt="f")

    assert (
        replace(
            changed, epoch=record.epoch, attempt=record.attempt, life=replace(changed.life, nonce=record.life.nonce)
        )
        == record
    )
    assert piece_token(KEY, changed, 0, 0) != piece_token(KEY, record, 0, 0)


def test_recovered_state_goes_on_after_what_is_there() -> None:
    record = writes.recovered(
        writes.empty(2, "a"), OffsetRange(3, 20), SAID, incarnation=1_700_000_000, epoch=2, attempt="e"
    )

    assert (record.phase, record.life.first, record.range) == (Phase.AFTER, 3, OffsetRange(3, 20))
    replay = decide(record, OffsetRange(10, 30), FACTS, Policy())
    assert [(s.kind, s.range) for s in replay.steps] == [
        (StepKind.SKIP, OffsetRange(10, 20)),
        (StepKind.WRITE, OffsetRange(20, 30)),
    ]
    following = writes.before(record, OffsetRange(20, 30), SAID, epoch=2, attempt="f")
    assert following.life.incarnation == 1_700_000_000


@pytest.mark.parametrize(
    "write",
    [
        lambda r: writes.lost(r, epoch=2, attempt="x"),
        lambda r: writes.resend(
            r, writes.Announcement("id", Sending(1, "", ""), Seen(1, ())), most=10, epoch=2, attempt="x"
        ),
    ],
)
def test_only_a_range_in_doubt_can_be_decided(write: object) -> None:
    done = writes.after(doubtful(), epoch=1, attempt="e")

    with pytest.raises(AssertionError):
        write(done)  # type: ignore[operator]


def test_state_that_is_there_is_not_recovered() -> None:
    with pytest.raises(AssertionError):
        writes.recovered(doubtful(), OffsetRange(0, 9), SAID, incarnation=5, epoch=2, attempt="x")


def test_sent_anew_by_a_clock_that_lags_behind() -> None:
    """Another machine's clock wrote BEFORE; time does not go back."""
    old = doubtful()
    again = writes.resend(
        old,
        writes.Announcement("id", Sending(5, "l", "p"), Seen(old.seen.before_at - 500, old.seen.marks)),
        most=10,
        epoch=2,
        attempt="e",
    )
    assert again.seen.before_at == old.seen.before_at


def test_a_new_incarnation_knows_where_earlier_rows_may_lie() -> None:
    """A probe may count rows only beyond these offsets."""
    reset = writes.reset(doubtful(), epoch=2, attempt="e")
    again = writes.reset(reset, epoch=3, attempt="f")
    assert (doubtful().life.older_end, reset.life.older_end, again.life.older_end) == (0, 20, 20)

    first = writes.before(again, OffsetRange(0, 5), SAID, epoch=3, attempt="g", fresh=True)
    done = writes.after(first, epoch=3, attempt="h")
    recreated = writes.before(done, OffsetRange(0, 3), SAID, epoch=3, attempt="i", fresh=True)
    assert (first.life.older_end, recreated.life.older_end, recreated.known_end) == (20, 20, 20)

    landed = writes.after(doubtful(), epoch=1, attempt="e")
    recreated = writes.before(landed, OffsetRange(0, 3), SAID, epoch=1, attempt="f", fresh=True)
    assert (recreated.life.older_end, decode(encode(recreated))) == (20, recreated)


def test_rows_of_recovered_state_are_of_an_earlier_incarnation() -> None:
    record = writes.recovered(writes.empty(2, "a"), OffsetRange(3, 20), SAID, incarnation=9, epoch=2, attempt="e")

    assert record.life.older_end == 20
    assert writes.before(record, OffsetRange(20, 30), SAID, epoch=2, attempt="f").life.older_end == 20
