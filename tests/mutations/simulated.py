"""One world of the simulator, with some faults made more frequent."""

from __future__ import annotations

from collections.abc import Mapping

from tests.sim.hub import Violation
from tests.sim.world import WORLD_STEPS, World


def run_seed(seed: int, often: Mapping[str, float]) -> tuple[str | None, str]:
    """The invariant that broke and how, (None, the seed) when none did."""
    world = World(seed)
    world.hub.factors.update(often)
    try:
        world.run(WORLD_STEPS)
    except Violation as broken:
        return broken.invariant, broken.what
    except Exception as error:  # what production code raises without declaring it
        return "no_defect", f"{type(error).__name__}: {error}"
    return None, f"seed {seed}"
