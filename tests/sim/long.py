"""``python -m tests.sim.long``: a simulator on all cores, until so many steps or hours are done.

``--of mirror`` runs the mirror's worlds, ``--of taken`` those that begin with a takeover.

Each process takes a range of seeds, so the outcome of a seed is the same as in ``python -m tests.sim``.  A failing world
is shrunk and printed as soon as its range is done; the run goes on.  The last line sums up.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from importlib import import_module
from itertools import count
from multiprocessing import get_context

from tests.sim.__main__ import ENOUGH_STEPS
from tests.sim.runs import Report, Runs

PROGRAMS = {
    "clickhouse": "tests.sim.campaign",
    "mirror": "tests.mirror_sim.campaign",
    "taken": "tests.mirror_sim.taken",
}
SEEDS = 100
"""Seeds in one range."""
SAY_EVERY_S = 60


def main() -> int:
    """0: nothing broke, and everything was reached; 1: otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.long", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first world's seed")
    parser.add_argument("--of", choices=PROGRAMS, default="clickhouse", help="which simulator")
    bound = parser.add_mutually_exclusive_group(required=True)
    bound.add_argument("--steps", type=int, help="steps of all worlds together")
    bound.add_argument("--hours", type=float, help="how long to go on")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes")
    options = parser.parse_args()
    began = time.monotonic()
    until = None if options.hours is None else began + options.hours * 3600
    done, said = _runs(options.of).report(), began
    for part in _parts(options.of, options.seed, options.jobs, done, options.steps, until):
        done.add(part)
        for failure in part.failures:
            sys.stdout.write(f"{failure}\n")
        if time.monotonic() - said >= SAY_EVERY_S or part.failures:
            said = time.monotonic()
            _say("so far", done, began)
    missing = done.missing() if done.steps >= ENOUGH_STEPS else []
    if missing:
        sys.stdout.write(f"NOT REACHED: {', '.join(missing)}\n")
    _say("simulator", done, began)
    return 1 if done.failures or missing else 0


def _runs(of: str) -> Runs:
    found: Runs = import_module(PROGRAMS[of]).RUNS
    return found


def _parts(of: str, seed: int, jobs: int, done: Report, steps: int | None, until: float | None) -> Iterator[Report]:
    """Reports of seed ranges as they come, begun as long as there is more to do."""
    starts = count(seed, SEEDS)

    def more() -> bool:
        return done.steps < steps if steps is not None else until is not None and time.monotonic() < until

    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        running: set[Future[Report]] = {pool.submit(_range, of, next(starts)) for _ in range(jobs)}
        while running:
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                yield future.result()
                if more():
                    running.add(pool.submit(_range, of, next(starts)))


def _range(of: str, first: int) -> Report:
    """The worlds of one range, failing ones made small."""
    runs = _runs(of)
    report = runs.report()
    for seed in range(first, first + SEEDS):
        runs.add(report, seed)
    report.failures = [runs.shrink(failure) for failure in report.failures]
    return report


def _say(what: str, done: Report, began: float) -> None:
    sys.stdout.write(
        f"{what}: steps={done.steps} runs={done.worlds} batches={done.counts['batches']} "
        f"rest={done.counts['world at rest']} reached={done.reached} broken={len(done.failures)} "
        f"seconds={time.monotonic() - began:.0f}\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
