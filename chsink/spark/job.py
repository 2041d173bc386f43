"""The job of ``chsink run``: a session, the source, the sink, and a clean end on SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any, Self

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from chsink.config import Config
from chsink.errors import ChsinkError, UnavailableError
from chsink.observe.logs import configure
from chsink.spark.sink import Sink, kafka_stream

POLL_S = 1
SESSION_CONF = {
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(config: Config, jars: str | None = None) -> SparkSession:
    """The session that the configuration describes; an existing one keeps its own settings."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(config.spark.app_name or f"chsink {config.sink.name}")
    if config.spark.master is not None:
        builder = builder.master(config.spark.master)
    if jars:
        builder = builder.config("spark.jars", jars)
    for name, value in {**SESSION_CONF, **config.spark.conf}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def run(config: Config, spark: SparkSession) -> None:
    """Run the sink until the source is drained (``available_now``), the query fails, or SIGTERM or SIGINT.

    Raises the ChsinkError that ended it; ``UnavailableError`` CHS-708 for a failure of Spark itself.
    """
    configure(config.observe.log_format, config.observe.log_level)
    sink = Sink(config)
    if config.observe.metrics_port is not None:
        sink.log.info("metrics", port=sink.metrics.serve(config.observe.metrics_port))
    try:
        stream = kafka_stream(spark, config, sink.starting_offsets(), headers=sink.needs_headers())
        query = sink.start(stream)
        with _StopSignals() as stop:
            _await(query, sink, stop)
    finally:
        sink.close()


def _await(query: StreamingQuery, sink: Sink, stop: _StopSignals) -> None:
    try:
        while not query.awaitTermination(POLL_S):
            if stop.received:
                sink.log.info("stopping", signal=stop.received)
                query.stop()
    except PySparkException as error:
        if isinstance(sink.failure, ChsinkError):
            raise sink.failure from None
        raise UnavailableError(
            "CHS-708", f"Spark stopped the query: {str(error).splitlines()[0]}", "see Spark's log, then start again"
        ) from error


class _StopSignals:
    """Remembers SIGTERM or SIGINT.  The batch at hand is interrupted then, and settled by the next start."""

    def __init__(self) -> None:
        self.received = ""
        self._old: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._old[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.received = signal.Signals(number).name

    def __exit__(self, *_: object) -> None:
        for number, old in self._old.items():
            signal.signal(number, old)
