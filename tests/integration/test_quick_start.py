"""README's quick start runs as it is written: its commands, from its own code blocks, against the services they start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chsink.cli.example import template
from tests.support.quick_start import BLOCK, QUICK_START, follow

pytestmark = pytest.mark.slow

LIMIT_S = 600


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A folder with ``chsink`` on the PATH; the stack that is started there ends with the test."""
    command = tmp_path / "bin" / "chsink"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m chsink.cli.main "$@"\n')
    command.chmod(0o755)
    folder = tmp_path / "work"
    folder.mkdir()
    at = Shell(folder, {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"})
    try:
        yield at
    finally:
        at("chsink dev down --delete")


class Shell:
    """Runs a command line and gives what it printed to standard output."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.folder = folder
        self.environ = environ

    def __call__(self, line: str) -> str:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def test_the_quick_start_reaches_the_first_row(shell: Shell) -> None:
    follow(shell)


def test_the_table_of_the_quick_start_is_the_one_that_init_writes() -> None:
    [sql] = [text for kind, text in BLOCK.findall(QUICK_START) if kind == "sql"]
    assert sql == template("flights.sql")
