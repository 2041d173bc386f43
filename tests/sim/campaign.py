"""Many worlds: run them, count what they reached, make a failing one small.

A campaign that reached nothing proves nothing: :data:`EXPECTED` lists every cell, failpoint, outcome and fault that has
to be reached, and one that was not is a failure of the campaign.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from chsink import failpoints
from chsink.statemachine import table
from tests.sim.events import NAMES as EVENT_NAMES
from tests.sim.hub import Violation
from tests.sim.operator import CHECKPOINT_FAULTS, REASONS
from tests.sim.world import DISASTERS, SPECIAL, WORLD_STEPS, World

SHRINK_RUNS = 120
ENOUGH_STEPS = 1_000_000
"""From here on, anything expected that was never reached fails the campaign."""

HALTED_BEFORE = {
    *("TOPIC_RECREATED_IDLE/BEFORE", "TOPIC_RECREATED_FROM_ZERO/BEFORE", "TOPIC_RECREATED/BEFORE"),
    *("TOPIC_ID_LOST/BEFORE", "TOPIC_ID_GAINED/BEFORE", "LOG_SHRANK/BEFORE"),
    "LOG_SHRANK/AFTER",
}
"""Seldom or never counted: a driver nearly always meets them when it starts or settles, and only batches' decisions are
counted.
"""
CELLS = [f"cell {name}" for name in table.CELLS if name not in HALTED_BEFORE]
FAILPOINTS = [f"failpoint {name}" for name in failpoints.NAMES]
FAULTS = [
    *(f"fault {name}" for name in (*EVENT_NAMES, *CHECKPOINT_FAULTS, *SPECIAL, *DISASTERS)),
    *(f"fault killed at {name}" for name in failpoints.NAMES),
    *(
        f"fault insert {what}"
        for what in ("refused", "request lost", "arrives late", "answer lost", "error after data")
    ),
    *(f"fault store {verb} {what}" for verb in ("swap", "create") for what in ("lost", "late", "answer lost")),
    *(f"fault store {verb} delivered twice" for verb in ("swap", "create")),
    "fault server killed with an insert",
    "fault store session lost",
    "fault speculative duplicate",
    "fault two drivers at once",
    "fault operator interrupted",
    "fault retention under a read",
    "fault topic recreated under a read",
]
SELDOM = {"CHS-233"}
"""Tables altered twice within moments."""
OUTCOMES = [
    *(f"outcome {verb} {what}" for verb in ("swap", "create") for what in ("applied", "refused", "unknown")),
    *(f"outcome late write {what}" for what in ("applied", "refused")),
    *(f"outcome insert {what}" for what in ("applied", "deduplicated", "unreachable")),
    *(f"outcome {why}" for why in REASONS if why not in SELDOM),
    *(f"outcome {why}" for why in ("CHS-701", "CHS-705", "CHS-707", "CHS-709", "CHS-801", "CHS-802")),
    "outcome load answered",
    "outcome load lags",
    "outcome store load unavailable",
    "outcome probed",
    "outcome record skipped",
]
COMMANDS = [
    *(f"command resolve {verdict}" for verdict in ("landed", "resend", "expired", "lost")),
    *(f"command {what}" for what in ("reset", "recover", "recover --replace", "CHS-320", "CHS-322", "CHS-331")),
    "operator deletes",
]
"""What operators typed, and what refused it."""
EXPECTED = [*CELLS, "cell cropped", *FAILPOINTS, *FAULTS, *OUTCOMES, *COMMANDS, "world at rest"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A world that broke an invariant: enough to run it again."""

    seed: int
    steps: int
    keep: tuple[int, ...] | None
    invariant: str
    what: str
    faults: tuple[str, ...] = ()

    @property
    def replay(self) -> str:
        """One line for ``--replay`` and for ``regressions.txt``."""
        kept = "all" if self.keep is None else ",".join(map(str, self.keep)) or "none"
        return f"seed={self.seed} steps={self.steps} keep={kept}"

    def __str__(self) -> str:
        return (
            f"BROKEN {self.invariant}: {self.what}\n  faults: {', '.join(self.faults) or 'none'}\n"
            f'  again: python -m tests.sim --replay "{self.replay}"'
        )


@dataclass(slots=True)
class Report:
    """What a campaign did."""

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
        return f"{sum(bool(self.counts[n]) for n in EXPECTED)}/{len(EXPECTED)}"

    def missing(self) -> list[str]:
        """What had to be reached and was not."""
        return [name for name in EXPECTED if not self.counts[name]]


def run_world(seed: int, steps: int, keep: Sequence[int] | None = None) -> tuple[World, Failure | None]:
    """One world, and how it failed, if it did."""
    world = World(seed, None if keep is None else frozenset(keep))
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
    return world, Failure(seed, min(steps, world.hub.steps), kept, invariant, what, names)


def campaign(first_seed: int, steps: int, *, max_failures: int = 1, world_steps: int = WORLD_STEPS) -> Report:
    """Worlds from ``first_seed`` on until so many steps are done, or enough worlds failed."""
    report, seed = Report(), first_seed
    while report.steps < steps and len(report.failures) < max_failures:
        world, failure = run_world(seed, world_steps)
        report.steps += world.hub.steps
        report.worlds += 1
        report.counts.update(world.hub.counts)
        if failure is not None:
            report.failures.append(failure)
        seed += 1
    return report


def shrink(failure: Failure) -> Failure:
    """Fewer faults and fewer steps that still break the same invariant."""
    best, runs = failure, 0

    def still_breaks(keep: Sequence[int]) -> Failure | None:
        nonlocal runs
        runs += 1
        _, found = run_world(failure.seed, best.steps, keep)
        return found if found is not None and found.invariant == failure.invariant else None

    again = still_breaks(best.keep or ())
    if again is None:
        return Failure(failure.seed, failure.steps, None, failure.invariant, failure.what, failure.faults)
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
