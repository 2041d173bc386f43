"""The sink as a PySpark program uses it.

>>> sink = Sink(load("job.toml"))                                                     # doctest: +SKIP
>>> query = sink.start(stream)                # stream: spark.readStream.format("kafka")…, transformed or not
>>> query.awaitTermination()

or, with your own query,

>>> stream = spark.readStream.format("kafka").option("startingOffsets", sink.starting_offsets())…  # doctest: +SKIP
>>> stream.writeStream.foreachBatch(sink).option("checkpointLocation", …).start()

A stream's columns are either Kafka's own (``value`` is then parsed as JSON by the table's columns), or the table's.  A
transform keeps ``topic``, ``partition`` and ``offset``, turns each record into 0..N rows, and keeps their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from chsink.batch.loop import BatchLoop
from chsink.batch.model import PlannedBatch
from chsink.batch.roles import Landing
from chsink.config import Config
from chsink.connect import connected
from chsink.driver.roles import Assignment
from chsink.errors import AlteredError
from chsink.errors import stream as errors
from chsink.observe.metrics import Metrics
from chsink.observe.traces import job_observer
from chsink.spark.folder import SparkFolder
from chsink.spark.offset_log import first_offsets, planned_batch
from chsink.spark.opening import (
    check_checkpoint,
    check_passed_over,
    create_tables,
    never_read,
    nothing_waits,
    open_for,
    source_offsets,
)
from chsink.spark.query import check_whole, current_query
from chsink.spark.runner import SparkBatch, exact_reads
from chsink.spark.session import prepare_kafka
from chsink.spark.stream_plan import READ_OPTIONS, StreamPlan, of_frame
from chsink.spark.task_check import check_ranges
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.tables.grow import add_missing


class Sink:
    """Lands the batches of one query in the job's tables.  Let :meth:`start` begin the query, or pass the sink itself
    to ``foreachBatch`` of a query of your own.

    From ``start`` or its first batch on, it owns the sink's state: an older process of the sink stops with FencedError.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._closing = ExitStack()
        self._begun: frozenset[TopicPartition] = frozenset()
        self._services = self._closing.enter_context(connected(config))
        self.log = self._services.log
        self.metrics = Metrics(config.sink.name)
        self.observer = job_observer(self.log, self.metrics, self._services.clock, config.observe.progress)
        self._closing.callback(self.observer.close)
        self._loop = BatchLoop(
            self._open,
            self._finished,
            lambda: self._services.config.topics,
            self.log,
            failed=self.observer.failed,
            adapt=self._adapt,
            pass_over=lambda unrouted: nothing_waits(self._services, unrouted),
        )

    @property
    def failure(self) -> BaseException | None:
        """The error of the last start or batch that failed; None if none has failed."""
        return self._loop.failure

    # --- ways in --------------------------------------------------------------------------------------------------

    def start(self, stream: DataFrame) -> StreamingQuery:
        """Claim the sink, settle what is in doubt, and start a query with the job's checkpoint and trigger.

        ``stream`` is what ``sink.stream(spark)`` returned, transformed or not.  Raises ChsinkError if a check fails, or
        a range cannot be settled; then no new record was read.
        """
        checkpoint = self.config.sink.checkpoint
        if checkpoint is None:
            raise errors.CHECKPOINT_NOT_SET()
        self._services.take_up_topics()
        folder = SparkFolder(checkpoint, stream.sparkSession)
        check_checkpoint(self._services, folder)
        self._loop.start(of_frame(stream), exact_reads)
        check_passed_over(self._services, folder)
        writer = stream.writeStream.foreachBatch(self).option("checkpointLocation", checkpoint)
        return triggered(writer, self.config).start()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Land one micro-batch: the function of ``foreachBatch``."""
        self._loop.land(lambda: self._running(frame, batch_id))

    def process(
        self, frame: DataFrame, batch_id: int, ranges: Mapping[TopicPartition, OffsetRange], stream: DataFrame
    ) -> None:
        """Land a batch whose planned ranges the caller knows.  Exact reads are made from ``stream``.

        Raises ConfigError if the batch is not as Spark passed it (CHS-613), or reads other ranges than these (CHS-608).
        """
        check_whole(frame)
        check_ranges(frame, ranges)
        plan, planned = of_frame(stream), PlannedBatch(batch_id, dict(ranges))
        self._loop.land(lambda: self._batch(plan.made_of, frame, planned, lambda: plan))

    def end_after_batch(self, wait_s: float) -> bool:
        """Take no further batch, and wait up to ``wait_s`` seconds for the current one.  Returns whether it is done."""
        return self._loop.end_after_batch(wait_s)

    def check_owned(self) -> None:
        """Raises FencedError (CHS-801) if a newer driver owns the sink; no error if that cannot be known now."""
        self._loop.check_owned()

    def close(self) -> None:
        """Close the connections.  The state stays; another start continues from it."""
        self._closing.close()

    # --- the source -------------------------------------------------------------------------------------------------

    def stream(self, spark: SparkSession) -> DataFrame:
        """The Kafka source as the job file describes it.  It begins where the sink's last batch ended."""
        starting_offsets = self.starting_offsets()
        return kafka_stream(spark, self._services.config, starting_offsets, headers=self.needs_headers())

    def starting_offsets(self) -> str:
        """``startingOffsets`` for a Kafka source of your own: where the sink's last batch ended."""
        self._services.take_up_topics()
        return source_offsets(self._services)

    def needs_headers(self) -> bool:
        """Whether a Kafka source of your own must set ``includeHeaders``: a table has a column for headers, a header
        chooses the table, or dead letters hold them.
        """
        chosen = any(r.choice and r.choice.source == "header" for r in self._services.config.routes)
        if chosen or self.config.keeps_records:
            return True
        create_tables(self._services)
        targets = self._services.clickhouse.targets.values()
        return any(c.name == "_kafka_headers" for t in targets for c in t.table.insertable)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _running(self, frame: DataFrame, batch_id: int) -> SparkBatch[Assignment]:
        """The batch at hand of the query that runs it."""
        query, spark = current_query(frame), frame.sparkSession
        check_whole(frame)
        self.observer.follows(query.commit_of)
        planned = self._known(SparkFolder(query.checkpoint, spark), batch_id)
        return self._batch(query.run_id, frame, planned, lambda: query.stream(spark))

    def _known(self, folder: SparkFolder, batch_id: int) -> PlannedBatch:
        """What was planned; what could not be read before it is no history."""
        planned = planned_batch(folder, batch_id)
        asked = {tp for tp in planned.history - self._begun if not planned.ranges[tp].is_empty}
        if not asked:
            return planned
        first = first_offsets(folder)
        passed = {tp: OffsetRange(first.get(tp, 0), planned.ranges[tp].start) for tp in asked}
        unread = never_read(self._services, passed)
        self._begun |= asked - unread
        return replace(planned, history=planned.history - unread)

    def _batch(
        self, run: object, frame: DataFrame, planned: PlannedBatch, stream: Callable[[], StreamPlan]
    ) -> SparkBatch[Assignment]:
        return SparkBatch(run, frame, planned, stream, self.config.clickhouse.chunk_offsets)

    def _open(self, stream: StreamPlan) -> Landing[Assignment]:
        return open_for(self._services, stream, self.observer)

    def _adapt(self, altered: AlteredError) -> bool:
        return add_missing(self._services.clickhouse, self.log, altered)

    def _finished(self, batch: PlannedBatch) -> None:
        ends = self._services.kafka.log_ends(batch.ranges)
        self.observer.finished(batch, ends, self._services.clickhouse.routes)


def triggered(writer: DataStreamWriter, config: Config) -> DataStreamWriter:
    """The writer with the configured trigger."""
    if config.trigger.mode == "available_now":
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{config.trigger.interval_ms} milliseconds")


def kafka_stream(
    spark: SparkSession,
    config: Config,
    starting_offsets: str,
    *,
    headers: bool,
    topics: Sequence[str] = (),
    pattern: str | None = None,
) -> DataFrame:
    """The Kafka source that the configuration describes: of the sink's topics, also later ones; or else of ``topics``,
    or of those that match a Java ``pattern``.
    """
    prepare_kafka(spark, config)
    if not topics and pattern is None:
        pattern = config.topic_pattern
    how, which = ("subscribePattern", pattern) if pattern else ("subscribe", ",".join(topics or config.topics))
    reader = (
        spark.readStream.format("kafka")
        .options(**{**READ_OPTIONS, **config.kafka.spark_options()})
        .option(how, which)
        .option("startingOffsets", starting_offsets)
        .option("failOnDataLoss", "true")
        .option("includeHeaders", str(headers).lower())
    )
    if config.kafka.max_offsets_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(config.kafka.max_offsets_per_trigger))
    return reader.load()
