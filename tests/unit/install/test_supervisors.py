"""The systemd unit and the Airflow DAG of ``docs/examples``."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.errors import ChsinkError, ConfigError, FencedError, HaltError, PreflightError, UnavailableError
from chsink.stop import END_S
from tests.conftest import CHECKOUT

EXAMPLES = CHECKOUT / "docs" / "examples"
UNIT = (EXAMPLES / "systemd" / "chsink@.service").read_text(encoding="utf-8")
DAG = EXAMPLES / "airflow" / "land_flights.py"
A_PERSON: tuple[type[ChsinkError], ...] = (ConfigError, PreflightError, HaltError, FencedError)


def settings() -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", UNIT, re.MULTILINE))


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze: it is not installed")
    command = tmp_path / "chsink"
    command.write_text("#!/bin/sh\n", encoding="utf-8")
    command.chmod(0o755)
    file = tmp_path / "chsink@flights.service"

    def verified(text: str) -> subprocess.CompletedProcess[str]:
        file.write_text(text.replace("/opt/chsink/bin/chsink run", f"{command} run"), encoding="utf-8")
        return subprocess.run([analyze, "verify", str(file)], capture_output=True, text=True, check=False)

    done = verified(UNIT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Unknown key" in verified(UNIT.replace("RestartSec=", "RestartSeconds=")).stderr


def test_the_unit_restarts_what_a_restart_cures() -> None:
    unit = settings()
    waits = {int(code) for code in unit["RestartPreventExitStatus"].split()}
    assert waits == {family.exit_code for family in A_PERSON}
    assert UnavailableError.exit_code not in waits and unit["Restart"] == "on-failure"
    assert int(unit["TimeoutStopSec"]) >= 2 * END_S
    assert unit["KillMode"] == "mixed", "Java is not signalled: what landed can still be confirmed"


def accepted(line: list[str]) -> None:
    """The parser of chsink takes the line: what is wrong is the job file, which is not there."""
    done = CliRunner().invoke(app, [word.replace("%i", "flights") for word in line])
    assert done.exit_code == 2
    assert "CHS-1" in done.output, done.output


def test_the_unit_runs_a_command_that_exists() -> None:
    program, *words = settings()["ExecStart"].split()
    assert Path(program).name == "chsink"
    accepted(words)


def constants() -> dict[str, Any]:
    """The DAG file's constants, read without Airflow."""
    tree = ast.parse(DAG.read_text(encoding="utf-8"))
    found: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            found[name] = eval(compile(ast.Expression(node.value), str(DAG), "eval"), dict(found))
    return found


def test_the_dag_runs_a_command_that_exists_and_tells_the_exit_codes_apart() -> None:
    known = constants()
    accepted(list(known["DRAIN"][1:]))
    assert set(known["A_PERSON"]) == {family.exit_code for family in A_PERSON}


@pytest.fixture
def landing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """The task's function in a real Airflow, with a command that exits with the given code."""
    if importlib.util.find_spec("airflow") is None:
        pytest.skip("needs Airflow: it is not installed (pip install apache-airflow)")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    spec = importlib.util.spec_from_file_location("land_flights", DAG)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    [task] = module.land_flights().tasks

    def run(code: int) -> None:
        module.DRAIN = (sys.executable, "-c", f"raise SystemExit({code})")
        task.python_callable()

    return run


def test_airflow_gives_up_for_a_person_and_tries_again_for_a_service(landing: Callable[[int], None]) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    landing(os.EX_OK)
    for family in A_PERSON:
        with pytest.raises(AirflowFailException):
            landing(family.exit_code)
    with pytest.raises(AirflowException) as raised:
        landing(UnavailableError.exit_code)
    assert not isinstance(raised.value, AirflowFailException)
