"""``python -m tests.mutations.seek``: a seed for every simulated defect whose recorded seed no longer shows it.

Any change to the order or number of port calls gives seeds another meaning.  A seed fits when the named invariant
breaks with the defect, and nothing breaks without it.  ``--write`` puts the new seeds into ``defects.py`` and draws the
table of ``docs/simulator.md`` again; without it they are printed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain

from tests.mutations.defects import Defect
from tests.mutations.every import DEFECTS
from tests.mutations.patching import ROOT, install
from tests.mutations.render import redraw
from tests.mutations.running import in_child

FOLDER = ROOT / "tests" / "mutations"
LISTS = {
    "clickhouse": FOLDER / "defects.py",
    "tables": FOLDER / "defects.py",
    "mirror": FOLDER / "mirror_defects.py",
    "taken": FOLDER / "mirror_defects.py",
    "replays": FOLDER / "replay_defects.py",
}
PAGE = ROOT / "docs" / "simulator.md"


def main() -> int:
    """0: every defect has a seed that fits, recorded or (with ``--write``) rewritten; 1: otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations.seek", description=__doc__)
    parser.add_argument("name", nargs="*", help="only these defects")
    parser.add_argument("--seeds", type=int, default=400, help="how many seeds to try for each")
    parser.add_argument("--jobs", type=int, default=1, help="how many defects at a time")
    parser.add_argument("--write", action="store_true", help="record what was found")
    options = parser.parse_args()
    chosen = [d for d in DEFECTS if d.simulated and (not options.name or d.name in options.name)]
    left = 0
    with ThreadPoolExecutor(options.jobs) as threads:
        for defect, seed in zip(chosen, threads.map(partial(fitting_seed, seeds=options.seeds), chosen), strict=True):
            left += seed is None or (seed != defect.seed and not options.write)
            sys.stdout.write(f"{defect.name}: seed {defect.seed}{_news(defect.seed, seed)}\n")
            sys.stdout.flush()
            if seed is not None and options.write:
                found = LISTS[defect.of]
                new = found.with_suffix(".new")
                new.write_text(with_seed(found.read_text(encoding="utf-8"), defect.name, seed), encoding="utf-8")
                new.replace(found)  # a child may be reading it
    if options.write:
        in_child(redraw, PAGE)  # a fresh process reads the list as it is now
    return 1 if left else 0


def _news(recorded: int, found: int | None) -> str:
    if found is None:
        return " shows it no longer, and no other seed was found"
    return "" if found == recorded else f" -> {found}"


def fitting_seed(defect: Defect, seeds: int) -> int | None:
    """The recorded seed if it still fits, else the first that does.  None: none of them."""
    first = 0
    while True:
        seed = in_child(first_shown, defect.name, first, seeds)
        if seed is None or in_child(is_green, seed, dict(defect.often), defect.of):
            return seed
        first = seed + 1 if first or seed != defect.seed else 1


def first_shown(name: str, first: int, seeds: int) -> int | None:
    """In a process of its own: the first seed from ``first`` on that shows the defect; 0 begins with the recorded one."""
    defect = next(d for d in DEFECTS if d.name == name)
    install(defect.changes)
    from tests.mutations.simulated import run_seed

    order: Iterator[int] = iter(range(first, seeds + 1)) if first else chain([defect.seed], range(1, seeds + 1))
    return next((seed for seed in order if run_seed(seed, defect.often, defect.of)[0] == defect.invariant), None)


def is_green(seed: int, often: Mapping[str, float], of: str) -> bool:
    """In a process of its own: nothing breaks without the defect."""
    from tests.mutations.simulated import run_seed

    return run_seed(seed, often, of)[0] is None


def with_seed(text: str, name: str, seed: int) -> str:
    """The list with another seed of this defect."""
    begins = text.index(f'        "{name}",\n')
    found = re.compile(r"        seed=\d+,").search(text, begins)
    ends = text.find("Defect(\n", begins)
    assert found is not None and (ends < 0 or found.start() < ends), name
    return f"{text[: found.start()]}        seed={seed},{text[found.end() :]}"


if __name__ == "__main__":
    sys.exit(main())
