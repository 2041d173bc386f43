"""Renders the page ``docs/commands.md``: every command with its help, arguments and options.

``python -m chsink.cli.page > docs/commands.md`` writes it; a test compares.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

import typer

HEAD: Final = """\
# Commands

Every command of `chsink`, as its `--help` describes it. The keys of the job file are on the page
[Configuration](configuration.md), the errors on the page [Errors](errors.md).

This page is generated from the code: `python -m chsink.cli.page > docs/commands.md`."""
_VERBATIM: Final = "\b\n"


def page() -> str:
    """The whole page."""
    from chsink.cli.main import app

    command: Any = typer.main.get_command(app)
    return "\n\n".join([HEAD, *_sections(command, command.make_context("chsink", [], resilient_parsing=True))])


def _sections(command: Any, context: Any) -> Iterator[str]:
    """A command, then those below it."""
    yield f"{'###' if ' ' in context.command_path.removeprefix('chsink ') else '##'} `{context.command_path}`"
    yield from _paragraphs(inspect.cleandoc(command.help or ""))
    for kind in ("argument", "option"):
        records = [_record(given, context) for given in command.params if given.param_type_name == kind]
        if rows := [record for record in records if record is not None]:
            yield "\n".join([f"| {kind} | |", "| --- | --- |", *rows])
    for name, below in getattr(command, "commands", {}).items():
        yield from _sections(below, below.make_context(name, [], parent=context, resilient_parsing=True))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n{2,}", text):
        if paragraph.startswith(_VERBATIM):
            yield f"```text\n{paragraph.removeprefix(_VERBATIM)}\n```"
        elif paragraph:
            yield paragraph


def _record(given: Any, context: Any) -> str | None:
    """A row of the table of options."""
    found = given.get_help_record(context)
    if found is None:
        return None
    name, meaning = (" ".join(text.split()).replace("|", "\\|") for text in found)
    return f"| `{name}` | {meaning} |"


if __name__ == "__main__":
    sys.stdout.write(f"{page()}\n")
