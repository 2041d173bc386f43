"""The simulator of replays in CI: a campaign, and that one seed is one run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.replay_sim.campaign import ENOUGH_STEPS, RUNS

ROOT = Path(__file__).parents[2]


def test_a_campaign_breaks_nothing_and_reaches_everything() -> None:
    report = RUNS.campaign(1, ENOUGH_STEPS)
    assert not report.failures, str(report.failures[0])
    assert not report.missing()


def test_one_seed_is_one_run_whatever_the_hash_seed() -> None:
    command = [sys.executable, "-m", "tests.replay_sim", "--seed", "40", "--steps", "3000"]
    told = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        told.add(done.stdout.rpartition(" seconds=")[0])
    assert len(told) == 1
