"""Options that several commands share, and the configuration they name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
DEFAULT_CONFIG = Path("job.toml")


def load_config(path: Path, assignments: list[str] | None) -> Config:
    """The configuration at ``path`` with the ``--set`` assignments.  Raises InvalidConfigError."""
    overrides: dict[str, str] = {}
    for assignment in assignments or []:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise InvalidConfigError([problem(key, job_file.SET_WITHOUT_VALUE(), "command line")])
        overrides[key.strip()] = value
    return load(path, overrides=overrides)
