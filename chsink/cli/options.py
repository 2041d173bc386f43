"""Options that several commands share, and the configuration they name."""

from __future__ import annotations

import os
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from chsink import as_typed
from chsink.config import Config, load
from chsink.config.problems import InvalidConfigError, problem
from chsink.errors import job_file

ConfigOption = Annotated[Path, typer.Option("--config", "-c", help="The job file.", metavar="FILE")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Override one value of the job file, for instance kafka.bootstrap=host:9092.", metavar="KEY=VALUE"
    ),
]
DEFAULT_CONFIG = as_typed.DEFAULT_CONFIG
LOG_FORMAT = "observe.log_format"


def load_config(path: Path, assignments: list[str] | None) -> Config:
    """The configuration at ``path`` with the ``--set`` assignments.  Raises InvalidConfigError."""
    overrides: dict[str, str] = {}
    for assignment in assignments or []:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise InvalidConfigError([problem(key, job_file.SET_WITHOUT_VALUE(), "command line")])
        overrides[key.strip()] = value
    as_typed.remember_job(path, overrides.get("sink.name"))
    return load(path, overrides=overrides)


def log_format(path: Path, assignments: list[str] | None) -> str:
    """``observe.log_format`` as written, even if the job file is wrong elsewhere: it decides how errors are printed."""
    said = "console"
    with suppress(OSError, ValueError, KeyError, TypeError):
        said = tomllib.loads(path.read_text(encoding="utf-8-sig"))["observe"]["log_format"]
    said = os.environ.get("CHSINK__OBSERVE__LOG_FORMAT", said)
    given = [text for key, _, text in (a.partition("=") for a in assignments or []) if key.strip() == LOG_FORMAT]
    return given[-1] if given else said
