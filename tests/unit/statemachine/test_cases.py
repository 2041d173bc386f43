"""The cases that other sinks get wrong, on the pure functions: decided, written and replayed on a toy target.

``Target`` keeps the first insert of every token, as ClickHouse does inside its deduplication window.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from chsink.statemachine import writes
from chsink.statemachine.chunks import chunk, chunk_count
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Phase, StateKey, StateRecord
from chsink.statemachine.table import Decision, Facts, Halt, Policy, StepKind, decide
from chsink.statemachine.tokens import piece_token

KEY = StateKey("sink", "topic", 0, "db.t")
CHUNK, SHARDS = 4, 2


@dataclass
class Target:
    """Rows (topic id, offset) by shard, one insert per token."""

    rows: list[tuple[str, int]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)

    def land(self, record: StateRecord, held: set[int], key: StateKey = KEY, only_shard: int | None = None) -> None:
        """Insert the record's range, as a task that Kafka gives the offsets ``held`` would."""
        for index in range(chunk_count(record.range, record.sent.chunk_offsets)):
            part = chunk(record.range, record.sent.chunk_offsets, index)
            for shard in range(SHARDS) if only_shard is None else [only_shard]:
                token = piece_token(key, record, index, shard)
                rows = [o for o in sorted(held) if part.start <= o < part.end and o % SHARDS == shard]
                if rows and token not in self.tokens:
                    self.tokens.add(token)
                    self.rows += [(record.life.topic_id or "", o) for o in rows]

    def offsets(self, topic_id: str = "id") -> list[int]:
        return sorted(o for i, o in self.rows if i == topic_id)


def said(topic_id: str = "id") -> writes.Announcement:
    return writes.Announcement(topic_id, Sending(CHUNK, "L", "P"), Seen(0))


def announced(start: int, end: int, attempt: str = "b") -> StateRecord:
    return writes.before(writes.empty(1, "e"), OffsetRange(start, end), said(), epoch=1, attempt=attempt, fresh=True)


def done(record: StateRecord) -> StateRecord:
    return writes.after(record, epoch=record.epoch, attempt=f"{record.attempt} done")


def follow(
    record: StateRecord, planned: OffsetRange, target: Target, held: set[int], *, topic_id: str = "id"
) -> tuple[StateRecord, Decision]:
    """Decide and do the steps in order, as the driver does."""
    facts = Facts(topic_id, 0, max(held) + 1, pipeline="P")
    decision = decide(record, planned, facts, Policy(on_rewind="skip"))
    for step in decision.steps:
        if step.kind in (StepKind.REINSERT, StepKind.SETTLE):
            target.land(record, held)
            record = done(record)
        elif step.kind is StepKind.WRITE:
            attempt = f"{record.attempt} next"
            record = writes.before(record, step.range, said(topic_id), epoch=1, attempt=attempt, fresh=step.fresh)
            target.land(record, held)
            record = done(record)
    return record, decision


def test_case_a_answer_lost_and_replayed() -> None:
    target, held = Target(), set(range(31))
    record = done(announced(0, 20))
    target.land(record, held)
    lost = writes.before(record, OffsetRange(20, 31), said(), epoch=1, attempt="b1")
    target.land(lost, held)  # landed, but nobody heard
    record, decision = follow(lost, OffsetRange(10, 31), target, held)
    assert (decision.because, target.offsets(), record.range) == ("SAME/BEFORE", list(range(31)), OffsetRange(20, 31))


def test_case_a_batch_10_to_31_after_0_to_20() -> None:
    target, held = Target(), set(range(31))
    record = done(announced(0, 20))
    target.land(record, held)
    record, decision = follow(record, OffsetRange(10, 31), target, held)
    again, second = follow(record, OffsetRange(10, 31), target, held)
    assert decision.because == "OVERLAPPING_FROM_INSIDE/AFTER"
    assert (second.because, again) == ("SAME/AFTER", record)
    assert target.offsets() == list(range(31))


def test_case_b_never_landed_and_the_next_batch_goes_on() -> None:
    target, held = Target(), set(range(15))
    record, decision = follow(announced(0, 10), OffsetRange(10, 15), target, held)
    assert (decision.because, target.offsets()) == ("NEW/BEFORE", list(range(15)))
    assert record.range == OffsetRange(10, 15)


def test_case_c_not_landed_and_the_next_batch_starts_inside() -> None:
    target, held = Target(), set(range(31))
    _, decision = follow(announced(10, 20), OffsetRange(15, 31), target, held)
    assert decision.because == "OVERLAPPING_FROM_INSIDE/BEFORE"
    assert target.offsets() == list(range(10, 31))


def test_case_d_as_c_and_an_offset_was_compacted_away() -> None:
    target, held = Target(), set(range(31)) - {19}
    follow(announced(10, 20), OffsetRange(15, 31), target, held)
    assert target.offsets() == sorted(set(range(10, 31)) - {19})


def test_case_e_topic_recreated_with_the_same_offsets() -> None:
    target, held = Target(), set(range(10))
    record, _ = follow(writes.empty(1, "e"), OffsetRange(0, 10), target, held)
    record, decision = follow(record, OffsetRange(0, 10), target, held, topic_id="other")
    assert decision.because == "TOPIC_RECREATED_FROM_ZERO/AFTER"
    assert (target.offsets("id"), target.offsets("other")) == (list(range(10)), list(range(10)))
    assert record.life.incarnation == 1


def test_case_e_a_recreated_topic_that_is_shorter_is_not_a_log_that_shrank() -> None:
    decision = decide(done(announced(0, 10)), OffsetRange(0, 3), Facts("other", 0, 3, pipeline="P"), Policy())
    assert (decision.because, decision.halt) == ("TOPIC_RECREATED_FROM_ZERO/AFTER", None)


def test_case_e_started_again_from_nothing_while_the_table_remembers_tokens() -> None:
    target, held = Target(), set(range(10))
    target.land(announced(0, 10), held)
    target.rows.clear()  # DELETE: the rows are gone, their tokens are not; state and checkpoint were removed, too
    target.land(announced(0, 10, "another attempt"), held)
    assert target.offsets() == list(range(10))


def test_case_f_rewind_to_zero() -> None:
    target, held = Target(), set(range(20))
    record, _ = follow(writes.empty(1, "e"), OffsetRange(0, 10), target, held)
    record, _ = follow(record, OffsetRange(10, 20), target, held)
    again, decision = follow(record, OffsetRange(0, 10), target, held)
    assert (decision.because, again, target.offsets()) == ("REWOUND_TOLERATED/AFTER", record, list(range(20)))
    assert decide(record, OffsetRange(0, 10), Facts("id"), Policy()).halt is Halt.REWOUND


def test_case_g_only_a_part_is_offered_again() -> None:
    target, held = Target(), set(range(20))
    record, decision = follow(announced(10, 20), OffsetRange(10, 15), target, held)
    assert (decision.because, record.phase) == ("CONTAINS/BEFORE", Phase.AFTER)
    assert target.offsets() == list(range(10, 20))


def test_case_h_the_old_drivers_write_names_a_replaced_attempt() -> None:
    old = announced(0, 10)
    taken = writes.adopt(old, epoch=2, attempt="new")
    late = done(old)  # the old driver's AFTER expects old.attempt, which no row carries any more
    assert old.attempt != taken.attempt and late.epoch < taken.epoch
    assert writes.adopt(taken, epoch=2, attempt="x").range == old.range


def test_case_i_two_sinks_on_one_topic() -> None:
    other = replace(KEY, sink="other")
    record = announced(0, 10)
    assert str(other) != str(KEY)
    assert piece_token(other, record, 0, 0) != piece_token(KEY, record, 0, 0)


def test_case_j_a_chunk_again_after_one_of_two_shards_landed() -> None:
    target, held = Target(), set(range(10))
    record = announced(0, 10)
    target.land(record, held, only_shard=1)
    assert target.offsets() == [1, 3, 5, 7, 9]
    _, decision = follow(record, OffsetRange(0, 10), target, held)
    assert (decision.because, target.offsets()) == ("SAME/BEFORE", list(range(10)))


def test_what_earlier_lives_reached_is_known_in_all_later_ones() -> None:
    """⚑ A topic that was recreated twice: rows of its first life lie beyond the end of the second one."""
    record = done(announced(0, 90))
    for life in ("second", "third"):
        record = done(writes.before(record, OffsetRange(0, 5), said(life), epoch=1, attempt=life, fresh=True))
    assert (record.life.incarnation, record.life.older_end) == (2, 90)
    record = done(announced(0, 90))
    for attempt in ("once", "twice"):
        record = writes.reset(record, epoch=1, attempt=attempt)
    assert (record.life.incarnation, record.life.older_end) == (2, 90)
