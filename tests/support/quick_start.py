"""README's quick start, read from its own code blocks."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support import walkthrough
from tests.support.walkthrough import Run

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
QUICK_START = README[README.index("## Quick start") : README.index("## A job of your own")]
COUNT = 'chsink dev sql "SELECT count() AS flights, max(dep_delay) FROM flights"'


def follow(run: Run, folder: Path) -> None:
    """Do all of it in ``folder``.  ``run`` runs a command line, fails if that does, and gives what it printed."""
    said = walkthrough.follow(QUICK_START, run, folder)
    counts = re.findall(r"│\s+(\d+) │", said[COUNT])
    assert sum(map(int, counts)) == 6, said[COUNT]
    assert "AFTER" in said["chsink status"], said["chsink status"]
