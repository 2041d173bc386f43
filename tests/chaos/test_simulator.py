"""Long runs of the simulators: nothing breaks, and all that they have to reach is reached."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def run(module: str, steps: int) -> None:
    command = [sys.executable, "-m", module, "--seed", "1", "--steps", str(steps), "--expect-all"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "broken=0" in done.stdout


def test_a_million_steps_break_nothing_and_reach_everything() -> None:
    run("tests.sim", 1_000_000)


def test_half_a_million_steps_of_the_mirror_break_nothing_and_reach_everything() -> None:
    run("tests.mirror_sim", 500_000)
