"""The mirror on Spark: a query of its own that hands over, and the coordinator's thread beside it.

Rules:
- The query has its own checkpoint and scheduler pool, and reads the topics of the mirror's routes.
- A start settles the group first, then plans: a new checkpoint continues where the group is.
- A topic without a record that can be read has no route: its first one ends the run, and the next start begins it.
- When the query ends well, all that was handed over is committed before the mirror ends.  After a signal or an error,
  as much of it as ``LAST_COMMIT_S`` allows; the next start commits the rest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Self

import structlog
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from chsink.batch.loop import BatchLoop
from chsink.batch.model import Ack, total
from chsink.checks import check_mirror
from chsink.clock import SystemClock
from chsink.config import Config
from chsink.errors import ChsinkError, FencedError, services
from chsink.findings import raise_first
from chsink.kafka.admin import KafkaAdmin, open_admin
from chsink.kafka.sample import holding
from chsink.mirror.apart import CoordinatorElsewhere
from chsink.mirror.coordination import Coordination
from chsink.mirror.known_tables import Hole
from chsink.mirror.lander import MirrorLander
from chsink.mirror.named_tables import begin_tables
from chsink.mirror.opening import OpenMirror, open_mirror
from chsink.mirror.status import status_if_known
from chsink.mirror.task import Share
from chsink.mirror.topic import ensure_control_topic
from chsink.observe.logs import logger
from chsink.observe.metrics import MirrorMetrics
from chsink.observe.observer import Shown
from chsink.observe.probes import Probes
from chsink.observe.serve import served
from chsink.observe.skipped import SkipReport
from chsink.spark.checkpoint import checkpoint_findings
from chsink.spark.failures import NO_ANSWER, stopped
from chsink.spark.folder import SparkFolder
from chsink.spark.offset_log import planned_batch
from chsink.spark.query import check_whole, current_query, end_between_batches
from chsink.spark.runner import SparkBatch, exact_reads
from chsink.spark.session import quieten
from chsink.spark.sink import kafka_stream, triggered
from chsink.spark.starting import FIRST
from chsink.spark.stay import staying
from chsink.spark.stream_plan import StreamPlan, of_frame
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.rounds import Ranges
from chsink.stop import END_S, StopSignal, StopSignals, await_end
from chsink.tables.iceberg import CreateNamed, create_missing_iceberg
from chsink.ui.beside import page_beside

POOL = "mirror"
POLL_S = 1.0
LAST_COMMIT_S = 10.0
DISTURBED = (services.CHECKPOINT_IN_USE.name, services.MIRROR_NOT_HANDED_OVER.name)
"""How the newest driver's query ends if an older driver, suspended for long, wakes up: it has written to the same
checkpoint, or opened a producer of the same id.
"""
BEGINS = (services.MIRROR_TOPIC_BEGINS.name, services.MIRROR_TABLES_BEGIN.name)
"""How a start ends whose topics or tables have become more."""
DISTURBED_TIMES = 5
"""How often the newest driver starts for that reason, the first time included."""


def run(config: Config, spark: SparkSession) -> None:
    """Run the mirror alone, until the source is drained (``available_now``), it fails, or SIGTERM or SIGINT.

    Raises the ChsinkError that ended it.  What an older driver may have caused is no reason to end: that one has to.
    """
    quieten(spark)
    log, metrics, observe, probes = logger(config.sink.name), MirrorMetrics(config.sink.name), config.observe, Probes()
    shown = Shown()
    with (
        served(metrics.registry, probes, observe.metrics_host, observe.metrics_port, log),
        page_beside(config, shown, log, clickhouse=False),
        staying(observe.stay_after_halt, spark, probes, log, shown.stays),
    ):
        left = DISTURBED_TIMES
        while True:
            probes.starting()
            with MirrorRun(config, spark, log, metrics, probes) as mirror, StopSignals() as stop:
                try:
                    mirror.run(stop)
                except ChsinkError as error:
                    begins = error.name in BEGINS
                    left -= not begins
                    if not (begins or (error.name in DISTURBED and left)) or stop.received:
                        raise
                    log.warning("the mirror starts again", id=error.id, reason=error.message)
                else:
                    return


class MirrorRun:
    """One start of the mirror.  A context manager; opening it connects to Kafka and the catalog."""

    def __init__(
        self,
        config: Config,
        spark: SparkSession,
        log: structlog.typing.FilteringBoundLogger,
        metrics: MirrorMetrics | None = None,
        probes: Probes | None = None,
    ) -> None:
        self._probes = probes or Probes()
        kafka = open_admin(config)
        opened = open_mirror(config, kafka)
        self._config, self._spark, self._log, self._metrics = opened.config, spark, log, metrics
        self._mirror: OpenMirror = create_missing_iceberg(opened, kafka, log)
        self._create = CreateNamed(self._mirror, kafka, log)
        check_mirror(self._mirror, log)
        ensure_control_topic(self._mirror.names)
        feeds = self._mirror.feeds()
        self._query: StreamingQuery | None = None
        self._left = False
        self._skipped = SkipReport(log, SystemClock())
        self._coordination = self._coordinated()
        self._lander = MirrorLander(
            feeds,
            self._coordination,
            landed=self._handed_over,
            renewed=self._mirror.renewed,
            adapt=self._mirror.adapt,
        )
        self._loop: BatchLoop[Share, StreamPlan] = BatchLoop(
            lambda _: self._lander.landing(),
            lambda _: None,
            lambda: self._mirror.config.mirror.topics,
            log,
            failed=lambda _: None,
            adapt=self._mirror.adapt,
            pass_over=partial(_nothing_begun, self._config, kafka),
        )

    def _coordinated(self) -> Coordination | CoordinatorElsewhere:
        """The coordinator in this process, or what stands for one apart."""
        if self._config.mirror.coordinator == "apart":
            return CoordinatorElsewhere(self._mirror, SystemClock(), self._log)
        return Coordination(
            self._mirror,
            self._reread,
            SystemClock(),
            self._log,
            after_round=self._measure,
            under_way=lambda: self._lander.under_way,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """After an error that nothing here expects, query and coordinator may still run."""
        if self._query is not None:
            with suppress(PySparkException, *NO_ANSWER):
                self._query.stop()
        self._coordination.finish(0)
        until = monotonic() + (0.0 if self._left else END_S)
        while not self._coordination.join(POLL_S):
            if monotonic() >= until:  # it may still use what would be closed here
                self._log.error("the mirror's coordinator did not stop", because="a service may not answer")
                return
        self._coordination.close()
        self._lander.close()
        self._skipped.say(now=True)

    def run(self, stop: StopSignal) -> None:
        """Until the source is drained (``available_now``), something fails, or a signal.  Raises ChsinkError."""
        failure: ChsinkError | None = None
        try:
            self._show_running(1)
            self._hand_over(stop)
        except ChsinkError as error:
            failure = error
        finally:
            self._show_running(0)
        if failure is None:
            self._probes.ending()
        else:
            self._probes.ended(failure)
        in_time = failure is not None or bool(stop.received)
        self._coordination.finish(LAST_COMMIT_S if in_time else None)
        ask = partial(self._coordination.finish, LAST_COMMIT_S)
        self._left = not await_end(self._coordination.join, stop, ask, asked=in_time)
        ended = self._coordination.failure
        failure = ended if isinstance(ended, FencedError) else failure or ended
        if failure is None and self._left:
            failure = services.MIRROR_NOT_COORDINATED(reason="its coordinator did not stop; a service may not answer")
        if failure is not None:
            if failure.name == services.MIRROR_TABLES_BEGIN.name and not stop.received:
                begin_tables(self._mirror, failure, self._create)
            raise failure
        self._log.info("the mirror stopped", signal=stop.received or None)

    def _show_running(self, running: int) -> None:
        if self._metrics is not None:
            self._metrics.running.labels(self._metrics.sink).set(running)

    # --- the query ----------------------------------------------------------------------------------------------------

    def _hand_over(self, stop: StopSignal) -> None:
        """Run the query to its end.  Raises ChsinkError, the coordinator's too."""
        try:
            query = self._query = self._started()
            while not query.awaitTermination(int(POLL_S)):
                self._probes.looked()
                failure = self._coordination.failure
                if stop.received or failure is not None:
                    if stop.received:
                        self._probes.ending()
                    end_between_batches(query, self._loop.end_after_batch, stop, self._log)
                    if failure is not None:
                        raise failure
                    return
        except (PySparkException, *NO_ANSWER) as error:
            if stop.received and self._loop.failure is None:
                return
            self._coordination.check_owned()  # a newer driver may have caused it
            if isinstance(self._loop.failure, ChsinkError):
                raise self._loop.failure from None
            raise stopped(error) from error

    def _started(self) -> StreamingQuery:
        config, mirror = self._config.at_the_mirrors_pace(), self._config.mirror
        checkpoint = config.mirror_checkpoint()
        raise_first(checkpoint_findings(SparkFolder(checkpoint, self._spark), mirror.topics, lambda: None))
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)  # the query's thread inherits it
        self._coordination.start()
        start, pattern = self._starting_offsets(), config.mirror_pattern
        headers = any(route.choice and route.choice.source == "header" for route in mirror.routes)
        stream = kafka_stream(self._spark, config, start, headers=headers, topics=mirror.topics, pattern=pattern)
        self._loop.start(of_frame(stream), exact_reads)
        self._coordination.begin()
        writer = stream.writeStream.foreachBatch(self._land).option("checkpointLocation", checkpoint)
        return triggered(writer, config).start()

    def _starting_offsets(self) -> str:
        """Where the group is, used with a new checkpoint only."""
        group = self._lander.handed_over(self._mirror.kafka.partitions(self._config.mirror.topics))
        offsets: dict[str, dict[str, int]] = {}
        for tp, at in group.items():
            offsets.setdefault(tp.topic, {})[str(tp.partition)] = FIRST if at is None else at
        return json.dumps(offsets)

    def _land(self, frame: DataFrame, batch_id: int) -> None:
        self._loop.land(lambda: self._batch(frame, batch_id))

    def _batch(self, frame: DataFrame, batch_id: int) -> SparkBatch[Share]:
        query, spark = current_query(frame), frame.sparkSession
        check_whole(frame)
        planned = planned_batch(SparkFolder(query.checkpoint, spark), batch_id)
        return SparkBatch(query.run_id, frame, planned, lambda: query.stream(spark))

    def _handed_over(self, acks: Sequence[Ack]) -> None:
        sums = total(acks)
        self._log.info("handed over", rows=sums.rows)
        self._skipped.add_all((c.skipped, c.first_skipped) for ack in acks for c in ack.chunks)

    def _measure(self) -> None:
        """After a round, in the coordinator's thread.  Without a port for metrics, nobody is asked."""
        if self._metrics is None or self._config.observe.metrics_port is None:
            return
        if found := status_if_known(self._mirror, SystemClock().now_ms(), self._log):
            self._metrics.show(found.epoch, found.measures())

    def _reread(self, hole: Hole) -> None:
        """In the coordinator's thread, beside the query's batches: Spark runs both."""
        try:
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
            self._lander.reread(hole)
        except (PySparkException, *NO_ANSWER) as error:
            raise stopped(error) from error


def _nothing_begun(config: Config, kafka: KafkaAdmin, unrouted: Ranges) -> bool:
    """True where topics that wait, or that a pattern found since, have no record yet that can be read.  Else CHS-712:
    the next start has routes for them.  They begin where their logs start, whatever a checkpoint has passed.  Beyond
    the log of a topic that was created again, there is nothing to read.
    """
    ends = kafka.log_ends(unrouted)
    there = {tp: OffsetRange(o.start, min(o.end, ends[tp])) for tp, o in unrouted.items() if o.start < ends[tp]}
    if begun := sorted({tp.topic for tp in holding(config, there)}):
        raise services.MIRROR_TOPIC_BEGINS(topics=", ".join(begun))
    return True
