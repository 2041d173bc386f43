"""The how-to guides run as they are written: files, commands and outputs from their own code blocks."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.support.walkthrough import Shell, follow, terminal

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(1800)]

GUIDES = sorted(path for path in (CHECKOUT / "docs" / "how-to").glob("*.md") if path.name != "README.md")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """The services that every guide begins with."""
    at = terminal(tmp_path_factory.mktemp("guides"))
    at("chsink dev up --clickhouse 1")
    try:
        yield at
    finally:
        at("chsink dev down --delete")


def addresses(stack: Shell) -> dict[str, str]:
    """The variables that a reader exports."""
    services = json.loads(stack("chsink dev status --json"))["services"]
    at = {service["name"].split("-")[0]: service["address"] for service in services}
    return {
        "CHSINK__KAFKA__BOOTSTRAP": at["kafka"],
        "CHSINK__CLICKHOUSE__ENDPOINTS": f"http://{at['clickhouse']}",
        "CHSINK__SCHEMA_REGISTRY__URL": f"http://{at['registry']}",
    }


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_a_guide_leads_where_it_says(guide: Path, stack: Shell, tmp_path: Path) -> None:
    page = guide.read_text(encoding="utf-8")
    local = "chsink dev" in page
    shell = terminal(tmp_path, {**os.environ, **(addresses(stack) if local else {})})
    (shell.folder / ".chsink-dev").symlink_to(stack.folder / ".chsink-dev")
    try:
        follow(page, shell, shell.folder)
    finally:
        for started in shell.folder.glob("*.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(started.read_text()), signal.SIGKILL)
