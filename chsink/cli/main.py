"""The entry point ``chsink``.

A command lives in its own module, which imports Spark, Arrow and the clients inside its functions: ``--help`` and
``validate`` answer at once, and run where those are not installed.
"""

from __future__ import annotations

from typing import Annotated

import typer

from chsink.cli.dev import dev
from chsink.cli.dlq import dlq
from chsink.cli.doctor import doctor
from chsink.cli.init import init
from chsink.cli.jars import jars
from chsink.cli.kafka import kafka
from chsink.cli.mirror import mirror
from chsink.cli.mirror_backfill import backfill
from chsink.cli.mirror_clean import clean
from chsink.cli.mirror_commit import commit
from chsink.cli.mirror_coordinator import coordinator
from chsink.cli.mirror_events import events
from chsink.cli.mirror_publish import publish
from chsink.cli.mirror_recover import recover
from chsink.cli.mirror_takeover import takeover
from chsink.cli.output import command_group
from chsink.cli.run import run
from chsink.cli.sql import sql
from chsink.cli.state import state
from chsink.cli.status import status
from chsink.cli.ui import ui
from chsink.cli.validate import validate
from chsink.cli.verify import verify

app = command_group("chsink", add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


def _print_version(asked: bool) -> None:
    if asked:
        from chsink import __version__

        typer.echo(f"chsink {__version__}")
        raise typer.Exit


@app.callback()
def chsink(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Land every Kafka record in ClickHouse exactly once, as a PySpark Structured Streaming job.

    \b
    A job is one TOML file. The smallest one:
      [sink]
      name = "flights"
      checkpoint = "/var/lib/chsink/flights"
      [kafka]
      bootstrap = "localhost:9092"
      [[route]]
      topic = "flights"
      table = "flights"
      [clickhouse]
      endpoints = ["http://localhost:8123"]

    \b
    Try it on this machine:
      chsink dev up                        start Kafka, ClickHouse and others, and print the next commands

    \b
    Run a job of your own:
      chsink init                          write a commented job.toml
      chsink validate                      is the file right? (no network)
      chsink doctor --sample 1000          are the services, tables and records right? (lands nothing)
      chsink run                           land records until stopped
      chsink status                        what is recorded, and how far behind Kafka it is
      chsink ui                            the same and more, in the browser
      chsink verify                        do the tables hold what Kafka holds, each record once?

    \b
    Exit codes:
      0  done
      1  a check failed
      2  the job file, a table or this machine needs a change first
      3  halted: continuing could lose or duplicate a record, so a person decides
      4  fenced: a newer driver owns the sink
      5  a service did not answer: restart
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart


app.command()(init)
app.command()(validate)
app.command()(doctor)
app.command()(run)
app.command()(status)
app.command()(ui)
app.command()(verify)
app.command()(jars)
mirror.command()(backfill)
mirror.command()(clean)
mirror.command()(publish)
mirror.command()(commit)
mirror.command()(coordinator)
mirror.command()(events)
mirror.command()(recover)
mirror.command()(takeover)
app.add_typer(mirror)
app.add_typer(state)
app.add_typer(dlq)
app.add_typer(sql)
app.add_typer(kafka)
app.add_typer(dev)

if __name__ == "__main__":
    app()
