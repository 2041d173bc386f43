"""Depth first through every state of a world, each once; a state met again on its own path is a schedule without end."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.driver import moves
from tests.model.explored import Explored, Found, searching
from tests.model.model import Model, World
from tests.model.protocol import Rules
from tests.model.services import arrivals
from tests.model.space import State
from tests.model.spark import task_lost, task_moves
from tests.sim.hub import Violation

Move = tuple[str, str, State]
Entry = tuple[State, tuple[str, str], Iterator[Move]]


def successors(model: Model, state: State) -> Iterator[Move]:
    """Everything that may happen next: who, what, and the state after it."""
    for driver in state.drivers:
        for what, after in moves(model, state, driver):
            yield f"driver {driver.number}", what, after
    for task in dict.fromkeys(state.tasks):
        for what, after in task_moves(model, state, task):
            yield f"task of driver {task.driver}", what, after
        if state.any_left:
            for what, after in task_lost(model, state, task):
                yield f"task of driver {task.driver}", what, after
    if state.store.late:
        for what, after in arrivals(model, state):
            yield "world", what, after
    for event in model.events:
        for what, after in event(model, state):
            yield "world", what, after


def explore(world: World, rules: Rules | None = None, limit: int = 1 << 40) -> Explored:
    """All states of the world, or as many as ``limit``; ends at the first violation."""
    model = Model(world, rules or Rules())
    first, counts = model.first(), model.counts
    on_path: dict[State, bool] = {first: True}
    stack: list[Entry] = [(first, ("world", "begins"), successors(model, first))]
    found: list[Found] = []
    with searching(found, lambda: tuple(f"{who}: {what}" for _, (who, what), _ in stack)):
        while stack and len(on_path) < limit:
            state, _, todo = stack[-1]
            step = next(todo, None)
            if step is None:
                stack.pop()
                on_path[state] = False
                continue
            who, what, after = step
            counts[what] += 1
            if after.any_left < state.any_left:
                counts.update(_spent(model, state, after))
            before = len(on_path)
            again = on_path.setdefault(after, True)
            if len(on_path) > before:
                stack.append((after, (who, what), successors(model, after)))
            elif again:
                raise Violation("progress", "all is as it was before: a schedule that never ends")
    return Explored(world.name, len(on_path), counts, *found, whole=not found and not stack)


def _spent(model: Model, before: State, after: State) -> list[str]:
    """The faults that a step took."""
    pairs = zip(model.world.faults, before.left, after.left, strict=True)
    return [f"fault {name}" for name, had, has in pairs if has < had]
