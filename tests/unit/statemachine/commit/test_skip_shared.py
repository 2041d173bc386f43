"""Tables that share a topic, some of which lost their chains, after ``SKIP``: whatever was lost, no record is twice."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from chsink.statemachine.commit.chain import Chain, Link, Sharing, Snapshot, StoredShare, TableView
from chsink.statemachine.commit.resolve import Because, Log, Resolved, Sharer, TableVerdict, resolved, together
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.support.examples import examples

TP, END, NAMES = TopicPartition("t", 0), 12, ("a", "b", "c")
MINE = Sharing("mine", frozenset(NAMES))


@dataclass(frozen=True)
class World:
    """Owners by the earlier map below ``changed``, by the present one from there on.  ``until``: what each table has
    landed of; ``deleted``: rows that are gone since.
    """

    earlier: list[str]
    present: list[str]
    changed: int
    until: dict[str, int]
    deleted: set[int]
    lost: set[str]
    named: set[str]
    start: int

    def landed(self, name: str) -> set[int]:
        owners = self.earlier[: self.changed] + self.present[self.changed :]
        return {at for at, owner in enumerate(owners) if owner == name and at < self.until[name]}

    def rows(self, name: str) -> set[int]:
        return self.landed(name) - self.deleted


@st.composite
def worlds(draw: st.DrawFn) -> World:
    owners = st.lists(st.sampled_from(NAMES), min_size=END, max_size=END)
    changed = draw(st.integers(0, END))
    until = {name: draw(st.integers(changed, END)) for name in NAMES}
    lost = draw(st.sets(st.sampled_from(NAMES), min_size=1))
    named = lost | draw(st.sets(st.sampled_from(NAMES)))
    deleted = draw(st.sets(st.integers(0, END - 1)))
    return World(draw(owners), draw(owners), changed, until, deleted, lost, named, draw(st.integers(0, 4)))


def ranges(offsets: set[int]) -> tuple[OffsetRange, ...]:
    found: list[OffsetRange] = []
    for at in sorted(offsets):
        if found and found[-1].end == at:
            found[-1] = OffsetRange(found[-1].start, at + 1)
        else:
            found.append(OffsetRange(at, at + 1))
    return tuple(found)


def view_of(world: World, name: str) -> TableView:
    if name in world.lost:
        return TableView("u", frozenset({0}), (Snapshot(7, 1),) if world.landed(name) else ())
    chain = Chain({TP: Link("id", 0, world.until[name])}, "c", {}, "", 1, 1)
    share = StoredShare(MINE, world.changed, 0)
    return TableView("u", frozenset({0}), (Snapshot(1, 1, chain),), stored=chain, shared={TP: share})


@settings(max_examples=examples(500), deadline=None)
@given(worlds())
def test_no_record_is_in_two_tables(world: World) -> None:
    """⚑ And whatever is in none, the plan names."""
    committed = max(world.until.values())
    views = {name: view_of(world, name) for name in NAMES}
    logs = {n: Log("id", world.start, END, committed, rows=ranges(world.rows(n))) for n in sorted(world.named)}

    def done(name: str, log: Log) -> Resolved:
        found = resolved(views[name], {TP: log}, TableVerdict.SKIP)
        assert found is not None
        return found

    first = {name: done(name, log) for name, log in logs.items()}
    named = {
        name: Sharer(
            logs[name], views[name].shared.get(TP), each.chain.links[TP].until, each.because[TP] is Because.NEW
        )
        for name, each in first.items()
    }
    plan = together(named, [views[name].shared.get(TP) for name in NAMES if name not in named], MINE)
    assert plan is not None, "only tables that know the map are left out"
    assert all(log.sharing == MINE for name, log in plan.items() if name in world.lost)
    after = {name: done(name, log) for name, log in plan.items()}
    at = {name: after[name].chain.links[TP].until if name in after else world.until[name] for name in NAMES}
    holders: dict[int, list[str]] = {offset: [] for offset in range(END)}
    for name in NAMES:
        again = {n for n in range(max(at[name], world.start), END) if world.present[n] == name}
        for offset in [*world.rows(name), *again]:
            holders[offset].append(name)
        owed = {n for n in range(max(world.changed, world.start), END) if world.present[n] == name}
        missing = owed - world.rows(name) - again
        if name in world.lost:
            given_up = after[name].given_up[TP]
            assert all(given_up.start <= offset < given_up.end for offset in missing), (name, missing)
        else:
            assert missing <= world.deleted
    assert all(len(found) <= 1 for found in holders.values()), holders
