"""One world of a simulator, with some faults made more frequent."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from tests.sim.hub import Violation

WORLDS = {
    "clickhouse": "tests.sim.world",
    "tables": "tests.sim.chosen",
    "mirror": "tests.mirror_sim.world",
    "taken": "tests.mirror_sim.taken",
    "replays": "tests.replay_sim.world",
}


def run_seed(seed: int, often: Mapping[str, float], of: str = "clickhouse") -> tuple[str | None, str]:
    """The invariant that broke and how, (None, the seed) when none did."""
    module = import_module(WORLDS[of])
    world = module.World(seed)
    world.hub.factors.update(often)
    try:
        world.run(module.WORLD_STEPS)
    except Violation as broken:
        return broken.invariant, broken.what
    except Exception as error:  # what production code raises without declaring it
        return "no_defect", f"{type(error).__name__}: {error}"
    return None, f"seed {seed}"
