"""Many worlds of one kind: run them, count their coverage, shrink a failing one.  All simulators use it.

A campaign that reached nothing proves nothing: it fails if it does not reach everything that it must.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from tests.sim.hub import Hub, Violation

SHRINK_RUNS = 120
LONGER = 4
"""How many times as long a campaign may go on until it has reached everything."""


class World(Protocol):
    """One world; ``run`` raises Violation."""

    @property
    def hub(self) -> Hub:
        """Its scheduler."""

    def run(self, steps: int) -> None:
        """Let it go on for so many steps, then bring it to rest."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A world that broke an invariant: enough to run it again."""

    seed: int
    steps: int
    keep: tuple[int, ...] | None
    invariant: str
    what: str
    faults: tuple[str, ...] = ()
    program: str = "tests.sim"

    @property
    def replay(self) -> str:
        """One line for ``--replay`` and for ``regressions.txt``."""
        kept = "all" if self.keep is None else ",".join(map(str, self.keep)) or "none"
        return f"seed={self.seed} steps={self.steps} keep={kept}"

    def __str__(self) -> str:
        return (
            f"BROKEN {self.invariant}: {self.what}\n  faults: {', '.join(self.faults) or 'none'}\n"
            f'  again: python -m {self.program} --replay "{self.replay}"'
        )


@dataclass(slots=True)
class Report:
    """What a campaign did, and what it has to reach."""

    expected: Sequence[str]
    steps: int = 0
    worlds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, part: Report) -> None:
        """What another process did."""
        self.steps += part.steps
        self.worlds += part.worlds
        self.counts.update(part.counts)
        self.failures.extend(part.failures)

    @property
    def reached(self) -> str:
        """How much of what is expected was reached."""
        return f"{sum(bool(self.counts[n]) for n in self.expected)}/{len(self.expected)}"

    def missing(self) -> list[str]:
        """What had to be reached and was not."""
        return [name for name in self.expected if not self.counts[name]]


@dataclass(frozen=True, slots=True)
class Runs:
    """Worlds of one kind.  ``program`` is the module that replays one, ``steps`` are those of a world."""

    program: str
    world: Callable[[int, frozenset[int] | None], World]
    steps: int
    expected: Sequence[str]

    def report(self) -> Report:
        """A report without a run."""
        return Report(self.expected)

    def run_world(self, seed: int, steps: int, keep: Sequence[int] | None = None) -> tuple[World, Failure | None]:
        """One world, and how it failed, if it did."""
        world = self.world(seed, None if keep is None else frozenset(keep))
        try:
            world.run(steps)
        except Violation as broken:
            invariant, what = broken.invariant, broken.what
        except Exception as error:  # what production code raises without declaring it
            invariant, what = "no_defect", "".join(traceback.format_exception(error)[-3:])
        else:
            return world, None
        fired = world.hub.fired
        names = tuple(name for _, name in fired)
        kept = tuple(number for number, _ in fired)
        done = min(steps, world.hub.steps)
        return world, Failure(seed, done, kept, invariant, what, names, self.program)

    def campaign(self, first_seed: int, steps: int, *, max_failures: int = 1, expect_all: bool = False) -> Report:
        """Worlds from ``first_seed`` on until so many steps are done, or enough worlds failed.  With ``expect_all``, it
        goes on until everything was reached, for up to :data:`LONGER` times as many steps.
        """
        report, seed = self.report(), first_seed
        while len(report.failures) < max_failures and (
            report.steps < steps or (expect_all and report.steps < steps * LONGER and report.missing())
        ):
            self.add(report, seed)
            seed += 1
        return report

    def add(self, report: Report, seed: int) -> None:
        """One more world."""
        world, failure = self.run_world(seed, self.steps)
        report.steps += world.hub.steps
        report.worlds += 1
        report.counts.update(world.hub.counts)
        if failure is not None:
            report.failures.append(failure)

    def shrink(self, failure: Failure) -> Failure:
        """Fewer faults and fewer steps that still break the same invariant."""
        best, runs = failure, 0

        def still_breaks(keep: Sequence[int]) -> Failure | None:
            nonlocal runs
            runs += 1
            _, found = self.run_world(failure.seed, best.steps, keep)
            return found if found is not None and found.invariant == failure.invariant else None

        again = still_breaks(best.keep or ())
        if again is None:
            return replace(failure, keep=None)
        best, size = again, max(1, len(again.keep or ()) // 2)
        while size and runs < SHRINK_RUNS:
            keep, at = list(best.keep or ()), 0
            while at < len(keep) and runs < SHRINK_RUNS:
                fewer = still_breaks(keep[:at] + keep[at + size :])
                if fewer is None:
                    at += size
                else:
                    best, keep = fewer, list(fewer.keep or ())
            size //= 2
        return best


def parse_replay(line: str) -> tuple[int, int, tuple[int, ...] | None]:
    """The inverse of :attr:`Failure.replay`; what stands after ``#`` is a comment."""
    words = dict(word.split("=", 1) for word in line.split("#", 1)[0].split())
    keep = words["keep"]
    numbers = None if keep == "all" else () if keep == "none" else tuple(map(int, keep.split(",")))
    return int(words["seed"]), int(words["steps"]), numbers


def kept(file: Path) -> list[str]:
    """The lines of worlds that broke once."""
    return [line for line in file.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
