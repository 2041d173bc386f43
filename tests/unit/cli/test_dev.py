"""``chsink dev`` where nothing runs; that it starts and ends services is the integration tests' business."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from chsink.cli.main import app


def test_status_of_an_empty_folder(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["dev", "status", "--root", str(tmp_path)])

    assert (result.exit_code, result.stdout) == (1, "nothing was started here\n")


def test_down_where_nothing_runs(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["dev", "down", "--root", str(tmp_path / "none"), "--json"])

    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"running": False, "services": []}


def test_a_folder_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text("{", encoding="utf-8")

    result = CliRunner().invoke(app, ["dev", "status", "--root", str(tmp_path), "--json"])

    assert result.exit_code == 5
    assert json.loads(result.stdout)["error"]["id"] == "CHS-906"
