"""Rounds: they tile the plan in order, and keep their limit."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from chsink.statemachine.chunks import tiles
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.rounds import Limit, cut_writes, next_round, rest_of, writes_of
from chsink.statemachine.table import Decision, Step, StepKind


class Into(NamedTuple):
    """A :class:`chsink.statemachine.rounds.ChunkTarget`."""

    table: str
    chunk_offsets: int


A, B, C = (TopicPartition("t", n) for n in range(3))
INTO = dict.fromkeys((A, B, C), Into("db.t", 10))


def limit(chunks: int, offsets: int = 10**9) -> Limit:
    return Limit({"db.t": chunks, "db.u": chunks}, offsets)


def test_what_fits_is_one_round() -> None:
    writes = {A: OffsetRange(5, 25), B: OffsetRange(0, 3)}
    assert limit(3, 23).holds(writes, INTO)
    assert next_round(writes, INTO, limit(3, 23)) == writes


def test_each_partition_gives_as_many_chunks_as_the_others() -> None:
    writes = {A: OffsetRange(5, 1000), B: OffsetRange(0, 3), C: OffsetRange(0, 35)}
    assert next_round(writes, INTO, limit(7)) == {A: OffsetRange(5, 35), B: OffsetRange(0, 3), C: OffsetRange(0, 30)}


def test_a_round_is_bounded_by_offsets_too() -> None:
    writes = {A: OffsetRange(0, 100), B: OffsetRange(0, 100)}
    assert next_round(writes, INTO, limit(100, 59)) == {A: OffsetRange(0, 20), B: OffsetRange(0, 20)}


def test_without_room_for_all_the_first_ones_go() -> None:
    writes = dict.fromkeys((C, B, A), OffsetRange(0, 100))
    assert next_round(writes, INTO, limit(2)) == {A: OffsetRange(0, 10), B: OffsetRange(0, 10)}


def test_one_chunk_goes_even_where_none_fits() -> None:
    assert next_round({A: OffsetRange(0, 100)}, INTO, limit(1, 1)) == {A: OffsetRange(0, 10)}
    assert next_round({}, INTO, limit(1, 1)) == {}


def test_tables_have_windows_of_their_own() -> None:
    targets = {A: Into("db.t", 10), B: Into("db.t", 10), C: Into("db.u", 10)}
    writes = dict.fromkeys((A, B, C), OffsetRange(0, 100))
    assert sorted(next_round(writes, targets, limit(1))) == [A, C]


def test_a_gap_waits_for_the_write_behind_it() -> None:
    def decision() -> Decision:
        gap, write = (
            Step(StepKind.RECORD_GAP, OffsetRange(5, 10)),
            Step(StepKind.WRITE, OffsetRange(10, 90), fresh=True),
        )
        return Decision("GAP/AFTER", (Step(StepKind.SETTLE, OffsetRange(0, 5)), gap, write))

    cut = cut_writes({A: decision(), B: decision()}, {A: OffsetRange(10, 20)})
    assert cut[A].steps[1:] == (decision().steps[1], Step(StepKind.WRITE, OffsetRange(10, 20), fresh=True))
    assert cut[B].steps == decision().steps[:1]
    assert writes_of({A: decision()}) == {A: OffsetRange(10, 90)}


def test_the_rest_begins_where_the_round_ended() -> None:
    whole = OffsetRange(0, 50)
    plan, writes = dict.fromkeys((A, B, C), whole), {A: OffsetRange(10, 50), B: OffsetRange(20, 50)}
    rest = rest_of(plan, writes, {A: OffsetRange(10, 30)})
    assert rest == {A: OffsetRange(30, 50), B: whole, C: OffsetRange(50, 50)}


sizes = st.integers(1, 7)
plans = st.dictionaries(
    st.integers(0, 5).map(lambda n: TopicPartition("t", n)),
    st.tuples(st.integers(0, 50), st.integers(1, 60)).map(lambda p: OffsetRange(p[0], p[0] + p[1])),
)


@given(
    plans, st.lists(st.tuples(st.sampled_from(["db.t", "db.u"]), sizes), min_size=6, max_size=6), sizes, sizes, sizes
)
def test_rounds_tile_the_plan_in_order_within_their_limit(
    plan: dict[TopicPartition, OffsetRange], kinds: list[tuple[str, int]], t: int, u: int, offsets: int
) -> None:
    targets = {tp: Into(*kinds[tp.partition]) for tp in plan}
    most = Limit({"db.t": t, "db.u": u}, offsets * 10)
    left, done = dict(plan), {tp: [OffsetRange(r.start, r.start)] for tp, r in plan.items()}
    while left:
        taken = next_round(left, targets, most)
        chunks = sum(-(-r.length // targets[tp].chunk_offsets) for tp, r in taken.items())
        assert chunks == 1 or most.holds(taken, targets)
        for tp, head in taken.items():
            assert done[tp][-1].end == head.start
            assert head.length > 0
            done[tp].append(head)
            left[tp] = OffsetRange(head.end, plan[tp].end)
        left = {tp: r for tp, r in left.items() if not r.is_empty}
    assert all(tiles(plan[tp], parts[1:]) for tp, parts in done.items())
