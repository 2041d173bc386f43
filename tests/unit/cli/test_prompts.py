"""Commands that ask before they change something: a program, which cannot answer, is told so before anything is read."""

from __future__ import annotations

from typing import get_args

import pytest
from typer.testing import CliRunner

from chsink.cli import mirror, state
from chsink.cli.main import app
from chsink.recovery.decide import Verdict
from chsink.statemachine.commit.resolve import TableVerdict

ASKING = (
    ("state", "reset", "flights"),
    ("state", "resolve", "flights", "--lost"),
    ("mirror", "resolve", "shop.orders", "--skip"),
    ("dlq", "replay"),
)


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_json_needs_yes_and_says_so_at_once(command: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*command, "--json", "-c", "/nowhere/job.toml"], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert "--json needs --yes" in done.stderr and "cannot answer the prompt" in done.stderr


def test_each_decision_has_a_question_of_its_own() -> None:
    assert set(state.QUESTIONS) == {"reset", *(f"resolve --{verdict}" for verdict in get_args(Verdict))}
    assert set(mirror.QUESTIONS) == set(TableVerdict)
    questions = [*state.QUESTIONS.values(), *mirror.QUESTIONS.values()]
    assert len(set(questions)) == len(questions)
