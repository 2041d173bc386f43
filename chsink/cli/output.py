"""What all commands print in the same way: errors, JSON, and the two forms of a table.

Rules:
- A command raises; the group's handler prints.  Errors go to stderr in words, or, with ``--json``, to stdout as one
  object ``{"error": {…}}``; a job with a JSON log writes one line of it.  The exit code is the error's own.
- Colours and tables are drawn only on a terminal: elsewhere the same text is plain, so it can be searched and compared.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from chsink.as_typed import as_typed
from chsink.config.problems import InvalidConfigError, Problem
from chsink.errors import ChsinkError, HaltError

_JSON_KEY = "chsink.json"
_LOG_KEY = "chsink.log"


def remember_json(context: typer.Context, value: bool) -> bool:
    """Let the error handler know that a program is reading."""
    context.meta[_JSON_KEY] = value
    return value


JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print JSON, for programs.", callback=remember_json, is_eager=True),
]


YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


class Commands(TyperGroup):
    """The group of all commands: turns a ``ChsinkError`` of any of them into its message and exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ChsinkError as error:
            as_json = bool(ctx.meta.get(_JSON_KEY))
            if ctx.meta.get(_LOG_KEY) == "json" and not as_json:
                log_line(error)
            else:
                report(error, as_json=as_json)
            raise typer.Exit(error.exit_code) from error


def command_group(name: str, **more: Any) -> typer.Typer:
    """The application, or a group of its commands; ``more`` are typer's own options."""
    marked: Any = "rich" if sys.stdout.isatty() else None
    return typer.Typer(
        name=name,
        cls=Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=marked,
        **more,
    )


def report(error: ChsinkError, *, as_json: bool) -> None:
    """Print an error, with every problem it holds."""
    if as_json:
        print_json({"error": error_object(error)})
        return
    for problem in problems_of(error):
        _styled(sys.stderr, f"error {problem.id}", f" {problem}", "bold red")
        _styled(sys.stderr, "  fix:", f" {problem.hint}", "green")


def report_to_log(context: typer.Context, log_format: str) -> None:
    """Let the error handler write errors in the job's log format: one JSON line if a collector reads the log."""
    context.meta[_LOG_KEY] = log_format


def log_line(error: ChsinkError) -> None:
    """One line of a JSON log, on standard error."""
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    said = {
        "event": "halted" if isinstance(error, HaltError) else "stopped",
        "level": "error",
        "timestamp": now,
        **error_object(error),
    }
    typer.echo(json.dumps(said, ensure_ascii=False), err=True)


def error_object(error: ChsinkError) -> dict[str, Any]:
    """The error for a program."""
    return {
        "id": error.id,
        "message": error.message,
        "hint": as_typed(error.hint),
        "exit_code": error.exit_code,
        "problems": [asdict(problem) for problem in problems_of(error)],
    }


def problems_of(error: ChsinkError) -> tuple[Problem, ...]:
    """The single problems of an error: those of the job file, the parts of a combined one, or itself."""
    if isinstance(error, InvalidConfigError):
        return error.problems
    return tuple(Problem(e.id, "", e.message, as_typed(e.hint)) for e in error.parts or (error,))


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print one JSON document to stdout; without ``indent``, on one line."""
    typer.echo(json.dumps(value, indent=indent, ensure_ascii=False, default=str))


def check_answerable(*, as_json: bool, answered: bool, options: str = "--yes") -> None:
    """Raise a usage error if a program, not a person, would get the prompt of :func:`confirm`."""
    if as_json and not answered:
        raise typer.BadParameter(f"--json needs {options}, because a program cannot answer the prompt")


def confirm(question: str, *, yes: bool) -> None:
    """Ask whether to do what was shown; the question names it.  Ends the command if not."""
    if not yes:
        typer.confirm(question, abort=True)


def progress(text: str) -> None:
    """One line on standard error that the next one replaces, where a person is watching; "" clears it."""
    if sys.stderr.isatty():
        typer.echo(f"\r\033[K{text}", err=True, nl=False)


def print_owner(what: str, owner: Mapping[str, Any] | None) -> None:
    """Which driver owns a sink or its mirror."""
    none = "no state is recorded: it has not run yet, or its state was lost"
    said = f"owned by {owner['driver']}, epoch {owner['epoch']}, since {owner['since']}" if owner else none
    typer.echo(f"{what}: {said}")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of texts under their columns: drawn on a terminal, aligned plain text elsewhere."""
    if sys.stdout.isatty():
        _draw_table(columns, rows)
        return
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


def _draw_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*map(Text, row))  # not markup: a value may hold brackets
    Console().print(table)


def _styled(stream: TextIO, head: str, tail: str, style: str) -> None:
    """One line, its head in colour on a terminal."""
    if not stream.isatty():
        typer.echo(head + tail, file=stream)
        return
    from rich.console import Console
    from rich.text import Text

    Console(file=stream, soft_wrap=True).print(Text.assemble((head, style), tail))
