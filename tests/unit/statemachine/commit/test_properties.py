"""What holds for any units in any order: the table holds a prefix, each offset once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from chsink.statemachine.commit.chain import Chain, Link, Snapshot, TableView, decode, encode, read_chain
from chsink.statemachine.commit.handover import TablePlace, begin, hand_over
from chsink.statemachine.commit.plan import holes, plan_commit
from chsink.statemachine.commit.rounds import CommitPace, RoundView, due, low_watermark
from chsink.statemachine.commit.units import Head, Position, Unit
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.support.examples import examples

TPS = [TopicPartition("t", n) for n in range(2)]
VIEW = TableView("u", frozenset({0}))
small = st.integers(0, 9)
ranges = st.tuples(small, small).map(lambda p: OffsetRange(min(p), max(p)))


@st.composite
def units(draw: st.DrawFn) -> list[Unit]:
    found = []
    for number in range(draw(st.integers(0, 8))):
        tp, at, whole = draw(st.sampled_from(TPS)), draw(ranges), draw(st.sampled_from([True] * 5 + [False]))
        head = Head(str(number), "db.t", "u", tp, "id", at, 0, 1)
        files = draw(st.sampled_from([(), (f"file {number}",)]))
        found.append(Unit(head, files, (Position(0, draw(small)),), whole))
    return found


untils = st.tuples(small, small)
many = settings(max_examples=examples(300))


def chain(until: tuple[int, int]) -> Chain:
    return Chain({tp: Link("id", 0, at) for tp, at in zip(TPS, until, strict=True)})


@many
@given(units(), untils)
def test_what_is_taken_continues_the_chain_and_covers_each_offset_once(
    found: list[Unit], until: tuple[int, int]
) -> None:
    before = chain(until)
    plan = plan_commit(VIEW, before, found)
    for tp in TPS:
        at = before.links[tp].until
        for unit in (u for u in plan.taken if u.head.tp == tp):
            assert unit.range.start == at and unit.whole
            at = unit.range.end
        assert plan.links[tp].until == at
    assert len(plan.taken) + len(plan.waiting) + len(plan.dropped) == len(found)


@many
@given(units(), untils, st.randoms(use_true_random=False))
def test_order_and_repeats_do_not_matter(found: list[Unit], until: tuple[int, int], random: object) -> None:
    plan = plan_commit(VIEW, chain(until), found)
    shuffled = [*found]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert plan_commit(VIEW, chain(until), shuffled) == plan
    again = plan_commit(VIEW, Chain(plan.links), found)
    assert again.taken == () and again.links == plan.links


@many
@given(units(), untils, st.tuples(small, small))
def test_a_hole_that_is_filled_is_no_hole(found: list[Unit], until: tuple[int, int], group: tuple[int, int]) -> None:
    """Filling what is found, again and again, brings every table to the group's offset."""
    passed = dict(zip(TPS, group, strict=True))
    links, left = chain(until).links, found
    for attempt in range(30):
        plan = plan_commit(VIEW, Chain(links), left)
        links, left = plan.links, list(plan.waiting)
        missing = holes(links, left, passed)
        if not missing:
            break
        for tp, hole in missing.items():
            assert links[tp].until == hole.start < hole.end <= passed[tp]
            left.append(Unit(Head(f"again {attempt}", "db.t", "u", tp, "id", hole, 0, 1), (), ()))
    else:
        raise AssertionError("holes without end")
    assert all(links[tp].until >= at for tp, at in passed.items())


@many
@given(units(), st.dictionaries(st.just(0), small), st.dictionaries(st.just(0), small))
def test_a_low_watermark_is_not_above_what_waits(
    found: list[Unit], read: dict[int, int], stored: dict[int, int]
) -> None:
    marks = low_watermark(read, found, stored)
    for unit in found:
        for at in unit.at:
            assert marks[at.partition] <= max(at.offset, stored.get(at.partition, 0))
    assert all(marks.get(p, at) >= at for p, at in stored.items())


@many
@given(ranges.filter(lambda r: not r.is_empty), st.one_of(st.none(), small))
def test_hand_over_leaves_the_group_at_the_plan_or_beyond(planned: OffsetRange, committed: int | None) -> None:
    decided = hand_over(planned, committed)
    assert decided.refused == (committed is None)
    at = committed
    for piece in decided.ranges:
        assert piece.start == at and not piece.is_empty
        at = piece.end
    assert committed is None or at == max(committed, planned.end)


links = st.one_of(st.none(), ranges.map(lambda r: Link("id", r.start, r.end)))


@many
@given(st.one_of(st.none(), small), st.lists(links, min_size=1, max_size=3), small, small)
def test_no_start_is_below_what_a_table_or_the_log_holds(
    committed: int | None, known: list[Link | None], starting: int, log_start: int
) -> None:
    begun = begin("id", committed, map(TablePlace, known), max(starting, log_start), log_start=log_start)
    if begun.halt is None:
        group = committed if begun.group is None else begun.group
        assert group is not None and group >= log_start
        assert group is not None and group >= max((link.until for link in known if link), default=0)
        assert (begun.origin is not None) or None not in known
        assert committed is None or group >= committed


@many
@given(
    st.lists(st.booleans(), max_size=4),
    st.integers(0, 4),
    st.booleans(),
    st.booleans(),
)
def test_a_chain_is_only_read_where_its_snapshot_may_be(own: list[bool], names: int, cut: bool, stored: bool) -> None:
    lineage = tuple(
        Snapshot(n, n, Chain({TPS[0]: Link("id", 0, n)}) if mine else None) for n, mine in enumerate(own, 1)
    )[::-1]
    held = Chain({TPS[0]: Link("id", 0, names)}, snapshot_id=names or None, sequence=names) if stored else None
    reading = read_chain(TableView("u", frozenset({0}), lineage, cut, held))
    if reading.halt is None and reading.chain is not None:
        newest = max((s.sequence for s in lineage if s.chain), default=0)
        assert reading.chain.links[TPS[0]].until >= newest
        assert decode(encode(reading.chain)) == reading.chain


@many
@given(small, st.one_of(st.none(), small), st.booleans(), small)
def test_a_round_is_always_decided(since: int, age: int | None, answered: bool, buffered: int) -> None:
    name, what = due(RoundView(CommitPace(5, 5, 5), since, age, answered, buffered))
    assert name and what
