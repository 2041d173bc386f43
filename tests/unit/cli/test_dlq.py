"""``chsink dlq`` with a job file that keeps no dead letters: the error says what is missing, and nothing that is untrue."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from chsink.cli.dlq import _cell
from chsink.cli.main import app

JOB = """
sink = { name = "s" }
kafka = { bootstrap = "localhost:9092" }
route = [{ topic = "o", table = "o" }]
clickhouse = { endpoints = ["http://localhost:8123"] }
"""


@pytest.mark.parametrize("command", [("list",), ("show", "o", "0", "7")], ids=" ".join)
def test_nothing_says_where_dead_letters_go(tmp_path: Path, command: tuple[str, ...]) -> None:
    job = tmp_path / "job.toml"
    job.write_text(JOB, encoding="utf-8")
    done = CliRunner().invoke(app, ["dlq", *command, "-c", str(job)])
    assert done.exit_code == 2
    assert "CHS-115" in done.stderr and "dead_letters.topic" in done.stderr
    assert "errors.on_bad_value" not in done.stderr  # it is "halt"


@pytest.mark.parametrize(("value", "cell"), [("", "-"), ("city", "city"), (0, "0"), (True, "yes"), (False, "no")])
def test_a_cell_of_the_list_is_never_empty(value: object, cell: str) -> None:
    """A record that is bad as a whole has no column."""
    assert _cell(value) == cell
