"""Explore every small world whole and say how many states that were.

Exit code 0: no invariant broke and everything expected was reached; 1 otherwise, with the schedule that broke it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import replace

from tests.model.controls import CONTROLS
from tests.model.coverage import CELLS, EXPECTED, FAULTS, OUTCOMES, missing
from tests.model.model import REASONS
from tests.model.search import Explored, explore
from tests.model.worlds import WORLDS


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--world", action="append", help="only this one (again for more); see --list")
    parser.add_argument("--more", type=int, default=0, help="so many more faults in each world: slower, much")
    parser.add_argument("--limit", type=int, default=1 << 40, help="stop each world after so many states")
    parser.add_argument("--list", action="store_true", help="list worlds and controls, explore nothing")
    parser.add_argument("--control", help="explore under this wrong variant: its invariant must break")
    options = parser.parse_args()
    if options.list:
        return _list()
    if options.control:
        return _control(options.control)
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
    for title, names in (
        ("decision table", CELLS),
        ("faults", FAULTS),
        ("halts", list(REASONS)),
        ("outcomes", OUTCOMES),
    ):
        sys.stdout.write(f"{title}: {sum(bool(counts[n]) for n in names)} of {len(names)} reached\n")
    if lost:
        sys.stdout.write(f"NOT REACHED: {', '.join(lost)}\n")
    sys.stdout.write(
        f"model: worlds={len(chosen)} states={states} reached={sum(bool(counts[n]) for n in EXPECTED)}/{len(EXPECTED)} "
        f"broken={broken} seconds={time.perf_counter() - began:.1f}\n"
    )
    return 1 if broken or lost else 0


def _list() -> int:
    for world in WORLDS:
        faults = ", ".join(name if n == 1 else f"{name} x{n}" for name, n in world.faults.items())
        sys.stdout.write(f"world    {world.name}: {world.about}\n         up to {world.any} of: {faults}\n")
    for control in CONTROLS:
        sys.stdout.write(f"control  {control.name}: breaks {control.invariant} in {control.world!r}\n")
    return 0


def _control(name: str) -> int:
    control = next(c for c in CONTROLS if c.name == name)
    return _say(explore(next(w for w in WORLDS if w.name == control.world), control.rules))


def _say(seen: Explored) -> int:
    """1 when something broke; with its schedule."""
    if seen.found is None:
        return 0
    sys.stdout.write(f"BROKEN {seen.found.invariant}: {seen.found.what}\n")
    sys.stdout.writelines(f"    {step}\n" for step in seen.found.trace)
    return 1


if __name__ == "__main__":
    sys.exit(main())
