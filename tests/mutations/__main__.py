"""``python -m tests.mutations NAME``: this process runs production code with that defect and says what caught it.

``--search SEEDS`` looks for seeds and worlds that show it; without, the defect's own seed or world is run.
"""

from __future__ import annotations

import argparse
import sys

from tests.mutations.defects import Defect
from tests.mutations.every import DEFECTS
from tests.mutations.patching import install
from tests.mutations.running import run


def main() -> int:
    """0: caught by the invariant that the list names; 1: not."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("name", nargs="?", help="the defect; none: list them")
    parser.add_argument("--search", type=int, metavar="SEEDS", help="try so many seeds, and every world of the model")
    options = parser.parse_args()
    if options.name is None:
        sys.stdout.writelines(f"{d.name}\n" for d in DEFECTS)
        return 0
    defect = next(d for d in DEFECTS if d.name == options.name)
    install(defect.changes)
    invariant, what = _search(defect, options.search) if options.search else run(defect)
    said = "SURVIVED" if invariant is None else invariant or "FAILED"
    sys.stdout.write(f"{said}: {what.splitlines()[0]}\n")
    return 0 if invariant == defect.invariant else 1


def _search(defect: Defect, seeds: int) -> tuple[str | None, str]:
    """The first world and the first seed for every invariant that breaks."""
    from tests.model.search import explore
    from tests.model.worlds import WORLDS
    from tests.mutations.simulated import run_seed

    said: dict[str, str] = {}
    for world in WORLDS:
        found = explore(world, limit=30_000).found
        if found is not None:
            said.setdefault(f"model {found.invariant}", world.name)
    for seed in range(1, seeds + 1):
        invariant, _ = run_seed(seed, defect.often, defect.of)
        if invariant is not None:
            said.setdefault(f"simulator {invariant}", f"seed {seed}")
    return None, "; ".join(f"{name} in {where}" for name, where in said.items())


if __name__ == "__main__":
    sys.exit(main())
