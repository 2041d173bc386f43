"""The tutorial runs as it is written, from ``pip install`` of the wheel to the last command."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from chsink.embedded.base.ports import free_port
from tests.conftest import CHECKOUT
from tests.integration.test_wheel import clean_environment, link, required, wheel_in
from tests.support.walkthrough import Shell, follow

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(1800)]

PAGE = (CHECKOUT / "docs" / "tutorial.md").read_text(encoding="utf-8")
EXTRAS = ("dev", "ui")


class Reader(Shell):
    """A terminal of somebody whose pip finds all that the wheel requires: nothing is downloaded."""

    def __call__(self, line: str) -> str:
        said = super().__call__(line)
        if "-m venv" in line:
            self._give_packages()
        return said

    def _give_packages(self) -> None:
        (packages,) = (self.folder / "env" / "lib").glob("python3.*/site-packages")
        asked = [Requirement(text) for text in metadata.requires("chsink") or ()]
        found = {}
        for extra in EXTRAS:
            found.update(required(asked, extra))
        for distribution in found.values():
            link(distribution, packages)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """In a folder that holds the wheel and nothing else."""
    folder = tmp_path / "work"
    folder.mkdir()
    shutil.copy(wheel_in(tmp_path), folder)
    return Reader(folder, {**clean_environment(), "PIP_NO_INDEX": "1"}, {"8686": str(free_port())})


def test_the_tutorial_leads_from_a_topic_to_a_table(reader: Reader) -> None:
    try:
        follow(PAGE, reader, reader.folder)
    finally:
        for started in reader.folder.glob("*.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(started.read_text()), signal.SIGKILL)
        if (reader.folder / ".chsink-dev").exists():
            reader("chsink dev down --delete")
