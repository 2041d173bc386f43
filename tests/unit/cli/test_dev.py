"""``chsink dev`` where nothing runs; that it starts and ends services is the integration tests' business."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chsink.cli.dev import job_file_lines
from chsink.cli.main import app
from chsink.config import Config
from chsink.embedded.dev import DevService, DevStack
from chsink.embedded.owned import OwnedProcess


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


@pytest.mark.parametrize("servers", [1, 3])
def test_what_up_prints_can_be_pasted_into_a_job_file(servers: int) -> None:
    names = ["kafka", "zookeeper", *(f"clickhouse-{n}" for n in range(servers))]
    nobody = OwnedProcess(1, born="never")
    stack = DevStack(tuple(DevService(n, "127.0.0.1", 9000 + at, "log", nobody) for at, n in enumerate(names)))
    rest = '[sink]\nname = "s"\n[[route]]\ntopic = "t"\ntable = "t"\n'

    config = Config.from_mapping(tomllib.loads(rest + job_file_lines(stack)))

    assert config.kafka.bootstrap == "127.0.0.1:9000"
    assert len(config.clickhouse.endpoints) == servers
