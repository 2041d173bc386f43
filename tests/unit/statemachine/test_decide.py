"""Every cell of the decision table and every guard, by name, written out from the design and not from TABLE."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chsink.statemachine import table
from chsink.statemachine.parts import Sending, TopicLife
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateRecord
from chsink.statemachine.table import Facts, Halt, Policy, Step, StepKind, Worklist, decide, settle

FIRST, S, E = 2, 10, 20
AFTER = StateRecord(Phase.AFTER, 3, "a", S, E, life=TopicLife("id", first=FIRST), sent=Sending(4, "L", "P"))
BEFORE = replace(AFTER, phase=Phase.BEFORE)
EMPTY = StateRecord(Phase.EMPTY, 3, "a")
FACTS = Facts("id", log_start=0, log_end=100, pipeline="P")
HALT, RECORD, TOLERANT = Policy(), Policy(on_gap="record"), Policy(on_rewind="skip")


def rng(start: int, end: int) -> OffsetRange:
    return OffsetRange(start, end)


def write(start: int, end: int, *, fresh: bool = False) -> Step:
    return Step(StepKind.WRITE, rng(start, end), fresh)


def skip(start: int, end: int) -> Step:
    return Step(StepKind.SKIP, rng(start, end))


def gap(start: int, end: int) -> Step:
    return Step(StepKind.RECORD_GAP, rng(start, end))


REINSERT = Step(StepKind.REINSERT, rng(S, E))
SETTLE = Step(StepKind.SETTLE, rng(S, E))


CELLS: dict[str, tuple[StateRecord | None, OffsetRange, Policy, list[Step], Halt | None]] = {
    # name: record, planned [a,b), policy → steps, halt
    "NEW/NO_RECORD": (None, rng(0, 30), HALT, [write(0, 30, fresh=True)], None),
    "NEW/AFTER": (AFTER, rng(20, 30), HALT, [write(20, 30)], None),
    "NEW/BEFORE": (BEFORE, rng(20, 30), HALT, [SETTLE, write(20, 30)], None),
    "GAP/AFTER record": (AFTER, rng(25, 30), RECORD, [gap(20, 25), write(25, 30)], None),
    "GAP/AFTER halt": (AFTER, rng(25, 30), HALT, [], Halt.GAP),
    "GAP/BEFORE record": (BEFORE, rng(25, 30), RECORD, [SETTLE, gap(20, 25), write(25, 30)], None),
    "GAP/BEFORE halt": (BEFORE, rng(25, 30), HALT, [SETTLE], Halt.GAP),
    "SAME/AFTER": (AFTER, rng(10, 20), HALT, [skip(10, 20)], None),
    "SAME/BEFORE": (BEFORE, rng(10, 20), HALT, [REINSERT], None),
    "OVERLAPPING_FROM_START/AFTER": (AFTER, rng(10, 30), HALT, [skip(10, 20), write(20, 30)], None),
    "OVERLAPPING_FROM_START/BEFORE": (BEFORE, rng(10, 30), HALT, [REINSERT, write(20, 30)], None),
    "OVERLAPPING_FROM_INSIDE/AFTER": (AFTER, rng(15, 30), HALT, [skip(15, 20), write(20, 30)], None),
    "OVERLAPPING_FROM_INSIDE/BEFORE": (BEFORE, rng(15, 30), HALT, [SETTLE, skip(15, 20), write(20, 30)], None),
    "CONTAINS/AFTER from start": (AFTER, rng(10, 15), HALT, [skip(10, 15)], None),
    "CONTAINS/AFTER inside": (AFTER, rng(12, 15), HALT, [skip(12, 15)], None),
    "CONTAINS/AFTER to end": (AFTER, rng(15, 20), HALT, [skip(15, 20)], None),
    "CONTAINS/BEFORE from start": (BEFORE, rng(10, 15), HALT, [SETTLE, skip(10, 15)], None),
    "CONTAINS/BEFORE inside": (BEFORE, rng(12, 15), HALT, [SETTLE, skip(12, 15)], None),
    "CONTAINS/BEFORE to end": (BEFORE, rng(15, 20), HALT, [SETTLE, skip(15, 20)], None),
}


@pytest.mark.parametrize("name", CELLS)
def test_cell(name: str) -> None:
    record, planned, policy, steps, halt = CELLS[name]
    held_from: int | None = planned.start if name.startswith("GAP/AFTER") else 0
    if name.startswith("GAP/BEFORE"):
        held_from = None  # Kafka holds the doubtful range and lost what follows it: only where nobody asked
    decision = decide(record, planned, replace(FACTS, log_start=held_from), policy)
    assert decision.because == name.split(" ", maxsplit=1)[0]
    assert list(decision.steps) == steps
    assert decision.halt is halt
    assert (decision.halt is None) or str(rng(20, 25)) in decision.detail


@pytest.mark.parametrize("policy", [HALT, RECORD])
@pytest.mark.parametrize("log_start", [0, 20, 24])
def test_a_gap_that_kafka_still_holds_is_no_loss_to_record(policy: Policy, log_start: int) -> None:
    decision = decide(AFTER, rng(25, 30), replace(FACTS, log_start=log_start), policy)
    assert (decision.because, decision.steps, decision.halt) == ("GAP/AFTER", (), Halt.GAP)
    assert f"{rng(max(20, log_start), 25)} was never landed, and Kafka still holds it" in decision.detail


def test_a_log_end_that_nobody_asked_for_is_not_named() -> None:
    """⚑ the halt said "up to None"."""
    known, unknown = (decide(AFTER, rng(20, 30), Facts("new", log_end=end), HALT).detail for end in (29, None))
    assert known == "recorded topic id id, now new up to 29, planned [20, 30)"
    assert unknown == "recorded topic id id, now new, planned [20, 30)"


def test_an_empty_row_is_inert_and_counts_as_no_record() -> None:
    assert decide(EMPTY, rng(5, 9), FACTS, HALT) == decide(None, rng(5, 9), FACTS, HALT)


GUARD_CASES: dict[str, tuple[StateRecord | None, OffsetRange, Facts, Policy, list[Step], Halt | None]] = {
    "TOPIC_RECREATED_IDLE/AFTER": (AFTER, rng(0, 0), Facts("new"), HALT, [], None),
    "TOPIC_RECREATED_IDLE/AFTER behind its end": (AFTER, rng(20, 20), Facts("new"), HALT, [], None),
    "TOPIC_RECREATED_IDLE/BEFORE": (BEFORE, rng(0, 0), Facts("new"), HALT, [], Halt.IN_DOUBT_LOST),
    "TOPIC_RECREATED_FROM_ZERO/AFTER": (AFTER, rng(0, 30), Facts("new"), HALT, [write(0, 30, fresh=True)], None),
    "TOPIC_RECREATED_FROM_ZERO/AFTER all of it there": (
        AFTER, rng(0, 30), Facts("new", log_end=30), HALT, [write(0, 30, fresh=True)], None,
    ),
    "TOPIC_RECREATED_FROM_ZERO/BEFORE": (BEFORE, rng(0, 30), Facts("new"), HALT, [], Halt.IN_DOUBT_LOST),
    "TOPIC_RECREATED/AFTER planned of yet another life": (
        AFTER, rng(0, 30), Facts("new", log_end=29), HALT, [], Halt.TOPIC_RECREATED,
    ),
    "TOPIC_RECREATED/AFTER": (AFTER, rng(20, 30), Facts("new"), HALT, [], Halt.TOPIC_RECREATED),
    "TOPIC_RECREATED/BEFORE": (BEFORE, rng(20, 30), Facts("new"), HALT, [], Halt.IN_DOUBT_LOST),
    "TOPIC_ID_LOST/AFTER": (
        AFTER, rng(20, 30), Facts(None), HALT, [], Halt.TOPIC_ID_KNOWN_UNKNOWN,
    ),
    "TOPIC_ID_LOST/BEFORE": (
        BEFORE, rng(20, 30), Facts(None), HALT, [], Halt.TOPIC_ID_KNOWN_UNKNOWN,
    ),
    "TOPIC_ID_GAINED/BEFORE": (
        replace(BEFORE, life=replace(BEFORE.life, topic_id=None)), rng(20, 30), FACTS, HALT, [], Halt.TOPIC_ID_KNOWN_UNKNOWN,
    ),
    "LOG_SHRANK/AFTER": (AFTER, rng(20, 30), Facts("id", log_end=19), HALT, [], Halt.LOG_SHRANK),
    "LOG_SHRANK/BEFORE": (BEFORE, rng(10, 20), Facts("id", log_end=19, pipeline="P"), HALT, [], Halt.LOG_SHRANK),
    "LOG_SHRANK/BEFORE nothing planned": (BEFORE, rng(19, 19), Facts("id", log_end=19), HALT, [], Halt.LOG_SHRANK),
    "EMPTY/NO_RECORD": (None, rng(7, 7), FACTS, HALT, [], None),
    "EMPTY/NO_RECORD with history": (None, rng(7, 7), replace(FACTS, has_history=True), HALT, [], None),
    "EMPTY/AFTER": (AFTER, rng(20, 20), FACTS, HALT, [], None),
    "EMPTY/BEFORE": (BEFORE, rng(20, 20), FACTS, HALT, [SETTLE], None),
    "EMPTY/BEFORE Kafka lost it": (BEFORE, rng(20, 20), replace(FACTS, log_start=11), HALT, [], Halt.IN_DOUBT_LOST),
    "STATE_LOST/NO_RECORD": (None, rng(20, 30), replace(FACTS, has_history=True), HALT, [], Halt.STATE_LOST),
    "STATE_LOST/NO_RECORD empty row": (EMPTY, rng(20, 30), replace(FACTS, has_history=True), HALT, [], Halt.STATE_LOST),
    "OUTSIDE_PROCESSED/AFTER": (AFTER, rng(1, 30), FACTS, HALT, [], Halt.OUTSIDE_PROCESSED),
    "OUTSIDE_PROCESSED/AFTER wholly before it": (AFTER, rng(0, 2), FACTS, HALT, [], Halt.OUTSIDE_PROCESSED),
    "OUTSIDE_PROCESSED/AFTER over a recorded gap": (
        replace(AFTER, gaps=(rng(5, 6),)), rng(3, 30), FACTS, HALT, [], Halt.OUTSIDE_PROCESSED,
    ),
    "OUTSIDE_PROCESSED/BEFORE": (BEFORE, rng(1, 30), FACTS, HALT, [], Halt.OUTSIDE_PROCESSED),
    "REWOUND/AFTER": (AFTER, rng(2, 10), FACTS, HALT, [], Halt.REWOUND),
    "REWOUND_TOLERATED/AFTER": (AFTER, rng(2, 10), FACTS, TOLERANT, [skip(2, 10)], None),
    "REWOUND/BEFORE": (BEFORE, rng(2, 10), FACTS, HALT, [SETTLE], Halt.REWOUND),
    "REWOUND_TOLERATED/BEFORE": (BEFORE, rng(2, 10), FACTS, TOLERANT, [SETTLE, skip(2, 10)], None),
    "REWOUND_TOLERATED/BEFORE Kafka lost it": (
        BEFORE, rng(2, 10), replace(FACTS, log_start=11), TOLERANT, [], Halt.IN_DOUBT_LOST,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARD_CASES)
def test_guard(name: str) -> None:
    record, planned, facts, policy, steps, halt = GUARD_CASES[name]
    decision = decide(record, planned, facts, policy)
    assert decision.because == name.split(" ", maxsplit=1)[0]
    assert list(decision.steps) == steps
    assert decision.halt is halt


def test_brokers_that_gained_topic_ids_stop_nothing_that_is_done() -> None:
    """The next BEFORE records the id.  Until then a log that ends too early still tells that the topic is another one."""
    old = replace(AFTER, life=replace(AFTER.life, topic_id=None))
    assert decide(old, rng(20, 30), FACTS, HALT).steps == (write(20, 30),)
    assert decide(old, rng(10, 30), FACTS, HALT).steps == (skip(10, 20), write(20, 30))
    assert decide(old, rng(20, 30), replace(FACTS, log_end=19), HALT).halt is Halt.LOG_SHRANK


def test_every_cell_of_the_table_is_tested() -> None:
    assert set(table.CELLS) == {name.split(" ")[0] for name in (*CELLS, *GUARD_CASES)}
    assert len(table.CELLS) == len(set(table.CELLS))


CROPPED: dict[str, tuple[StateRecord, OffsetRange, list[Step]]] = {
    "then SAME/AFTER": (AFTER, rng(4, 20), [skip(4, 10), skip(10, 20)]),
    "then SAME/BEFORE": (BEFORE, rng(4, 20), [skip(4, 10), REINSERT]),
    "then OVERLAPPING_FROM_START/AFTER": (AFTER, rng(2, 30), [skip(2, 10), skip(10, 20), write(20, 30)]),
    "then OVERLAPPING_FROM_START/BEFORE": (BEFORE, rng(2, 30), [skip(2, 10), REINSERT, write(20, 30)]),
    "then CONTAINS/AFTER": (AFTER, rng(9, 15), [skip(9, 10), skip(10, 15)]),
    "then CONTAINS/BEFORE": (BEFORE, rng(9, 15), [skip(9, 10), SETTLE, skip(10, 15)]),
}


@pytest.mark.parametrize("name", CROPPED)
def test_crop(name: str) -> None:
    record, planned, steps = CROPPED[name]
    decision = decide(record, planned, FACTS, HALT)
    assert (decision.because, list(decision.steps), decision.halt) == (name.removeprefix("then "), steps, None)


def test_crop_keeps_away_from_a_gap_that_it_does_not_touch() -> None:
    record = replace(AFTER, gaps=(rng(4, 6),))
    assert decide(record, rng(6, 20), FACTS, HALT).steps == (skip(6, 10), skip(10, 20))
    assert decide(record, rng(5, 20), FACTS, HALT).halt is Halt.OUTSIDE_PROCESSED


ORDER: dict[str, tuple[StateRecord | None, OffsetRange, Facts]] = {
    # every input makes the named row and at least one later one hold
    "TOPIC_RECREATED_IDLE/AFTER": (AFTER, rng(0, 0), Facts("new", log_end=5)),
    "TOPIC_RECREATED_FROM_ZERO/AFTER": (AFTER, rng(0, 5), Facts("new", log_end=5)),
    "TOPIC_RECREATED/AFTER": (AFTER, rng(1, 5), Facts("new", log_end=5)),
    "TOPIC_ID_LOST/AFTER": (AFTER, rng(5, 5), Facts(None, log_end=5)),
    "LOG_SHRANK/AFTER": (AFTER, rng(5, 5), Facts("id", log_end=5)),
    "EMPTY/NO_RECORD": (None, rng(5, 5), Facts("id", has_history=True)),
    "STATE_LOST/NO_RECORD": (None, rng(5, 9), Facts("id", has_history=True)),
    "OUTSIDE_PROCESSED/AFTER": (AFTER, rng(0, 5), FACTS),
    "REWOUND/AFTER": (AFTER, rng(2, 5), FACTS),
}


@pytest.mark.parametrize("first", ORDER)
def test_the_earlier_row_decides(first: str) -> None:
    assert decide(*ORDER[first], HALT).because == first


BLOCKED: dict[str, tuple[OffsetRange, Facts, Halt]] = {
    "re-insert under another pipeline": (rng(10, 20), replace(FACTS, pipeline="Q"), Halt.PIPELINE_CHANGED),
    "settle under another pipeline": (rng(20, 30), replace(FACTS, pipeline="Q"), Halt.PIPELINE_CHANGED),
    "settle what Kafka lost": (rng(20, 30), replace(FACTS, log_start=11), Halt.IN_DOUBT_LOST),
    "settle for a part, what Kafka lost": (rng(12, 15), replace(FACTS, log_start=13), Halt.IN_DOUBT_LOST),
}


@pytest.mark.parametrize("name", BLOCKED)
def test_blocked(name: str) -> None:
    planned, facts, halt = BLOCKED[name]
    decision = decide(BEFORE, planned, facts, HALT)
    assert (decision.steps, decision.halt) == ((), halt)


def test_a_changed_pipeline_stops_nothing_that_is_done() -> None:
    assert decide(AFTER, rng(20, 30), replace(FACTS, pipeline="Q"), HALT).steps == (write(20, 30),)


SETTLED: dict[str, tuple[Facts, Halt | None]] = {
    "held": (FACTS, None),
    "held from its start": (replace(FACTS, log_start=10), None),
    "log ends with it": (replace(FACTS, log_end=20), None),
    "first offset lost": (replace(FACTS, log_start=11), Halt.IN_DOUBT_LOST),
    "log shrank": (replace(FACTS, log_end=19), Halt.LOG_SHRANK),
    "pipeline changed": (replace(FACTS, pipeline="Q"), Halt.PIPELINE_CHANGED),
    "topic recreated": (replace(FACTS, topic_id="new"), Halt.IN_DOUBT_LOST),
    "topic recreated, shorter": (replace(FACTS, topic_id="new", log_end=1), Halt.IN_DOUBT_LOST),
    "topic id unknown now": (replace(FACTS, topic_id=None), Halt.TOPIC_ID_KNOWN_UNKNOWN),
}


@pytest.mark.parametrize("name", SETTLED)
def test_settle_without_a_batch(name: str) -> None:
    facts, halt = SETTLED[name]
    decision = settle(BEFORE, facts)
    assert (list(decision.steps), decision.halt) == ([SETTLE] if halt is None else [], halt)


# --- the last rows: how a plan that was cropped lies to the recorded range -------------------------------------------

LAST = table.TABLE[1 + next(n for n, row in enumerate(table.TABLE) if row.crops) :]
WHOLE = replace(AFTER, end=21)


def relations(planned: OffsetRange) -> list[str]:
    return [row.name for row in LAST if row.holds(table.Situation(WHOLE, planned, FACTS, HALT))]


@pytest.mark.parametrize(
    ("planned", "relation"),
    [
        (rng(21, 22), "NEW"),
        (rng(22, 23), "GAP"),
        (rng(10, 21), "SAME"),
        (rng(10, 22), "OVERLAPPING_FROM_START"),
        (rng(11, 22), "OVERLAPPING_FROM_INSIDE"),
        (rng(20, 22), "OVERLAPPING_FROM_INSIDE"),
        (rng(10, 20), "CONTAINS"),
        (rng(11, 21), "CONTAINS"),
        (rng(15, 16), "CONTAINS"),
    ],
)
def test_relation(planned: OffsetRange, relation: str) -> None:
    assert relations(planned) == [relation]


def test_one_relation_holds_for_every_cropped_plan() -> None:
    for start in range(10, 25):
        for end in range(start + 1, 26):
            assert len(relations(rng(start, end))) == 1, (start, end)


# --- the steps are taken in order ------------------------------------------------------------------------------------

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def test_steps_are_handed_out_by_kind_each_once() -> None:
    todo = Worklist(
        {ONE: decide(BEFORE, rng(15, 30), FACTS, HALT), TWO: decide(AFTER, rng(20, 30), FACTS, HALT)},
    )
    assert todo.take(StepKind.SETTLE) == {ONE: SETTLE}
    assert todo.take(StepKind.SETTLE) == {}
    assert todo.take(StepKind.SKIP) == {ONE: skip(15, 20)}
    assert todo.take(StepKind.WRITE) == {ONE: write(20, 30), TWO: write(20, 30)}
    todo.check_done()


def test_no_step_is_handed_out_before_an_earlier_one() -> None:
    todo = Worklist({ONE: decide(BEFORE, rng(25, 30), replace(FACTS, log_start=None), RECORD)})
    assert (todo.take(StepKind.WRITE), todo.take(StepKind.RECORD_GAP)) == ({}, {})
    assert todo.take(StepKind.SETTLE) == {ONE: SETTLE}
    assert todo.take(StepKind.WRITE) == {}
    assert todo.take(StepKind.RECORD_GAP) == {ONE: gap(20, 25)}
    assert todo.take(StepKind.WRITE) == {ONE: write(25, 30)}


def test_a_step_that_was_left_out_is_a_defect() -> None:
    todo = Worklist({ONE: decide(AFTER, rng(15, 30), FACTS, HALT)})
    assert todo.take(StepKind.SKIP)
    with pytest.raises(AssertionError, match="t-0"):
        todo.check_done()


@pytest.mark.parametrize(
    ("recorded", "now", "halts"),
    [
        ("d=1", "d=1,dead_letters=2", False),
        ("d=1,dead_letters=2", "d=1", True),
        ("d=1,dead_letters=2", "d=1,dead_letters=3", True),
        ("d=1", "d=2,dead_letters=2", True),
        ("d=1", "d=1,dead_letters=2,on_bad_value=dead_letter,on_tombstone=skip", False),
        ("dead_letters=2,on_tombstone=skip", "dead_letters=2,on_tombstone=dead_letter", True),
        ("dead_letters=2,on_tombstone=dead_letter", "dead_letters=2,on_tombstone=skip", True),
        ("dead_letters=2,on_bad_value=halt", "dead_letters=2,on_bad_value=dead_letter", False),
        ("dead_letters=2,on_bad_value=halt", "dead_letters=2,on_bad_value=skip", False),
        ("dead_letters=2,on_bad_value=dead_letter", "dead_letters=2,on_bad_value=halt", True),
        ("d=1", "d=1,added_columns=a", False),
        ("d=1,added_columns=a", "d=1,added_columns=b:a,dead_letters=2", False),
        ("d=1,added_columns=a:b", "d=1,added_columns=a:c", True),
        ("d=1,added_columns=a", "d=1", True),
        ("d=1,added_columns=a", "d=2,added_columns=a:b", True),
        ("", "d=1,dead_letters=2,added_columns=a", False),
        ("", "d=1,table_by=2", True),
        ("d=1", "d=1,table_by=2", True),
        ("d=1,table_by=2", "d=1", True),
    ],
)
def test_a_range_in_doubt_may_gain_dead_letters_and_columns_and_nothing_else(
    recorded: str, now: str, halts: bool
) -> None:
    """⚑ Of a range that was announced without dead letters, none can have been delivered.  Of one with dead letters, a
    chunk's were: later ones of it would be dropped under the same token.  A kind of record that halted was never sent.

    ⚑ A column that chunks may have filled must stay as it was: with another type, a record that was sent could be a bad
    value now, or the other way round.

    ⚑ A range that names no pipeline was for all records: under a ``table_by`` that came since, some would be in no table.
    """
    facts = Facts("id", 0, 30, pipeline=now)
    record = StateRecord(
        Phase.BEFORE, 1, "a", 10, 20, life=TopicLife("id", incarnation=0, first=0), sent=Sending(pipeline=recorded)
    )
    assert (settle(record, facts).halt is not None) is halts


def test_what_is_read_for_another_table_is_passed_over() -> None:
    """⚑ Also below the first range of this one, and over what a person gave up: the other table may need all of it."""
    record = replace(AFTER, gaps=(rng(5, 6),))
    for other in (
        None,
        EMPTY,
        replace(AFTER, start=0, end=3, life=replace(AFTER.life, first=0)),
        replace(AFTER, end=99, life=replace(AFTER.life, topic_id="gone")),
    ):
        facts = replace(FACTS, others=(other,))
        assert decide(record, rng(0, 4), facts, HALT).steps == (skip(0, 4),)
        decision = decide(record, rng(0, 30), facts, HALT)
        assert decision.halt is None and decision.steps[-1] == write(20, 30)


FROM_0 = replace(AFTER, life=replace(AFTER.life, first=0))


@pytest.mark.parametrize(
    ("mine", "others", "planned", "halt"),
    [
        (AFTER, (FROM_0,), rng(0, 30), None),  # each has what the other one lacks, whoever lands the plan first
        (AFTER, (replace(FROM_0, start=20, end=30),), rng(0, 30), None),
        (AFTER, (replace(FROM_0, start=0, end=10),), rng(0, 30), None),
        (AFTER, (AFTER,), rng(2, 30), None),
        (AFTER, (AFTER,), rng(1, 30), Halt.OUTSIDE_PROCESSED),  # no table has offset 1
        (AFTER, (replace(AFTER, start=20, end=30),), rng(1, 30), Halt.OUTSIDE_PROCESSED),
        (AFTER, (FROM_0,), rng(0, 15), Halt.OUTSIDE_PROCESSED),  # it is made for no table
        (AFTER, (replace(AFTER, life=replace(AFTER.life, first=1)), AFTER), rng(1, 30), None),
        (FROM_0, (FROM_0,), rng(0, 5), Halt.REWOUND),
        (replace(AFTER, gaps=(rng(4, 7),)), (replace(AFTER, gaps=(rng(2, 5),)),), rng(2, 30), Halt.OUTSIDE_PROCESSED),
        (replace(AFTER, gaps=(rng(4, 7),)), (replace(AFTER, gaps=(rng(2, 4),)),), rng(2, 30), None),
        (
            replace(AFTER, gaps=(rng(4, 7),)),
            (replace(AFTER, gaps=(rng(4, 5),)), replace(AFTER, gaps=(rng(6, 7),))),
            rng(2, 30),
            None,
        ),
    ],
)
def test_what_no_table_has_is_not_passed_over(
    mine: StateRecord, others: tuple[StateRecord, ...], planned: OffsetRange, halt: Halt | None
) -> None:
    """⚑ With two tables on a topic, any plan of older offsets was taken for the other one's: what neither of them had
    was passed over silently.
    """
    assert decide(mine, planned, replace(FACTS, others=others), HALT).halt is halt
