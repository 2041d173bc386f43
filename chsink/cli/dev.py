"""``chsink dev``: Kafka, ZooKeeper and ClickHouse on this machine, to try a job out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chsink.cli.output import Commands, JsonOption, print_json, print_table

if TYPE_CHECKING:
    from chsink.embedded.dev import DevStack

dev = typer.Typer(
    name="dev",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
    help="Local Kafka, ZooKeeper and ClickHouse, without Docker, on 127.0.0.1 only.",
)

RootOption = Annotated[Path, typer.Option("--root", help="Folder of the services' data.", metavar="FOLDER")]
DEFAULT_ROOT = Path(".chsink-dev")


@dev.command()
def up(
    root: RootOption = DEFAULT_ROOT,
    clickhouse: Annotated[int, typer.Option(help="Number of ClickHouse servers.", min=1, max=8)] = 2,
    as_json: JsonOption = False,
) -> None:
    """Start the services, or show those that run.  They stay until `chsink dev down`."""
    from chsink.embedded.dev import dev_up

    stack = dev_up(root, clickhouse)
    _print(stack, as_json=as_json)
    if not as_json:
        typer.echo(f"\n{job_file_lines(stack)}")


@dev.command()
def status(root: RootOption = DEFAULT_ROOT, as_json: JsonOption = False) -> None:
    """Show what was started, and whether it runs.  Exit code 1 when not all of it does."""
    from chsink.embedded.dev import dev_status

    stack = dev_status(root)
    _print(stack, as_json=as_json)
    if not stack.running:
        raise typer.Exit(1)


@dev.command()
def down(
    root: RootOption = DEFAULT_ROOT,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the data too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """End the services.  Data and ports are kept for the next `chsink dev up`."""
    from chsink.embedded.dev import dev_down

    _print(dev_down(root, delete=delete), as_json=as_json)


def job_file_lines(stack: DevStack) -> str:
    """What a job file says of the stack.  With several servers it needs a shard key, whose name is the user's."""
    urls = ", ".join(f'"http://{address}"' for address in stack.clickhouse)
    lines = ["[kafka]", f'bootstrap = "{stack.kafka}"', "[clickhouse]", f"endpoints = [{urls}]"]
    if len(stack.clickhouse) > 1:
        lines.append('shard_key = ["id"]  # the column of your table that chooses the shard')
    return "\n".join(lines)


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
