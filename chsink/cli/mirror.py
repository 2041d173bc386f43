"""``chsink mirror``: the Iceberg mirror alone, and what it holds."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config, log_format
from chsink.cli.output import JsonOption, print_json, print_table, report_to_log
from chsink.cli.run import ErrorJsonOption, JarsOption, run_on_spark

mirror = typer.Typer(name="mirror", help="The Iceberg mirror: run it alone, and show how far it is.")


@mirror.command()
def run(
    context: typer.Context,
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    jars: JarsOption = "auto",
    as_json: ErrorJsonOption = False,  # noqa: ARG001 - read by the error handler
) -> None:
    """Run the mirror alone: write every record of its topics to its Iceberg tables exactly once, until stopped.

    \b
    chsink mirror run -c job.toml
    chsink mirror run -c job.toml --set trigger.mode=available_now     mirror what the topics hold, then end

    Needs mirror.enabled. `chsink run` runs the mirror, too, beside ClickHouse.

    You may kill and restart it at any time. SIGTERM or Ctrl-C ends it after the current batch and a last commit. If
    another driver starts the same mirror, this one ends with exit code 4.

    Exit codes: as for `chsink run`.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    report_to_log(context, log_format(config, assignments))
    checked = load_config(config, assignments)
    checked.required_mirror()
    checked.mirror_checkpoint()
    run_on_spark(checked, jars, both=False)


COLUMNS = ("table", "snapshot", "last_commit", "valid_through", "pending", "pending_units", "lag", "lag_s")


@mirror.command()
def status(
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show, for each Iceberg table: its last snapshot, what waits for a commit, and the lag.  Changes nothing.

    \b
    chsink mirror status -c job.toml
    chsink mirror status -c job.toml --json | jq '.tables[] | {table, lag, lag_s}'

    Reads Kafka and the catalog, so it also works while no mirror runs.

    \b
    snapshot       the newest snapshot that the mirror committed
    valid_through  all records up to this time are in the table; "-" if that is not known
    pending        offsets whose files wait for a commit; pending_units: reports of such files
    lag            offsets that Kafka holds and the table does not; lag_s: the age of the oldest such record, in seconds
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    found = mirror_status(config, assignments)
    if as_json:
        print_json(found)
        return
    owner = found["owner"]
    typer.echo(
        f"mirror of sink {found['sink']}: "
        + (f"run by {owner['driver']}, epoch {owner['epoch']}, since {owner['since']}" if owner else "never run")
    )
    print_table(COLUMNS, [[str(t[c]) if t[c] is not None else "-" for c in COLUMNS] for t in found["tables"]])
    for table in found["tables"]:
        if table["problem"]:
            typer.echo(f"{table['table']}: {table['problem']}", err=True)


def mirror_status(config: Path, assignments: list[str] | None) -> dict[str, Any]:
    """The status as one JSON object."""
    from chsink.mirror.package import check_installed

    loaded = load_config(config, assignments)
    loaded.required_mirror()
    check_installed()

    from chsink.kafka.admin import open_admin
    from chsink.mirror.status import status_of
    from chsink.observe.logs import configure

    configure(loaded.observe.log_format, "error")
    found = status_of(loaded, open_admin(loaded), time.time_ns() // 1_000_000).as_dict()
    if found["owner"] is not None:
        since = datetime.fromtimestamp(found["owner"].pop("since_ms") / 1000, UTC)
        found["owner"]["since"] = since.isoformat(timespec="seconds")
    return {"sink": loaded.sink.name, **found}
