"""Breadth first through every state of a world, each once, so that what is found has a shortest schedule."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from tests.mirror_model import coordinators, faults, workers
from tests.mirror_model.rules import Model, Rules, World
from tests.mirror_model.space import Control, State, Table, bits, of_life
from tests.mirror_model.workers import Step
from tests.model.explored import Explored, Found, searching
from tests.sim.hub import Violation


def first(world: World) -> State:
    """Nothing happened yet."""
    left = tuple(world.faults.values())
    return State(0, (None,) * world.tps, (), Control(), (Table(),) * world.tables, (), left, world.any)


def successors(model: Model, state: State) -> Iterator[Step]:
    """Everything that may happen next; looks at the state's completeness when nothing has to."""
    steps = [*workers.steps(model, state), *coordinators.steps(model, state)]
    if not steps:
        _at_rest(model, state)
    yield from steps
    yield from faults.steps(model, state)


def _at_rest(model: Model, state: State) -> None:
    if any(c.stage == "halted" for c in state.coordinators):
        model.counts["rest: halted"] += 1
        return
    model.counts["rest"] += 1
    whole = of_life(model.world.records & bits(0, model.world.end), state.topic_life)
    for number, table in enumerate(state.tables):
        held = table.total(model.world.tps)
        if any(h & whole != whole for h in held):
            raise Violation("complete_at_rest", f"table {number} holds {held} of {whole}")


def explore(world: World, rules: Rules | None = None, limit: int = 1 << 40) -> Explored:
    """All states of the world, or as many as ``limit``; ends at the first violation."""
    model = Model(world, rules or Rules())
    begun = first(world)
    came: dict[State, tuple[State | None, str]] = {begun: (None, "world: begins")}
    waiting = deque([begun])
    state, found = begun, list[Found]()
    with searching(found, lambda: _trace(came, state)):
        while waiting and len(came) < limit:
            state = waiting.popleft()
            for what, after in successors(model, state):
                if after not in came:
                    came[after] = (state, what)
                    waiting.append(after)
    return Explored(world.name, len(came), model.counts, *found, whole=not found and not waiting)


def _trace(came: dict[State, tuple[State | None, str]], state: State) -> tuple[str, ...]:
    """The steps before the one that broke it."""
    steps = []
    at: State | None = state
    while at is not None:
        at, what = came[at]
        steps.append(what)
    return tuple(reversed(steps))
