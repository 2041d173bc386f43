"""Explore every small world of the mirror whole and say how many states that were.

Exit code 0: no invariant broke and everything expected was reached; 1 otherwise, with the schedule that broke it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import replace

from tests.mirror_model.controls import CONTROLS
from tests.mirror_model.coverage import EXPECTED, missing
from tests.mirror_model.search import Explored, explore
from tests.mirror_model.worlds import WORLDS


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.mirror_model", description=__doc__)
    parser.add_argument("--world", action="append", help="only this one (again for more); see --list")
    parser.add_argument("--more", type=int, default=0, help="so many more faults in each world: slower, much")
    parser.add_argument("--limit", type=int, default=1 << 40, help="stop each world after so many states")
    parser.add_argument("--list", action="store_true", help="list worlds and controls, explore nothing")
    parser.add_argument("--control", help="explore under this wrong variant: its invariant must break")
    options = parser.parse_args()
    if options.list:
        return _list()
    if options.control:
        control = next(c for c in CONTROLS if c.name == options.control)
        return _say(explore(next(w for w in WORLDS if w.name == control.world), control.rules))
    chosen = [w for w in WORLDS if options.world is None or w.name in options.world]
    counts: Counter[str] = Counter()
    states, began, broken = 0, time.perf_counter(), 0
    for world in chosen:
        since = time.perf_counter()
        seen = explore(replace(world, any=world.any + options.more), limit=options.limit)
        counts.update(seen.counts)
        states += seen.states
        whole = "all" if seen.whole else "not all"
        sys.stdout.write(f"{seen.states:>9,} states, {whole}  {time.perf_counter() - since:>5.1f} s  {world.name}\n")
        broken += _say(seen)
    lost = missing(counts) if options.world is None and not broken else []
    if lost:
        sys.stdout.write(f"NOT REACHED: {', '.join(lost)}\n")
    sys.stdout.write(
        f"mirror model: worlds={len(chosen)} states={states} reached={sum(bool(counts[n]) for n in EXPECTED)}/"
        f"{len(EXPECTED)} broken={broken} seconds={time.perf_counter() - began:.1f}\n"
    )
    return 1 if broken or lost else 0


def _list() -> int:
    for world in WORLDS:
        sys.stdout.write(
            f"world    {world.name}: {world.about}\n         up to {world.any} of: {', '.join(world.faults)}\n"
        )
    for control in CONTROLS:
        sys.stdout.write(f"control  {control.name}: breaks {control.invariant} in {control.world!r}\n")
    return 0


def _say(seen: Explored) -> int:
    """1 when something broke; with its schedule."""
    if seen.found is None:
        return 0
    sys.stdout.write(f"BROKEN {seen.found.invariant}: {seen.found.what}\n")
    sys.stdout.writelines(f"    {step}\n" for step in seen.found.trace)
    return 1


if __name__ == "__main__":
    sys.exit(main())
