"""A million steps of the simulator: nothing breaks, and all that it has to reach is reached."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def test_a_million_steps_break_nothing_and_reach_everything() -> None:
    command = [sys.executable, "-m", "tests.sim", "--seed", "1", "--steps", "1000000", "--expect-all"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "broken=0" in done.stdout
