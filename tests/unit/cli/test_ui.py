"""``chsink ui``: its options reach the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.ui.eyes import Eyes
from chsink.ui.serve import StatusPage
from tests.unit.config.conftest import LEAST


@pytest.mark.parametrize("options", [[], ["--show-values"]])
def test_only_show_values_shows_values(options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, shown = tmp_path / "job.toml", list[bool]()
    job.write_text(LEAST, encoding="utf-8")

    def run(page: StatusPage) -> None:
        page.socket.close()
        assert isinstance(page._eyes, Eyes)
        shown.append(page._eyes._show_values)

    monkeypatch.setattr(StatusPage, "run", run)

    done = CliRunner().invoke(app, ["ui", "-c", str(job), "--listen", "127.0.0.1:0", *options])

    assert done.exit_code == 0, done.output
    assert shown == [bool(options)]
