"""``python -m tests.sim --seed N --steps N``: run worlds; ``--replay "seed=… steps=… keep=…"``: run one again."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Sequence

from tests.sim.campaign import RUNS, SECTIONS
from tests.sim.runs import Report, Runs, parse_replay

ENOUGH_STEPS = 1_000_000
"""From so many steps on, the campaign fails if it did not reach everything that it must."""
RARELY = (200_000, 50, 50)
"""Worlds make many small objects and few cycles: collecting these as often as Python does takes a tenth of the time."""


def main(runs: Runs, sections: Sequence[tuple[str, Sequence[str]]], enough_steps: int) -> int:
    """Exit code 0: nothing broke; 1: an invariant broke, or the campaign did not reach everything that it must."""
    parser = argparse.ArgumentParser(prog=f"python -m {runs.program}")
    parser.add_argument("--seed", type=int, default=1, help="the first world's seed")
    parser.add_argument("--steps", type=int, default=enough_steps, help="steps of all worlds together")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many failing worlds")
    parser.add_argument("--expect-all", action="store_true", help="go on until all is reached, or fail")
    parser.add_argument("--no-shrink", action="store_true", help="print a failing world as it was found")
    parser.add_argument("--replay", help='a line "seed=… steps=… keep=…"')
    options = parser.parse_args()
    if options.replay:
        return _replay(runs, options.replay)
    gc.set_threshold(*RARELY)
    began = time.perf_counter()
    report = runs.campaign(options.seed, options.steps, max_failures=options.failures, expect_all=options.expect_all)
    _print(report, sections, time.perf_counter() - began)
    for failure in report.failures:
        sys.stdout.write(f"{failure if options.no_shrink else runs.shrink(failure)}\n")
    missing = report.missing() if options.expect_all or options.steps >= enough_steps else []
    if missing:
        sys.stdout.write(f"NOT REACHED: {', '.join(missing)}\n")
    return 1 if report.failures or missing else 0


def _replay(runs: Runs, line: str) -> int:
    _, failure = runs.run_world(*parse_replay(line))
    if failure is None:
        sys.stdout.write("no invariant broke\n")
        return 0
    sys.stdout.write(f"{failure}\n")
    return 1


def _print(report: Report, sections: Sequence[tuple[str, Sequence[str]]], seconds: float) -> None:
    out, counts = sys.stdout, report.counts
    for title, names in sections:
        out.write(f"{title}: {sum(bool(counts[n]) for n in names)} of {len(names)} reached\n")
        for name in names:
            out.write(f"  {counts[name]:>9,}  {name.split(' ', 1)[1]}\n")
    over = {k.removeprefix("world over "): n for k, n in sorted(counts.items()) if k.startswith("world over ")}
    out.write(f"worlds: {counts['world at rest']} came to rest, others ended at a justified halt: {over}\n")
    out.write(
        f"simulator: steps={report.steps} runs={report.worlds} batches={counts['batches']} "
        f"faults={sum(n for k, n in counts.items() if k.startswith('fault '))} "
        f"reached={report.reached} broken={len(report.failures)} seconds={seconds:.1f}\n"
    )


if __name__ == "__main__":
    sys.exit(main(RUNS, SECTIONS, ENOUGH_STEPS))
