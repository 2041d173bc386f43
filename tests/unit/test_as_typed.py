"""Commands in messages name the job file that was given."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from chsink.as_typed import DEFAULT_CONFIG, as_typed, remember_job
from chsink.cli.main import app


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        (
            "run `chsink state resolve t 0 --resend`, then",
            "run `chsink state resolve t 0 --resend -c 'my job.toml'`, then",
        ),
        (
            "`chsink verify`; `chsink doctor --sample`",
            "`chsink verify -c 'my job.toml'`; `chsink doctor --sample -c 'my job.toml'`",
        ),
        (
            "run `chsink state reset --table '`a-b`.t'`, then",
            "run `chsink state reset --table '`a-b`.t' -c 'my job.toml'`, then",
        ),
        ("`chsink dlq list -c other.toml`", "`chsink dlq list -c other.toml`"),
        ("`chsink dev up`, `chsink init` and `chsink jars`", "`chsink dev up`, `chsink init` and `chsink jars`"),
        ("after a `chsink state` command", "after a `chsink state` command"),
        ("run `ls`, or chsink verify", "run `ls`, or chsink verify"),
    ],
)
def test_the_file_is_added(said: str, typed: str) -> None:
    remember_job(Path("my job.toml"))
    assert as_typed(said) == typed
    remember_job(DEFAULT_CONFIG)
    assert as_typed(said) == said


def test_a_command_that_fails_names_its_file(tmp_path: Path) -> None:
    """\u26a1 Without it, the command ran on the job file of the current folder: another sink's."""
    file = tmp_path / "other.toml"
    file.write_text(
        '[sink]\nname = "s"\n[kafka]\nbootstrap = "127.0.0.1:9"\ntimeout_s = 1\n[clickhouse]\nendpoints = ["http://127.0.0.1:9"]\n[[route]]\ntopic = "t"\ntable = "d.t"\n'
    )
    CliRunner().invoke(app, ["doctor", "-c", str(file)])
    assert as_typed("`chsink verify`") == f"`chsink verify -c {file}`"
    CliRunner().invoke(app, ["doctor", "-c", str(file), "--set", "sink.name=a b"])
    assert as_typed("`chsink verify`") == f"`chsink verify -c {file} --set 'sink.name=a b'`", "another sink of the file"
