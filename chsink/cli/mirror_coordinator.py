"""``chsink mirror coordinator``: the coordinator in a process of its own."""

from __future__ import annotations

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config, log_format
from chsink.cli.output import report_to_log
from chsink.cli.run import ErrorJsonOption


def coordinator(
    context: typer.Context,
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    as_json: ErrorJsonOption = False,  # noqa: ARG001 - read by the error handler
) -> None:
    """Commit what drivers hand over, until stopped, in a process without Spark.

    \b
    chsink mirror coordinator -c job.toml
    chsink mirror coordinator -c job.toml --set trigger.mode=available_now     commit what was handed over, then end

    Needs mirror.coordinator = "apart". With it, `chsink run` and `chsink mirror run` only hand over, and need this
    command to run, on any machine: start both, in any order, with the same job file.

    You may kill and restart it at any time. SIGTERM or Ctrl-C stops it after a last commit. If another one is started,
    or a driver that commits by itself, this one stops with exit code 4.

    Exit codes: as for `chsink run`.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    report_to_log(context, log_format(config, assignments))
    checked = load_config(config, assignments)
    checked.required_apart()

    from chsink.mirror.package import check_installed
    from chsink.observe.logs import configure

    check_installed()
    configure(checked.observe.log_format, checked.observe.log_level)

    from chsink.apart import run

    run(checked)
