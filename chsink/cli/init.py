"""``chsink init``: write a first job file."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chsink.cli.dev import RootOption, running
from chsink.cli.doctor import print_findings
from chsink.cli.example import DEFAULT_ROOT, EXAMPLE_FILES, example_job, root_option, template
from chsink.cli.output import JsonOption, print_json
from chsink.errors import PreflightError, local

if TYPE_CHECKING:
    from chsink.embedded.dev import DevStack
    from chsink.starter.job import StartingPoint
    from chsink.starter.propose import Proposal


def init(  # noqa: PLR0917 - options of a command
    path: Annotated[Path, typer.Argument(help="The job file to write.", metavar="FILE")] = Path("job.toml"),
    example: Annotated[
        bool,
        typer.Option("--example", help="Write a job for the services of `chsink dev up`, a table and six records."),
    ] = False,
    topic: Annotated[
        str | None,
        typer.Option("--from-topic", help="Write a job and a table for the records of this topic.", metavar="TOPIC"),
    ] = None,
    bootstrap: Annotated[str | None, typer.Option(help="Kafka's brokers.", metavar="HOST:PORT")] = None,
    endpoint: Annotated[
        list[str] | None, typer.Option(help="URL of a ClickHouse server. Repeat it for each shard.", metavar="URL")
    ] = None,
    registry: Annotated[str | None, typer.Option(help="The Schema Registry, if one is used.", metavar="URL")] = None,
    table: Annotated[
        str | None, typer.Option(help="The table. Default: named after the topic.", metavar="[DATABASE.]TABLE")
    ] = None,
    shard_key: Annotated[
        list[str] | None, typer.Option(help="Column that chooses the shard. Default: random.", metavar="COLUMN")
    ] = None,
    sample: Annotated[
        int, typer.Option(help="Read the first and last N records of each partition.", metavar="N", min=1)
    ] = 1_000,
    apply: Annotated[bool, typer.Option("--apply", help="Create the table, too.")] = False,
    root: RootOption = DEFAULT_ROOT,
    as_json: JsonOption = False,
) -> None:
    """Write a job file with comments, ready to be edited. Never overwrites a file.

    With --from-topic, chsink reads a sample of the topic, guesses the format of its records, and infers the columns
    of a table. It writes the job file and a CREATE TABLE statement, and reports which of the sampled records would
    not fit, and which columns became text because of a few values. If you do not name an address, chsink takes the
    one of `chsink dev up`, or asks you. Credentials come from the environment (docs/configuration.md), and are
    never written to the files.

    \b
    chsink init                  write job.toml
    chsink init --example        write job.toml, flights.sql and flights.jsonl for the services of `chsink dev up`
    chsink init --from-topic orders --bootstrap kafka:9092 --endpoint http://clickhouse:8123 --apply
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    if topic is not None:
        found = _starting_point(path, topic, bootstrap, endpoint or (), registry, table, root)
        _from_topic(path, replace(found, shard_key=shard_key or ()), sample, root, apply=apply, as_json=as_json)
    elif example:
        stack = running(root)
        _write({path: example_job(stack, root)} | {path.parent / name: template(name) for name in EXAMPLE_FILES})
    else:
        _write({path: template("job.toml")})
        typer.echo("Edit it, then run: chsink validate -c " + str(path))


def _starting_point(  # noqa: PLR0917 - options of a command
    path: Path,
    topic: str,
    bootstrap: str | None,
    endpoints: list[str] | tuple[()],
    registry: str | None,
    table: str | None,
    root: Path,
) -> StartingPoint:
    """Where everything is: from the options, else from `chsink dev up`, else from the user's answers."""
    from chsink.starter.job import StartingPoint

    stack = _stack(root)
    if bootstrap is None:
        bootstrap = stack.kafka if stack else _asked("--bootstrap", "Kafka's brokers", "localhost:9092")
    if not endpoints:
        endpoints = _urls(stack) or [_asked("--endpoint", "URL of ClickHouse", "http://localhost:8123")]
    registry = registry or (stack.registry if stack else None)
    name = table or re.sub(r"[^A-Za-z0-9_]", "_", topic)
    # A second job on the topic names a table of its own: it is another sink.
    sink = re.sub(r"[^A-Za-z0-9._-]", "_", (table or topic).replace("`", ""))
    checkpoint = path.parent.resolve() / "checkpoints" / sink[:100]
    return StartingPoint(topic, name, bootstrap, endpoints, registry, checkpoint)


def _stack(root: Path) -> DevStack | None:
    try:
        return running(root)
    except PreflightError:
        return None


def _urls(stack: DevStack | None) -> list[str]:
    """Of its ClickHouse servers."""
    return [f"http://{address}" for address in stack.clickhouse] if stack else []


def _asked(option: str, what: str, default: str) -> str:
    """The user's answer on a terminal; elsewhere, the option is required."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            "required with --from-topic, because `chsink dev up` is not running here", param_hint=option
        )
    return str(typer.prompt(what, default=default, err=True))


def _from_topic(path: Path, start: StartingPoint, sample: int, root: Path, *, apply: bool, as_json: bool) -> None:
    from chsink.config import load
    from chsink.observe.logs import configure
    from chsink.starter.propose import check_new, create, propose

    configure("console", "error")
    statement_file = path.parent / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', start.table)}.sql"
    _check_free((path, statement_file))
    if apply:
        check_new(start)
    made = propose(start, sample)
    _write({path: made.job, statement_file: made.statement.sql + "\n"}, quiet=as_json)
    if apply:
        create(load(path), made.statement)
    if as_json:
        _print_json(start, made, applied=apply)
    else:
        _print((path, statement_file), start, made, root, applied=apply)


def _print(files: tuple[Path, Path], start: StartingPoint, made: Proposal, root: Path, *, applied: bool) -> None:
    path, statement_file = files
    typer.echo(
        f"\n{made.guess.count:,} of {made.values:,} sampled values of topic {start.topic} are {made.guess.what}."
    )
    for note in made.guess.notes:
        typer.echo(f"Note: {note}.")
    typer.echo(f"\n{made.statement.sql}\n")
    print_findings(made.misfits)
    where = ", ".join(made.statement.urls)
    typer.echo(f"\n{'Created the table' if applied else f'Create the table: run {statement_file}'} on {where}.")
    if not applied and {*start.endpoints} == {*_urls(_stack(root))}:
        typer.echo(f"  chsink dev sql{root_option(root)} < {shlex.quote(str(statement_file))}")
    typer.echo(f"Check both files, then run:\n  chsink doctor -c {path} --sample 1000\n  chsink run -c {path}")


def _print_json(start: StartingPoint, made: Proposal, *, applied: bool) -> None:
    print_json(
        {
            "topic": start.topic,
            "records": made.records,
            "values": made.values,
            "format": {"type": made.guess.format, **made.guess.options},
            "matching": made.guess.count,
            "notes": made.guess.notes,
            "sql": made.statement.sql,
            "urls": made.statement.urls,
            "created": applied,
            "findings": [str(finding) for finding in made.misfits],
        }
    )


def _check_free(paths: tuple[Path, ...]) -> None:
    for path in paths:
        if path.exists():
            raise local.FILE_EXISTS(path=path)


def _write(texts: dict[Path, str], *, quiet: bool = False) -> None:
    """All of the files, or none when one is there already."""
    _check_free(tuple(texts))
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        if not quiet:
            typer.echo(f"wrote {path}")
