"""Long runs of the simulators: nothing breaks, and all that they have to reach is reached.

Each has a test file of its own, so that they run side by side, and one whose name makes it begin first.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(module: str, steps: int) -> None:
    command = [sys.executable, "-m", module, "--seed", "1", "--steps", str(steps), "--expect-all"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "broken=0" in done.stdout
