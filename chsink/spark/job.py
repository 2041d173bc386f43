"""The job of ``chsink run``: a session, the source, the sink, and a clean end on SIGTERM."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import sys
from types import FrameType
from typing import Any, Self

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from chsink.config import Config
from chsink.embedded.java import java_home
from chsink.errors import ChsinkError, halts, preflight, services, without_values
from chsink.observe.logs import configure
from chsink.spark.checks import GATEWAY
from chsink.spark.sink import Sink

POLL_S = 1
LAST_WRITE_S = 10
NO_ANSWER = (Py4JError, ConnectionError)
STREAMING = "org.apache.spark.sql.execution.streaming.runtime"
ADVICE = re.compile(r" Consider setting .*|\s*SQLSTATE: .*")
LONGEST_REASON = 500
DATA_LOSS = ("KAFKA_DATA_LOSS", "failOnDataLoss", "data may have been")
PERMANENT = {
    ("ModuleNotFoundError:", "PACKAGE_NOT_INSTALLED", "UNSUPPORTED_PACKAGE_VERSION"): preflight.WORKER_LACKS_PACKAGE,
    ("ClassNotFoundException", "NoClassDefFoundError", "Failed to find data source: kafka"): preflight.SPARK_JARS,
}
"""Words in Spark's message for faults that every restart meets again."""
SESSION_CONF = {
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(config: Config, jars: str | None = None) -> SparkSession:
    """The session that the configuration describes; an existing one keeps its own settings.

    UnavailableError CHS-711 when Spark does not start.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if GATEWAY not in os.environ:
        os.environ["JAVA_HOME"] = str(java_home())
    builder = SparkSession.builder.appName(config.spark.app_name or f"chsink {config.sink.name}")
    if config.spark.master is not None:
        builder = builder.master(config.spark.master)
    if jars:
        builder = builder.config("spark.jars", jars)
    for name, value in {**SESSION_CONF, **config.spark.conf}.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, *NO_ANSWER) as error:
        raise services.SPARK_NOT_STARTED(reason=_reason(error)) from error
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def end(spark: SparkSession) -> None:
    """Stop the session.  Does nothing if its Java process is gone."""
    with contextlib.suppress(*NO_ANSWER):
        spark.stop()


def run(config: Config, spark: SparkSession) -> None:
    """Run the sink until the source is drained (``available_now``), the query fails, or SIGTERM or SIGINT.

    Raises the ChsinkError that ended it; ``UnavailableError`` CHS-708 for a failure of Spark itself.
    """
    configure(config.observe.log_format, config.observe.log_level)
    _quieten(spark)
    sink = Sink(config)
    try:
        if config.observe.metrics_port is not None:
            host = config.observe.metrics_host
            sink.log.info("metrics", host=host, port=sink.metrics.serve(host, config.observe.metrics_port))
        try:
            query = sink.start(sink.stream(spark))
        except (PySparkException, *NO_ANSWER) as error:  # while ranges in doubt are being settled
            raise _stopped(error) from error
        with _StopSignals() as stop:
            _await(query, sink, stop)
    finally:
        sink.close()


def _quieten(spark: SparkSession) -> None:
    """Keep Spark from logging each error of the sink a second time, with a Python and a Java trace."""
    log4j: Any = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    log4j.core.config.Configurator.setLevel(f"{STREAMING}.MicroBatchExecution", log4j.Level.OFF)


def _await(query: StreamingQuery, sink: Sink, stop: _StopSignals) -> None:
    try:
        while not query.awaitTermination(POLL_S):
            if stop.received:
                _end(query, sink, stop)
    except PySparkException as error:
        if stop.received and sink.failure is None:
            return
        if isinstance(sink.failure, ChsinkError):
            raise sink.failure from None
        sink.check_owned()  # another driver on the same checkpoint first appears as an error of Spark's
        # The reason of a failure of Spark is in its message; an error of another kind is a bug, and needs the trace.
        ours = sink.failure is not None and not isinstance(sink.failure, PySparkException | Py4JError | ConnectionError)
        sink.log.log(logging.ERROR if ours else logging.DEBUG, "Spark's error", trace=without_values(str(error)))
        raise _stopped(error) from error
    except NO_ANSWER as error:
        if not stop.received:
            raise _stopped(error) from error
        # A supervisor signals every process of the job, Spark's too.  What has landed can still be confirmed.
        sink.end_after_batch(LAST_WRITE_S)
        sink.log.info("stopped", signal=stop.received, because="Spark has ended")


def _end(query: StreamingQuery, sink: Sink, stop: _StopSignals) -> None:
    """Stop between two batches.  A second signal interrupts the current batch, which the next start settles."""
    sink.log.info("stopping", signal=stop.received, after="the current batch")
    asked = stop.times
    while not sink.end_after_batch(POLL_S):
        if stop.times > asked:
            sink.log.warning("stopping at once: the next start settles the current batch")
            break
    query.stop()


def _stopped(error: Exception) -> ChsinkError:
    """What a failure of Spark means for the user."""
    if any(mark in str(error) for mark in DATA_LOSS):
        return halts.SOURCE_MISSES_OFFSETS(reason=_reason(error))
    for marks, entry in PERMANENT.items():
        if line := next((line for line in str(error).splitlines() if any(m in line for m in marks)), ""):
            return entry(reason=without_values(line.strip()))
    return services.SPARK_STOPPED(reason=_reason(error))


def _reason(error: Exception) -> str:
    if isinstance(error, NO_ANSWER) and not isinstance(error, Py4JJavaError):
        return "its Java process ended, or does not answer"
    return reason_in(str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error))


def reason_in(text: str) -> str:
    """One line of Spark's message that says why: of the Java exception, or behind ``Reason:``; else the first one."""
    lines = [line.strip() for line in text.partition("=== Streaming Query ===")[0].splitlines()] or [""]
    said = [line.removeprefix(":").strip() for line in lines if line.startswith((": ", "Reason: "))]
    reason = ADVICE.sub("", (said or lines)[0].removeprefix("Reason: "))
    return without_values(reason)[:LONGEST_REASON]


class _StopSignals:
    """Records SIGTERM or SIGINT, and how often they arrived."""

    def __init__(self) -> None:
        self.received = ""
        self.times = 0
        self._old: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._old[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.received = signal.Signals(number).name
        self.times += 1

    def __exit__(self, *_: object) -> None:
        for number, old in self._old.items():
            signal.signal(number, old)
