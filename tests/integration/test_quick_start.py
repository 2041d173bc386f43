"""README's quick start runs as it is written: its commands, from its own code blocks, against the services they start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chsink.cli.example import template
from tests.support.quick_start import QUICK_START, follow
from tests.support.walkthrough import BLOCK, Shell, terminal

pytestmark = pytest.mark.slow


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A folder with ``chsink`` on the PATH; the stack that is started there ends with the test."""
    at = terminal(tmp_path)
    try:
        yield at
    finally:
        at("chsink dev down --delete")


@pytest.mark.soak
def test_the_quick_start_reaches_the_first_row(shell: Shell) -> None:
    follow(shell, shell.folder)


def test_the_table_of_the_quick_start_is_the_one_that_init_writes() -> None:
    [sql] = [text for kind, _, text in BLOCK.findall(QUICK_START) if kind == "sql"]
    assert sql == template("flights.sql")
