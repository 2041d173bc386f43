"""``chsink dev``: Kafka, ZooKeeper, ClickHouse and a Schema Registry on this machine, to try out a job."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chsink.cli.example import DEFAULT_ROOT, next_steps
from chsink.cli.output import JsonOption, command_group, print_json, print_table, progress
from chsink.errors import local
from chsink.errors.counts import counted

if TYPE_CHECKING:
    from chsink.embedded.dev import DevStack

dev = command_group("dev", help="Run Kafka, ZooKeeper, ClickHouse and a Schema Registry on this machine.")

RootOption = Annotated[Path, typer.Option("--root", help="Folder of the services' data.", metavar="FOLDER")]


@dev.command()
def up(
    root: RootOption = DEFAULT_ROOT,
    clickhouse: Annotated[int, typer.Option(help="Number of ClickHouse servers.", metavar="N", min=1, max=8)] = 2,
    as_json: JsonOption = False,
) -> None:
    """Start the services, or show them if they are already running. They keep running until `chsink dev down`.

    The Schema Registry is a small stand-in: Confluent's clients can register and read schemas. It accepts Protobuf
    schemas only as (base64) descriptors, does not check compatibility and cannot delete schemas.

    \b
    chsink dev up
    chsink dev up --clickhouse 1 --root /tmp/stack
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    from chsink.embedded.dev import dev_up

    typer.echo("starting Kafka, ZooKeeper, ClickHouse and a Schema Registry", err=True)
    stack = dev_up(root, clickhouse)
    _print(stack, as_json=as_json)
    if not as_json:
        typer.echo(next_steps(stack, root), nl=False)


@dev.command()
def status(root: RootOption = DEFAULT_ROOT, as_json: JsonOption = False) -> None:
    """Show each service and whether it runs. Exit code 1 if one does not.

    \b
    chsink dev status
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    from chsink.embedded.dev import dev_status

    stack = dev_status(root)
    _print(stack, as_json=as_json)
    if not stack.running:
        raise typer.Exit(1)


@dev.command()
def down(
    root: RootOption = DEFAULT_ROOT,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove the data and the example job's checkpoint too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Stop the services. Data and ports are kept for the next `chsink dev up`.

    \b
    chsink dev down
    chsink dev down --delete      remove the data and the example job's checkpoint too
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    from chsink.embedded.dev import dev_down

    _print(dev_down(root, delete=delete), as_json=as_json)


@dev.command()
def sql(
    statement: Annotated[
        str | None, typer.Argument(help="One SQL statement. Default: read from standard input.", metavar="STATEMENT")
    ] = None,
    root: RootOption = DEFAULT_ROOT,
) -> None:
    """Run one SQL statement on each local ClickHouse server.

    \b
    chsink dev sql < flights.sql
    chsink dev sql "SELECT count() FROM flights"
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    from chsink.embedded.feed import run_sql

    stack = running(root)
    text = sys.stdin.read() if statement is None else statement
    for number, address in enumerate(stack.clickhouse):
        answer = run_sql(address, text).rstrip()
        typer.echo(f"clickhouse-{number}:" + (f"\n{answer}" if answer else " done"))


@dev.command()
def produce(
    topic: Annotated[str, typer.Argument(help="Kafka topic; created if it does not exist.", metavar="TOPIC")],
    file: Annotated[Path, typer.Argument(help="One record per line.", metavar="FILE", exists=True, dir_okay=False)],
    partitions: Annotated[
        int, typer.Option(help="Number of partitions for a new topic.", metavar="N", min=1, max=1000)
    ] = 4,
    key_separator: Annotated[
        str | None,
        typer.Option(
            help="Text between a line's key and its value; a line that ends with it is a tombstone. Default: no keys."
        ),
    ] = None,
    root: RootOption = DEFAULT_ROOT,
) -> None:
    """Send each line of a file as one record to the local Kafka. Equal keys go to one partition.

    \b
    chsink dev produce flights flights.jsonl
    chsink dev produce orders orders.txt --key-separator "|"
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    from chsink.embedded.feed import send_lines

    stack, sent = running(root), 0
    for sent in send_lines(stack.kafka, topic, file, partitions, key_separator):
        progress(counted(sent, "records"))
    progress("")
    typer.echo(f"sent {counted(sent, 'records')} to topic {topic}")


def running(root: Path) -> DevStack:
    """The stack in ``root``.  Raises CHS-908 when it does not run."""
    from chsink.embedded.dev import dev_status

    stack = dev_status(root)
    if not stack.running:
        raise local.DEV_NOT_RUNNING(root=root)
    return stack


def _print(stack: DevStack, *, as_json: bool) -> None:
    services: list[dict[str, Any]] = [
        {"name": s.name, "address": s.address, "pid": s.process.pid, "running": s.running, "log": s.log}
        for s in stack.services
    ]
    if as_json:
        print_json({"running": stack.running, "services": services})
        return
    if not services:
        typer.echo("nothing was started here")
        return
    print_table(
        ("service", "address", "pid", "running", "log"),
        [[s["name"], s["address"], str(s["pid"]), "yes" if s["running"] else "no", s["log"]] for s in services],
    )
