"""Iceberg tables: one commit is atomic, and refused unless the head is the one that was read."""

from __future__ import annotations

from collections.abc import Iterable

from tests.mirror_model.rules import Model
from tests.mirror_model.space import Snap, State, Stored, Table, bits, held_in, of_life, view_of
from tests.sim.hub import Violation

REFUSED = "refused"


def append(model: Model, table: Table, read: Table, files: Iterable[str], stored: Stored) -> Table | None:
    """The table after a commit of these files; None when it is refused.  Watches that no record lands twice."""
    if table.head != read.head and "head requirement" not in model.rules.skip:
        return None
    total = list(table.total(model.world.tps))
    for location in files:
        tp, held = held_in(location)
        if total[tp] & held:
            raise Violation("at_most_once", f"file {location!r} into a table that holds {total}")
        total[tp] |= held
    number = table.made + 1
    named = stored._replace(snapshot=number, sequence=number)
    # the summary cannot name its own sequence number: the reader fills it in
    snap = Snap(number, table.head, tuple(total), stored._replace(snapshot=None, sequence=0))
    return Table((*table.snaps, snap), number, named, number)


def move(model: Model, table: Table, read: Table, stored: Stored) -> Table | None:
    """The table after a commit of the property alone; None when it is refused."""
    if table.head != read.head and "head requirement" not in model.rules.skip:
        return None
    return table._replace(prop=stored)


def checked(model: Model, state: State, number: int, table: Table | None) -> State:
    """The state with this table; watches that its chain says what it holds."""
    assert table is not None
    reading = model.rules.read_chain(view_of(table))
    if reading.chain is not None:
        for tp, link in enumerate(reading.chain.links[t] for t in sorted(reading.chain.links)):
            life = int(link.topic_id[2:])
            said = of_life(model.world.records & bits(link.origin, link.until), life)
            if table.total(model.world.tps)[tp] & of_life(0xFF, life) != said:
                raise Violation(
                    "chain_is_content", f"table {number} holds {table.total(model.world.tps)}, its chain says {said:b}"
                )
    return state._replace(tables=(*state.tables[:number], table, *state.tables[number + 1 :]))
