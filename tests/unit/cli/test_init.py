"""``chsink init``: what it writes is right, and it overwrites nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chsink.cli.example import template
from chsink.cli.main import app
from chsink.config import load
from tests.unit.cli.test_dev import a_stack

OPTION = re.compile(r'^# (?=(?:"?[a-z_.]+"? = |\[))', re.MULTILINE)


def init(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["init", *map(str, arguments)])
    return result.exit_code, result.output


def test_the_first_job_file_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "new" / "job.toml"

    assert init(path) == (0, f"wrote {path}\nEdit it, then run: chsink validate -c {path}\n")

    assert load(path, environ={}).sink.name == "my-sink"


def test_every_option_that_it_shows_is_valid_too(tmp_path: Path) -> None:
    text = template("job.toml")
    assert len(OPTION.findall(text)) >= 10
    path = tmp_path / "job.toml"
    path.write_text(OPTION.sub("", text))

    config = load(path, environ={"CLICKHOUSE_PASSWORD": "p", "KAFKA_LOGIN": LOGIN})

    assert (config.observe.metrics_port, config.clickhouse.user) == (9108, "chsink")
    assert config.required_mirror().tables == ("my_namespace.my_table",)


LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";'


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text("mine")

    code, said = init(path)

    assert (code, path.read_text()) == (2, "mine")
    assert said.startswith(f"error CHS-909 {path} exists already")


@pytest.mark.parametrize("name", ["flights.sql", "flights.jsonl"])
def test_nor_does_an_example_leave_half_of_its_files(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chsink.cli.init.running", lambda _root: a_stack(2))
    (tmp_path / name).write_text("mine")

    code, said = init("--example", tmp_path / "job.toml")

    assert (code, "CHS-909" in said) == (2, True)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_an_example_needs_a_stack(tmp_path: Path) -> None:
    code, said = init("--example", tmp_path / "job.toml", "--root", tmp_path / "none")

    assert (code, "CHS-908" in said) == (2, True)
