"""README's quick start, read from its own code blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
QUICK_START = README[README.index("## Quick start") : README.index("## A job of your own")]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COUNT = 'chsink dev sql "SELECT count() AS flights, max(dep_delay) FROM flights"'


def steps() -> Iterator[tuple[str, str]]:
    """Each command line, with what the page says that it prints first."""
    for kind, text in BLOCK.findall(QUICK_START):
        if kind == "console":
            for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, _, expected = step.partition("\n")
                yield line, expected


def follow(shell: Callable[[str], str]) -> None:
    """Run all of it.  ``shell`` runs a command line, fails if that does, and gives what it printed."""
    said = {}
    for line, expected in steps():
        said[line] = shell(line)
        assert said[line].startswith(expected), line
    counts = re.findall(r"│\s+(\d+) │", said[COUNT])
    assert sum(map(int, counts)) == 6, said[COUNT]
    assert "AFTER" in said["chsink status"], said["chsink status"]
