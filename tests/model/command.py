"""The command line of an exhaustive model: every small world whole, and how many states that were.

Exit code 0: no invariant broke and everything expected was reached; 1 otherwise, with the schedule that broke it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Model:
    """One model.  ``kinds`` are parts of what is expected, by a title, that are summed up by themselves."""

    program: str
    name: str
    worlds: Sequence[Any]
    controls: Sequence[Any]
    explore: Callable[..., Any]
    expected: Sequence[str]
    missing: Callable[[Counter[str]], list[str]]
    kinds: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def main(self) -> int:
        """See the module."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.program}", description=__doc__)
        parser.add_argument("--world", action="append", help="only this one (again for more); see --list")
        parser.add_argument("--more", type=int, default=0, help="so many more faults in each world: slower, much")
        parser.add_argument("--limit", type=int, default=1 << 40, help="stop each world after so many states")
        parser.add_argument("--list", action="store_true", help="list worlds and controls, explore nothing")
        parser.add_argument("--control", help="explore under this wrong variant: its invariant must break")
        options = parser.parse_args()
        if options.list:
            return self._list()
        if options.control:
            control = next(c for c in self.controls if c.name == options.control)
            return _say(self.explore(next(w for w in self.worlds if w.name == control.world), control.rules))
        return self._explore(options)

    def _explore(self, options: argparse.Namespace) -> int:
        chosen = [w for w in self.worlds if options.world is None or w.name in options.world]
        counts: Counter[str] = Counter()
        states, began, broken = 0, time.perf_counter(), 0
        for world in chosen:
            since = time.perf_counter()
            seen = self.explore(replace(world, any=world.any + options.more), limit=options.limit)
            counts.update(seen.counts)
            states += seen.states
            whole = "all" if seen.whole else "not all"
            sys.stdout.write(
                f"{seen.states:>9,} states, {whole}  {time.perf_counter() - since:>5.1f} s  {world.name}\n"
            )
            broken += _say(seen)
        lost = self.missing(counts) if options.world is None and not broken else []
        for title, names in self.kinds.items():
            sys.stdout.write(f"{title}: {sum(bool(counts[n]) for n in names)} of {len(names)} reached\n")
        if lost:
            sys.stdout.write(f"NOT REACHED: {', '.join(lost)}\n")
        reached = f"{sum(bool(counts[n]) for n in self.expected)}/{len(self.expected)}"
        sys.stdout.write(
            f"{self.name}: worlds={len(chosen)} states={states} reached={reached} broken={broken} "
            f"seconds={time.perf_counter() - began:.1f}\n"
        )
        return 1 if broken or lost else 0

    def _list(self) -> int:
        for world in self.worlds:
            faults = ", ".join(name if n == 1 else f"{name} x{n}" for name, n in world.faults.items())
            sys.stdout.write(f"world    {world.name}: {world.about}\n         up to {world.any} of: {faults}\n")
        for control in self.controls:
            sys.stdout.write(f"control  {control.name}: breaks {control.invariant} in {control.world!r}\n")
        return 0


def once(*faults: str) -> dict[str, int]:
    """Each of these faults once: for a world."""
    return dict.fromkeys(faults, 1)


def _say(seen: Any) -> int:
    """1 when something broke; with its schedule."""
    if seen.found is None:
        return 0
    sys.stdout.write(f"BROKEN {seen.found.invariant}: {seen.found.what}\n")
    sys.stdout.writelines(f"    {step}\n" for step in seen.found.trace)
    return 1
