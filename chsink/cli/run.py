"""``chsink run``: the streaming job."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config, log_format
from chsink.cli.output import remember_json, report_to_log


def run(
    context: typer.Context,
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    jars: Annotated[
        str,
        typer.Option(
            help="Jars of Spark's Kafka source, comma-separated. `auto` downloads the tested ones; `none` adds none "
            "(the session must have them)."
        ),
    ] = "auto",
    as_json: Annotated[  # noqa: ARG001 - read by the error handler
        bool,
        typer.Option(
            "--json",
            help="Print an error as one JSON object. What the job does is in its log: see observe.log_format.",
            callback=remember_json,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Run the job: land every record of its topics exactly once, until stopped.

    \b
    chsink run -c job.toml
    chsink run -c job.toml --set trigger.mode=available_now     land what the topics hold, then end
    spark-submit … submit.py -c job.toml                        on a cluster: see docs/deployment.md

    Try it first: `chsink doctor --sample 1000` checks services, tables and records without landing any.

    You may kill and restart the job at any time: it settles what was in doubt, then continues. SIGTERM or Ctrl-C ends
    it after the current batch. A second signal, or a signal during the start, ends it at once.

    Exit codes: 0 done or stopped, 2 the job file, a table or this machine needs a change, 3 halted (a person decides),
    4 fenced by a newer driver, 5 a service did not answer, 130 or 143 interrupted during the start.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    report_to_log(context, log_format(config, assignments))
    checked = load_config(config, assignments)
    checked.required_checkpoint()
    _check_machine()
    with _interruptible():
        from chsink.spark import job

        spark = job.session(checked, jars=_jars(jars))
        try:
            job.run(checked, spark)
        finally:
            job.end(spark)


def _check_machine() -> None:
    """Raise if a package or Java is missing: Spark would report it late, and as a temporary fault."""
    from chsink.findings import raise_first
    from chsink.spark.checks import java_findings
    from chsink.versions import package_findings

    raise_first((*package_findings(), *java_findings()))


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM and SIGINT end the start with 128 and their number, like a program that knows nothing of them.

    Once the job runs, it takes the signals itself.  Spark has a handler of its own for SIGINT, which raises
    KeyboardInterrupt.
    """

    def interrupt(number: int, _frame: Any) -> None:
        raise SystemExit(128 + number)

    old = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _jars(choice: str) -> str | None:
    if choice == "none":
        return None
    if choice != "auto":
        return choice
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        return None
    from chsink.embedded.jars import spark_jars

    return spark_jars()
