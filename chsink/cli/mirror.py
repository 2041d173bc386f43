"""``chsink mirror``: the Iceberg mirror alone, and what it holds."""

from __future__ import annotations

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config, log_format
from chsink.cli.output import report_to_log
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
