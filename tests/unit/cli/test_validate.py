"""The command line: ``validate``, the one error handler, and what importing it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from chsink.cli.main import app
from chsink.cli.output import Commands, JsonOption
from chsink.errors import FencedError
from tests.support.terminal import on_a_terminal
from tests.unit.config.conftest import LEAST

JOB = LEAST + 'password = { env = "SECRET" }\n'
COMMAND = [sys.executable, "-c", "from chsink.cli.main import app; app(prog_name='chsink')"]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.toml"
    path.write_text(JOB, encoding="utf-8")
    return path


def run(*arguments: str | Path, environ: Mapping[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"SECRET": "hush", **(environ or {})})


def test_a_right_file_is_summed_up(job: Path) -> None:
    result = run("validate", "-c", job)
    assert result.exit_code == 0
    assert result.stdout == f"{job} is valid: sink flights, 1 topic to 1 table on 1 shard, state in keepermap\n"


def test_patterns_are_counted(job: Path) -> None:
    with job.open("a", encoding="utf-8") as file:
        file.write("[[route]]\ntopic_pattern = 'a.*'\ntable = '{topic}'\n")

    assert "1 topic to 1 table and the topics of 1 pattern on 1 shard" in run("validate", "-c", job).stdout
    assert "CREATE TABLE `default`.`ab_all`" in run("sql", "distributed", "-c", job, "--topic", "ab").stdout


def test_show_lists_values_and_origins(job: Path) -> None:
    result = run(
        "validate", "-c", job, "--show", "--set", "observe.metrics_port=9", environ={"CHSINK__SINK__NAME": "x"}
    )
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["sink.name", "x", "environment", "variable", "CHSINK__SINK__NAME"] in lines
    assert ["observe.metrics_port", "9", "override"] in lines
    assert ["clickhouse.password", "***", "environment", "variable", "SECRET,", "named", "in", str(job)] in lines
    assert ["kafka.isolation_level", "read_committed", "default"] in lines
    assert "hush" not in result.output


def test_json_lists_the_same(job: Path) -> None:
    answer = json.loads(run("validate", "-c", job, "--json").stdout)
    assert (answer["valid"], answer["sink"]) == (True, "flights")
    assert {"key": "clickhouse.chunk_offsets", "value": 100_000, "origin": "default"} in answer["settings"]


def test_every_problem_is_printed_with_its_fix(job: Path) -> None:
    job.write_text(JOB.replace("name =", "nmae ="), encoding="utf-8")
    result = run("validate", "-c", job, "--set", "trigger.mode=contiguous")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert f"error CHS-102 sink.nmae ({job}): there is no such key\n  fix: did you mean `sink.name`?\n" in result.stderr
    assert "error CHS-103 sink.name: it is missing\n  fix: set it. " in result.stderr
    assert "error CHS-104 trigger.mode (override): 'contiguous' is not allowed\n" in result.stderr


def test_problems_as_json(job: Path) -> None:
    result = run("validate", "-c", job, "--json", "--set", "kafka.bootstrap=x")
    assert result.exit_code == 2
    assert result.stderr == ""
    error = json.loads(result.stdout)["error"]
    assert (error["id"], error["exit_code"]) == ("CHS-104", 2)
    assert [(p["id"], p["key"], p["origin"]) for p in error["problems"]] == [("CHS-104", "kafka.bootstrap", "override")]


@pytest.mark.parametrize("assignment", ["kafka.bootstrap", "=x"])
def test_a_broken_assignment_is_an_error(job: Path, assignment: str) -> None:
    assert run("validate", "-c", job, "--set", assignment).exit_code == 2


def test_job_toml_is_the_default_and_its_lack_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("validate")
    assert result.exit_code == 2
    assert "error CHS-101 job.toml does not exist" in result.stderr
    (tmp_path / "job.toml").write_text(JOB, encoding="utf-8")
    assert run("validate").exit_code == 0


@pytest.mark.parametrize("as_json", [False, True])
def test_any_error_of_any_command_gets_its_exit_code(as_json: bool) -> None:
    other = typer.Typer(cls=Commands)

    @other.callback()
    def _group() -> None: ...

    @other.command()
    def fail(as_json: JsonOption = False) -> None:
        raise FencedError("CHS-999", f"another driver owns it {as_json}", "stop [one]")

    result = CliRunner().invoke(other, ["fail", "--json"] if as_json else ["fail"])
    assert result.exit_code == 4
    if as_json:
        error = json.loads(result.stdout)["error"]
        assert (error["message"], error["hint"]) == ("another driver owns it True", "stop [one]")
    else:
        assert result.stderr == "error CHS-999 another driver owns it False\n  fix: stop [one]\n"


def test_an_error_that_is_no_users_is_not_hidden() -> None:
    other = typer.Typer(cls=Commands)

    @other.callback()
    def _group() -> None: ...

    @other.command()
    def fail() -> None:
        raise ZeroDivisionError

    assert isinstance(CliRunner().invoke(other, ["fail"]).exception, ZeroDivisionError)


def test_help_teaches() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert 'bootstrap = "localhost:9092"' in result.stdout
    assert "    chsink validate  " in result.stdout
    assert "Examples:\n    chsink validate -c job.toml\n" in run("validate", "--help").stdout


def test_version() -> None:
    from chsink import __version__

    assert run("--version").stdout == f"chsink {__version__}\n"


def test_nothing_heavy_is_imported(job: Path) -> None:
    heavy = ("pyspark", "pyarrow", "numpy", "clickhouse_connect", "confluent_kafka", "kazoo", "rich")
    code = (
        "import sys\nfrom chsink.cli.main import app\n"
        f"try: app(['validate', '-c', {str(job)!r}, '--show'])\n"
        "except SystemExit as done: assert done.code == 0, done.code\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    environ = os.environ | {"SECRET": "hush"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_terminal_gets_colours_and_no_markup_is_read(job: Path) -> None:
    job.write_text(JOB + 'user = "[bold]u"\n', encoding="utf-8")
    output = on_a_terminal(*COMMAND, "validate", "-c", str(job), "--show")
    assert "[bold]u" in output
    assert "───" in output
    wrong = on_a_terminal(*COMMAND, "validate", "-c", str(job), "--set", "trigger.mode=[x]")
    assert "\x1b[1;31merror CHS-104\x1b[0m" in wrong
    assert "'[x]' is not allowed" in wrong


def test_a_store_that_is_half_named_suggests_the_whole_names(job: Path) -> None:
    result = run("validate", "-c", job, "--set", "state.store=keeper")

    assert result.exit_code == 2
    assert 'fix: use "keepermap", "zookeeper" or "memory"' in result.stderr
