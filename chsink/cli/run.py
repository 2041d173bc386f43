"""``chsink run``: the streaming job."""

from __future__ import annotations

import platform
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config, log_format
from chsink.cli.output import remember_json, report_to_log
from chsink.config import Config
from chsink.errors import ChsinkError, UnavailableError

if TYPE_CHECKING:
    import structlog

JarsOption = Annotated[
    str,
    typer.Option(
        help="Jars of Spark's Kafka source, comma-separated. `auto` downloads the tested ones; `none` adds none "
        "(Spark must have them already).",
        metavar="JARS",
    ),
]
ErrorJsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print an error as one JSON object. The format of the log is observe.log_format.",
        callback=remember_json,
        is_eager=True,
    ),
]


def run(
    context: typer.Context,
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    jars: JarsOption = "auto",
    as_json: ErrorJsonOption = False,  # noqa: ARG001 - read by the error handler
) -> None:
    """Land every record of the topics exactly once, until stopped.

    \b
    chsink run -c job.toml
    chsink run -c job.toml --set trigger.mode=available_now     land what the topics hold, then end
    spark-submit … submit.py -c job.toml                        on a cluster: see docs/deployment.md

    Try it first: `chsink doctor --sample 1000` checks services, tables and records without landing any.

    With mirror.enabled = true, the same process also writes to the Iceberg tables of [[mirror.route]]. If one side
    halts, the other goes on. The exit code is that of ClickHouse's side or, if that is 0, the mirror's.

    It shows how fast each table lands, how far it is behind, and when it will have caught up: on a terminal below the
    log, elsewhere in a log line `progress` for each table, every 30 seconds (observe.progress).

    You may kill and restart the job at any time: it settles what was in doubt, then continues. SIGTERM or Ctrl-C stops
    it after the current batch. A second signal, or a signal during the start, stops it at once.

    Exit codes: 0 done or stopped, 2 the job file, a table or this machine needs a change, 3 halted (a person decides),
    4 fenced by a newer driver, 5 a service did not answer, 130 or 143 interrupted during the start.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    report_to_log(context, log_format(config, assignments))
    checked = load_config(config, assignments)
    checked.required_checkpoint()
    checked.required_clickhouse()
    run_on_spark(checked, config, jars, both=True)


def run_on_spark(config: Config, file: Path, jars: str, *, both: bool) -> None:
    """Run both sides of the job in ``file``, or its mirror alone, in a session of its own."""
    from chsink.observe.logs import configure, logger

    configure(config.observe.log_format, config.observe.log_level)
    log = logger(config.sink.name)
    with _Interrupts() as interrupts:
        log.info("starting", job=str(file), **_versions())
        _check_machine(config, log)
        _check_services(config, both=both)
        log.info("starting Spark")
        began = time.monotonic()
        from chsink.spark import session

        with interrupts.kept():
            spark = session.session(config, jars=_jars(jars, log))
        log.info("Spark is up", master=spark.sparkContext.master, took_s=round(time.monotonic() - began, 1))
        try:
            interrupts.raise_kept()
            if both:
                from chsink.spark import job

                job.run(config, spark)
            else:
                from chsink.spark import mirror

                mirror.run(config, spark)
        finally:
            session.end(spark)


def _versions() -> dict[str, str]:
    from chsink import __version__

    return {"chsink": __version__, "pyspark": metadata.version("pyspark"), "python": platform.python_version()}


def _check_machine(config: Config, log: structlog.typing.FilteringBoundLogger) -> None:
    """Raise if a package or Java is missing: Spark would report it late, and as a temporary fault."""
    from chsink.doctor.outcome import stop_at_errors
    from chsink.mirror.package import check_installed
    from chsink.spark.checks import java_findings
    from chsink.ui.package import check_installed as check_page
    from chsink.versions import package_findings

    stop_at_errors((*package_findings(), *java_findings()), log)
    if config.mirror.enabled:
        check_installed()
    if config.observe.ui is not None:
        check_page()


def _check_services(config: Config, *, both: bool) -> None:
    """Raise what most first starts fail with, before jars are downloaded and Java starts: UnavailableError if Kafka
    does not answer, PreflightError if a topic or a target table is missing (CHS-201, CHS-202) or cannot be used.

    The start of each side checks everything, this too.  A ClickHouse that does not answer is left to it.
    """
    from chsink.connect import connected
    from chsink.kafka.admin import open_admin

    if not both:
        admin = open_admin(config)
        admin.topic_ids(config.with_mirrored(admin.topics).mirror.topics)
        return
    open_admin(config).topics()
    with connected(config) as services:
        services.kafka.topic_ids(services.config.topics)
        with suppress(UnavailableError):
            for route in services.config.routes:
                if not services.config.creates(route):
                    services.clickhouse.described(route)


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


def _jars(choice: str, log: Any) -> str | None:
    if choice == "none":
        return None
    if choice != "auto":
        return choice
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        return None
    from chsink.jvm.jars import cache_folder, spark_jars

    def fetched(count: int, total: int) -> None:
        log.info("downloading the jars of Spark's Kafka source", done=count, of=total, to=str(cache_folder()))

    return spark_jars(fetched)
