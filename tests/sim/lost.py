"""Worlds that lose their state, or get an old backup of it, in the middle of their life; also with dead letters."""

from __future__ import annotations

from random import Random

from tests.sim.runs import Runs
from tests.sim.world import DISASTERS, WORLD_STEPS
from tests.sim.world import World as AnyWorld


class World(AnyWorld):
    """Only what does not change how other worlds are drawn from their seeds."""

    def _draw_events(self, seed: int, *, rare: bool) -> None:
        super()._draw_events(seed, rare=rare)
        self.disaster = Random(f"lost {seed}").choice(DISASTERS) if self.tables_tell else ""


EXPECTED = [
    "recovered in doubt",
    "command recover",
    "command recover --replace",
    "command CHS-331",
    "operator deletes",
]
RUNS = Runs("tests.sim.lost", World, WORLD_STEPS, EXPECTED)
