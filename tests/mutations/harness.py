"""Applies a defect to a copy of the tree and lets the simulator or the model look for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.defects import Defect

ROOT = Path(__file__).parents[2]
COPIED = ("chsink", "statemachine", "tests/sim", "tests/model")


@dataclass(frozen=True, slots=True)
class Verdict:
    """``invariant``: the one that broke, None when the defect survived; ``said``: how it was reported."""

    invariant: str | None
    said: str


def run(defect: Defect, scratch: Path) -> Verdict:
    """Patch a copy of the tree in ``scratch`` and check it there.  AssertionError when the patch does not fit."""
    for part in COPIED:
        shutil.copytree(ROOT / part, scratch / part)
    for patch in defect.patches:
        path = scratch / patch.path
        text = path.read_text(encoding="utf-8")
        assert text.count(patch.old) == 1, (
            f"{defect.name}: {text.count(patch.old)} times in {patch.path}: {patch.old!r}"
        )
        path.write_text(text.replace(patch.old, patch.new), encoding="utf-8")
    command = [sys.executable, "-m", "tests.model"]
    if defect.caught_by == "simulator":
        numbers = ["--seed", str(defect.seed), "--steps", str(defect.steps)]
        command = [sys.executable, "-m", "tests.sim", *numbers, "--no-shrink"]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(scratch)}
    done = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True, check=False)
    assert str(scratch) in done.stdout or done.returncode in (0, 1), done.stderr[-2000:]
    broken = re.search(r"^BROKEN (\w+): (.*)$", done.stdout, re.MULTILINE)
    return Verdict(broken[1], broken[2]) if broken else Verdict(None, (done.stdout + done.stderr)[-1000:])
