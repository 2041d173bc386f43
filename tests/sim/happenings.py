"""Events that hit a simulated world from outside.  Each is a numbered fault, so that a replay can leave it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from tests.sim.hub import Hub


class _HasHub(Protocol):
    hub: Hub


W = TypeVar("W", bound=_HasHub)


class Happenings(Generic[W]):
    """The events of one kind of world, in the order of their definition, and the names of their faults."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._all: list[Callable[[W], None]] = []

    def event(self, name: str, probability: float) -> Callable[[Callable[[W], None]], Callable[[W], None]]:
        """Register an event: it happens with this probability when it is its turn."""

        def register(happen: Callable[[W], None]) -> Callable[[W], None]:
            def maybe(world: W) -> None:
                if world.hub.fault(name, probability):
                    happen(world)

            self._all.append(maybe)
            self.names.append(name)
            return happen

        return register

    def one(self, world: W) -> None:
        """One of them has its turn."""
        self._all[int(world.hub.random.random() * len(self._all))](world)
