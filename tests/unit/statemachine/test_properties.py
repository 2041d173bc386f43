"""What holds for every record, plan and fact that there can be."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from chsink.statemachine import writes
from chsink.statemachine.chunks import tiles
from chsink.statemachine.parts import Seen, Sending, TopicLife
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Phase, StateRecord
from chsink.statemachine.table import Decision, Facts, Halt, Policy, StepKind, decide, settle
from tests.support.examples import examples

small = st.integers(0, 12)
ranges = st.tuples(small, small).map(lambda p: OffsetRange(min(p), max(p)))
ids = st.sampled_from(["id"] * 6 + [None, "new"])
policies = st.builds(Policy, st.sampled_from(["halt", "record"]), st.sampled_from(["halt", "skip"]))
seldom = st.sampled_from([None, None, None, 0, 3, 9, 12])
facts = st.builds(Facts, ids, seldom, seldom, st.sampled_from([False] * 3 + [True]), st.sampled_from(["P"] * 4 + ["Q"]))
SAID = writes.Announcement("id", Sending(3, "L", "P"), Seen(0))


@st.composite
def records(draw: st.DrawFn) -> StateRecord | None:
    if draw(st.booleans()) and draw(st.booleans()):
        return draw(st.sampled_from([None, StateRecord(Phase.EMPTY, 1, "e")]))
    first, start, last = sorted(draw(st.tuples(small, small, small)))
    end = last + 1
    gaps = [g for g in draw(st.lists(ranges, max_size=1)) if not g.is_empty and first <= g.start and g.end <= start]
    phase = draw(st.sampled_from([Phase.BEFORE, Phase.AFTER]))
    return StateRecord(
        phase,
        1,
        "x",
        start,
        end,
        gaps=tuple(gaps),
        life=TopicLife(draw(ids), first=first),
        sent=Sending(3, pipeline="P"),
    )


many = settings(max_examples=examples(400))


@many
@given(records(), ranges, facts, policies)
def test_decide_is_total_and_pure(record: StateRecord | None, planned: OffsetRange, f: Facts, policy: Policy) -> None:
    decision = decide(record, planned, f, policy)
    assert decision == decide(record, planned, f, policy)
    assert decision.halt is None or (isinstance(decision.halt, Halt) and decision.detail)
    assert all(not s.range.is_empty for s in decision.steps)


@many
@given(records(), ranges, facts, policies)
def test_without_a_halt_every_planned_offset_has_one_fate(
    record: StateRecord | None, planned: OffsetRange, f: Facts, policy: Policy
) -> None:
    decision = decide(record, planned, f, policy)
    if decision.halt is not None or planned.is_empty:
        return
    fates = [s.range for s in decision.steps if s.kind in (StepKind.WRITE, StepKind.SKIP, StepKind.REINSERT)]
    assert tiles(planned, fates)
    assert fates == sorted(fates)


@many
@given(records(), ranges, facts, policies)
def test_nothing_processed_is_written_again(
    record: StateRecord | None, planned: OffsetRange, f: Facts, policy: Policy
) -> None:
    decision = decide(record, planned, f, policy)
    for step in decision.steps:
        if step.kind is StepKind.WRITE and not step.fresh:
            assert record is not None and step.range.start >= record.end
        if step.kind is StepKind.WRITE and step.fresh:
            assert record is None or record.phase is Phase.EMPTY or (step.range.start == 0 and not record.in_doubt)
        if step.kind in (StepKind.REINSERT, StepKind.SETTLE):
            assert record is not None and record.in_doubt and step.range == record.range
        if step.kind is StepKind.REINSERT:
            assert record is not None and planned.covers(record.range)


@many
@given(records(), ranges, facts, policies)
def test_what_is_skipped_was_landed_or_is_settled_first(
    record: StateRecord | None, planned: OffsetRange, f: Facts, policy: Policy
) -> None:
    decision = decide(record, planned, f, policy)
    settled = False
    for step in decision.steps:
        settled = settled or step.kind in (StepKind.SETTLE, StepKind.REINSERT)
        if step.kind is StepKind.SKIP:
            assert record is not None
            if step.range.end > record.start:
                assert record.range.covers(step.range) and (settled or not record.in_doubt)
            else:
                assert record.processed(step.range, f.log_start or 0)


@many
@given(records(), records(), ranges, facts, policies)
def test_of_two_tables_what_is_skipped_is_landed_by_one(
    record: StateRecord | None, other: StateRecord | None, planned: OffsetRange, f: Facts, policy: Policy
) -> None:
    """Or it halts, or one of them has landed it before.  Whichever lands the plan first, the second one does not halt."""
    tables, log_start = [record or writes.empty(1, "e"), other or writes.empty(1, "e")], f.log_start or 0
    had, halted = {offset for table in tables for offset in _has(table, log_start)}, False
    for mine in (0, 1):
        decision = decide(tables[mine], planned, replace(f, others=(tables[1 - mine],)), policy)
        halted = halted or decision.halt is not None
        tables[mine] = _done(tables[mine], decision, log_start, alone=False)
    if not halted and tables[0].life.topic_id == tables[1].life.topic_id == f.topic_id:
        has = {offset for table in tables for offset in _has(table, log_start)}
        assert {o for o in range(planned.start, planned.end) if o >= log_start} <= has | had
        for mine in (0, 1):
            again = replace(f, log_end=None, has_history=False, pipeline="P", others=(tables[1 - mine],))
            assert decide(tables[mine], planned, again, Policy("record", "skip")).halt is None


def _has(record: StateRecord, log_start: int) -> set[int]:
    return {o for o in range(record.end) if not record.lacks(OffsetRange(o, o + 1), log_start)}


@many
@given(records(), ranges, facts, policies)
def test_a_range_in_doubt_comes_before_anything_newer(
    record: StateRecord | None, planned: OffsetRange, f: Facts, policy: Policy
) -> None:
    if record is None or not record.in_doubt:
        return
    decision = decide(record, planned, f, policy)
    kinds = [s.kind for s in decision.steps if s.kind is not StepKind.SKIP]
    assert decision.halt is not None or kinds[:1] in ([StepKind.REINSERT], [StepKind.SETTLE])


@many
@given(records(), ranges, facts, policies)
def test_doing_the_steps_never_moves_the_state_back(
    record: StateRecord | None, planned: OffsetRange, f: Facts, policy: Policy
) -> None:
    """``writes`` asserts each change; replaying the same plan afterwards writes nothing."""
    decision = decide(record, planned, f, policy)
    state = _done(record or writes.empty(1, "e"), decision, f.log_start or 0)
    if record is not None and not any(s.fresh for s in decision.steps):
        assert (state.end, state.start, state.life.first) >= (record.end, record.start, record.life.first)
    if decision.halt is None and not planned.is_empty and state.life.topic_id == f.topic_id:
        again = decide(state, planned, Facts(f.topic_id, f.log_start, None, pipeline="P"), Policy("record", "skip"))
        assert again.halt is None and {s.kind for s in again.steps} <= {StepKind.SKIP}


def _done(state: StateRecord, decision: Decision, log_start: int, *, alone: bool = True) -> StateRecord:
    topic_id, gap = state.life.topic_id, None
    for step in decision.steps:
        if step.kind in (StepKind.SETTLE, StepKind.REINSERT):
            state = writes.after(state, epoch=1, attempt="a")
        elif step.kind is StepKind.SKIP:
            assert not alone or state.done_with(step.range, log_start)
        elif step.kind is StepKind.RECORD_GAP:
            gap = step.range
        elif step.kind is StepKind.WRITE:
            said = writes.Announcement(topic_id, Sending(3, "L", "P"), Seen(0))
            state = writes.before(state, step.range, said, epoch=1, attempt="b", fresh=step.fresh, gap=gap)
            state = writes.after(state, epoch=1, attempt="a")
    return state


@many
@given(records(), facts)
def test_settle_sends_exactly_the_range_or_halts(record: StateRecord | None, f: Facts) -> None:
    if record is None or not record.in_doubt:
        return
    decision = settle(record, f)
    if decision.halt is None:
        assert [s.range for s in decision.steps] == [record.range]
        assert f.topic_id == record.life.topic_id and f.pipeline == record.sent.pipeline
        assert f.log_start is None or f.log_start <= record.start
        assert f.log_end is None or f.log_end >= record.end
    else:
        assert decision.steps == ()
