"""The job of ``chsink run``: the source, the sink, the mirror beside it, and a clean end on SIGTERM.

With a mirror, the process has two sides.  Rules:
- A side that halts, or finds that a table was changed, leaves the other one running.
- A start that ClickHouse's side refuses otherwise stops both: a person waits for it.
- ClickHouse's side also stops both if a service does not answer, or if a newer driver owns the sink: whoever supervises
  the process starts both again, or has done so.  The mirror starts again by itself.
- When both have ended, the error is ClickHouse's side's, else the mirror's.
"""

from __future__ import annotations

import logging
from contextlib import closing

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from chsink.config import Config
from chsink.errors import ChsinkError, FencedError, HaltError, UnavailableError, without_values
from chsink.observe.logs import log_end
from chsink.observe.metrics import MirrorMetrics
from chsink.observe.probes import Probes
from chsink.observe.serve import served
from chsink.spark.failures import NO_ANSWER, stopped
from chsink.spark.query import end_between_batches
from chsink.spark.session import quieten
from chsink.spark.sink import Sink
from chsink.spark.stay import staying
from chsink.stop import StopSignals
from chsink.ui.beside import page_beside

POLL_S = 1
LAST_WRITE_S = 10


def run(config: Config, spark: SparkSession) -> None:
    """Run the sink, and the mirror if it is enabled, until the source is drained (``available_now``), the query fails,
    or SIGTERM or SIGINT.

    Raises the ChsinkError that ended it; ``UnavailableError`` CHS-708 for a failure of Spark itself.
    """
    quieten(spark)
    observe, probes = config.observe, Probes()
    with (
        closing(Sink(config)) as sink,
        served(sink.metrics.registry, probes, observe.metrics_host, observe.metrics_port, sink.log),
        page_beside(config, sink.observer, sink.log),
        staying(observe.stay_after_halt, spark, probes, sink.log, sink.observer.stays),
    ):
        run_it = _run_both if config.mirror.enabled else _run_alone
        signal = run_it(config, spark, sink, probes)
    sink.observer.ended(signal)


def _run_alone(_: Config, spark: SparkSession, sink: Sink, probes: Probes) -> str:
    """Returns the signal that ended it, "" if none did."""
    query = _started(sink, spark)
    with StopSignals() as stop:
        _await(query, sink, stop, probes)
    return stop.received


def _run_both(config: Config, spark: SparkSession, sink: Sink, probes: Probes) -> str:
    """Returns the signal that ended it, "" if none did."""
    from chsink.spark.mirror_thread import MirrorBeside  # its packages are an extra

    query: StreamingQuery | None = None
    failure: ChsinkError | None = None
    try:
        query = _started(sink, spark)
    except HaltError as error:
        failure = error
    metrics = MirrorMetrics(config.sink.name, sink.metrics.registry)
    with StopSignals() as stop, MirrorBeside(config, spark, stop, sink.log, metrics) as mirror:
        try:
            if query is not None:
                _await(query, sink, stop, probes)
        except ChsinkError as error:
            failure = error
            if isinstance(error, UnavailableError | FencedError):
                mirror.end()
        sink.observer.end = failure
        if failure is not None:
            probes.ended(failure)
            log_end(sink.log, "ClickHouse's side", failure, mirror="stops" if mirror.ending else "goes on")
        mirror.join(last=failure is None or mirror.ending or config.trigger.mode == "available_now")
        if stop.received:
            probes.ending()
    if failure or mirror.failure:
        raise failure or mirror.failure  # type: ignore[misc] # one of them is an error
    return stop.received


def _started(sink: Sink, spark: SparkSession) -> StreamingQuery:
    try:
        return sink.start(sink.stream(spark))
    except (PySparkException, *NO_ANSWER) as error:  # while ranges in doubt are being settled
        raise stopped(error) from error


def _await(query: StreamingQuery, sink: Sink, stop: StopSignals, probes: Probes) -> None:
    try:
        while not query.awaitTermination(POLL_S):
            probes.looked()
            if stop.received:
                probes.ending()
                sink.log.info("stopping", signal=stop.received, after="the current batch")
                end_between_batches(query, sink.end_after_batch, stop, sink.log)
        probes.ending()
    except PySparkException as error:
        if stop.received and sink.failure is None:
            return
        if isinstance(sink.failure, ChsinkError):
            raise sink.failure from None
        sink.check_owned()  # another driver on the same checkpoint first appears as an error of Spark's
        # The reason of a failure of Spark is in its message; an error of another kind is a bug, and needs the trace.
        ours = sink.failure is not None and not isinstance(sink.failure, PySparkException | Py4JError | ConnectionError)
        sink.log.log(logging.ERROR if ours else logging.DEBUG, "Spark's error", trace=without_values(str(error)))
        raise stopped(error) from error
    except NO_ANSWER as error:
        if not stop.received:
            raise stopped(error) from error
        # A supervisor signals every process of the job, Spark's too.  What has landed can still be confirmed.
        sink.end_after_batch(LAST_WRITE_S)
        sink.log.info("stopped", signal=stop.received, because="Spark stopped")
