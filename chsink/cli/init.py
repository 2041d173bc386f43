"""``chsink init``: write a first job file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chsink.cli.dev import RootOption, running
from chsink.cli.example import DEFAULT_ROOT, EXAMPLE_FILES, example_job, template
from chsink.errors import local


def init(
    path: Annotated[Path, typer.Argument(help="The job file to write.", metavar="FILE")] = Path("job.toml"),
    example: Annotated[
        bool,
        typer.Option("--example", help="Write a job for the services of `chsink dev up`, a table and six records."),
    ] = False,
    root: RootOption = DEFAULT_ROOT,
) -> None:
    """Write a job file with comments, ready to be edited.  Never overwrites a file.

    \b
    chsink init                  write job.toml
    chsink init --example        write job.toml, flights.sql and flights.jsonl for the services of `chsink dev up`
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    if not example:
        _write({path: template("job.toml")})
        typer.echo("Edit it, then run: chsink validate -c " + str(path))
        return
    stack = running(root)
    _write({path: example_job(stack, root)} | {path.parent / name: template(name) for name in EXAMPLE_FILES})


def _write(texts: dict[Path, str]) -> None:
    """All of the files, or none when one is there already."""
    for path in texts:
        if path.exists():
            raise local.FILE_EXISTS(path=path)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        typer.echo(f"wrote {path}")
