"""``chsink run``: the streaming job."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Self

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config, log_format
from chsink.cli.output import remember_json, report_to_log
from chsink.errors import ChsinkError


def run(
    context: typer.Context,
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    jars: Annotated[
        str,
        typer.Option(
            help="Jars of Spark's Kafka source, comma-separated. `auto` downloads the tested ones; `none` adds none "
            "(Spark must have them already)."
        ),
    ] = "auto",
    as_json: Annotated[  # noqa: ARG001 - read by the error handler
        bool,
        typer.Option(
            "--json",
            help="Print an error as one JSON object. The format of the log is observe.log_format.",
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
    with _Interrupts() as interrupts:
        from chsink.spark import job

        with interrupts.kept():
            spark = job.session(checked, jars=_jars(jars))
        try:
            interrupts.raise_kept()
            job.run(checked, spark)
        finally:
            job.end(spark)


def _check_machine() -> None:
    """Raise if a package or Java is missing: Spark would report it late, and as a temporary fault."""
    from chsink.findings import raise_first
    from chsink.spark.checks import java_findings
    from chsink.versions import package_findings

    raise_first((*package_findings(), *java_findings()))


class _Interrupts:
    """SIGTERM and SIGINT end the start with 128 and their number, like a program that knows nothing of them.

    While Spark starts its Java, the first signal is kept until that has come: a Java whose parent left early lingers.
    Once the job runs, it takes the signals itself.
    """

    def __init__(self) -> None:
        self._kept: int | None = None
        self._keeping = False

    def __enter__(self) -> Self:
        self._old = {number: signal.signal(number, self._take) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the first signal for :meth:`raise_kept`."""
        self._keeping = True
        try:
            yield
        except ChsinkError:
            self.raise_kept()  # whoever signals all processes of a job ends Java too
            raise
        finally:
            self._keeping = False
            signal.signal(signal.SIGINT, self._take)  # Spark's own handler calls Java in the middle of a call

    def raise_kept(self) -> None:
        """End now, if a signal came."""
        if self._kept is not None:
            raise SystemExit(128 + self._kept)

    def _take(self, number: int, _frame: Any) -> None:
        if not self._keeping or self._kept is not None:
            raise SystemExit(128 + number)
        self._kept = number


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
