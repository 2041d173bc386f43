"""Pages that are followed as they are written: their files and commands come from their own code blocks.

A block ```` ```toml title="job.toml" ```` is a file that the reader saves.  In a ``console`` block, each line that
begins with ``$`` is a command, and what follows is what it prints first; ``…`` stands for anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
LOOKS = ('chsink dev sql "SELECT', "chsink status", "chsink verify", "curl ")
"""How commands begin that only look: a reader tries them again until they show what the page shows."""
LIMIT_S, PATIENCE_S = 600, 300
Run = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Step:
    """A file to save (``name``), or a command line, with what the page says that it prints first."""

    text: str
    prints: str = ""
    name: str = ""


def steps(page: str) -> Iterator[Step]:
    """What a page tells its reader to do, in order."""
    for kind, name, text in BLOCK.findall(page):
        if name:
            yield Step(text, name=name)
        elif kind == "console":
            for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, prints = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*)\n(.*)", step, re.DOTALL).groups()  # type: ignore[union-attr]
                yield Step(line, prints)


def follow(page: str, run: Run, folder: Path) -> dict[str, str]:
    """Do all of it.  ``run`` runs a command line and fails if that does; what each one printed."""
    said = {}
    for step in steps(page):
        if step.name:
            (folder / step.name).write_text(step.text, encoding="utf-8")
            continue
        said[step.text] = run(step.text)
        until = time.monotonic() + PATIENCE_S
        while not printed(said[step.text], step.prints) and step.text.startswith(LOOKS) and time.monotonic() < until:
            time.sleep(1)
            said[step.text] = run(step.text)
        assert printed(said[step.text], step.prints), f"{step.text}\n{said[step.text]}\n-- shown:\n{step.prints}"
    return said


def printed(said: str, shown: str) -> bool:
    """Whether the output begins as the page shows it."""
    return re.match(re.escape(shown).replace("…", ".*?"), f"{said.rstrip()}\n", re.DOTALL) is not None


class Shell:
    """Runs command lines one after the other, as a terminal would: what one exports is there for the next."""

    def __init__(self, folder: Path, environ: Mapping[str, str], replaced: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.environ = dict(environ)
        self.replaced = dict(replaced or {})
        self._kept = folder.parent / "environment"

    def __call__(self, line: str) -> str:
        """What it printed, to standard error too if it failed."""
        for old, new in self.replaced.items():
            line = line.replace(old, new)
        script = f'[ ! -e "{self._kept}" ] || . "{self._kept}"\n{line}\ncode=$?; export -p > "{self._kept}"; exit $code'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def terminal(root: Path, environ: Mapping[str, str] = os.environ) -> Shell:
    """A shell in an empty folder, with ``chsink`` of this checkout on the PATH."""
    (root / "bin").mkdir(parents=True)
    for name, words in (("chsink", "-m chsink.cli.main"), ("python", "")):
        program = root / "bin" / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        program.chmod(0o755)
    folder = root / "work"
    folder.mkdir()
    return Shell(folder, {**environ, "PATH": f"{root / 'bin'}:{environ['PATH']}"})
