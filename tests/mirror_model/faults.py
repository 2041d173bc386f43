"""What happens to workers, coordinators, Kafka and tables, each so often as the world allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.mirror_model.coordinators import started
from tests.mirror_model.rules import Model
from tests.mirror_model.space import Control, Coordinator, Snap, State, Table
from tests.mirror_model.workers import Step

Fault = Callable[[Model, State], Iterator[State]]


def steps(model: Model, state: State) -> Iterator[Step]:
    """Every fault that may happen now."""
    for name, fault in FAULTS.items():
        if model.left(state, name):
            for after in fault(model, state):
                yield f"world: {name}", model.spend(after, name)


def _second(model: Model, state: State) -> Iterator[State]:
    if any(c.alive for c in state.coordinators):
        yield started(state)[1]


def _killed(model: Model, state: State) -> Iterator[State]:
    for number, mine in enumerate(state.coordinators):
        if mine.alive:
            gone = Coordinator(stage="gone")
            rest = (*state.coordinators[:number], gone, *state.coordinators[number + 1 :])
            yield state._replace(coordinators=rest)


def _worker_killed(model: Model, state: State) -> Iterator[State]:
    for number, worker in enumerate(state.workers):
        if worker.ranges:
            yield state._replace(workers=(*state.workers[:number], *state.workers[number + 1 :]))


def _control_lost(model: Model, state: State) -> Iterator[State]:
    """Deleted and created again: Kafka deletes the group's offsets of it too."""
    yield state._replace(control=Control(state.control.life + 1))


def _group_lost(model: Model, state: State) -> Iterator[State]:
    for tp, at in enumerate(state.group):
        if at is not None:
            yield state._replace(group=(*state.group[:tp], None, *state.group[tp + 1 :]))


def _group_set_back(model: Model, state: State) -> Iterator[State]:
    for tp, at in enumerate(state.group):
        if at:
            yield state._replace(group=(*state.group[:tp], 0, *state.group[tp + 1 :]))


def _control_group_lost(model: Model, state: State) -> Iterator[State]:
    if state.control.group is not None:
        yield state._replace(control=state.control._replace(group=None))


def _each_table(state: State, change: Callable[[Table], Table | None]) -> Iterator[State]:
    for number, table in enumerate(state.tables):
        after = change(table)
        if after is not None:
            yield state._replace(tables=(*state.tables[:number], after, *state.tables[number + 1 :]))


def _foreign(model: Model, state: State) -> Iterator[State]:
    """Another writer's snapshot; its rows are not counted."""

    def change(table: Table) -> Table:
        number = table.made + 1
        snap = Snap(number, table.head, table.total(model.world.tps), None)
        return table._replace(snaps=(*table.snaps, snap), head=number, made=number)

    yield from _each_table(state, change)


def _expired(model: Model, state: State) -> Iterator[State]:
    """All snapshots but the head."""

    def change(table: Table) -> Table | None:
        kept = tuple(s for s in table.snaps if s.number == table.head)
        return table._replace(snaps=kept) if len(kept) < len(table.snaps) else None

    yield from _each_table(state, change)


def _rolled_back(model: Model, state: State) -> Iterator[State]:
    """To the parent of the newest snapshot that the mirror made."""

    def change(table: Table) -> Table | None:
        head = table.at(table.head)
        return table._replace(head=head.parent) if head and head.stored and table.at(head.parent) else None

    yield from _each_table(state, change)


def _property_lost(model: Model, state: State) -> Iterator[State]:
    """Of a table that the mirror's snapshots still describe."""

    def change(table: Table) -> Table | None:
        return table._replace(prop=None) if table.prop and any(s.stored for s in table.snaps) else None

    yield from _each_table(state, change)


def _topic_recreated(model: Model, state: State) -> Iterator[State]:
    yield state._replace(topic_life=state.topic_life + 1, group=(None,) * len(state.group))


FAULTS: dict[str, Fault] = {
    "second coordinator": _second,
    "coordinator killed": _killed,
    "worker killed": _worker_killed,
    "control topic lost": _control_lost,
    "group lost": _group_lost,
    "group set back": _group_set_back,
    "control group lost": _control_group_lost,
    "foreign append": _foreign,
    "snapshots expired": _expired,
    "rolled back": _rolled_back,
    "property lost": _property_lost,
    "topic recreated": _topic_recreated,
}
STEPWISE = ("second attempt", "plan from earlier", "plan from later", "catalog: answer lost", "catalog: request lost")
"""Faults that are part of another step."""
