"""The sink as a PySpark program uses it.

>>> sink = Sink(load("job.toml"))                                                     # doctest: +SKIP
>>> query = sink.start(stream)                # stream: spark.readStream.format("kafka")…, transformed or not
>>> query.awaitTermination()

or, with a query of one's own,

>>> stream = spark.readStream.format("kafka").option("startingOffsets", sink.starting_offsets())…  # doctest: +SKIP
>>> stream.writeStream.foreachBatch(sink).option("checkpointLocation", …).start()

A stream's columns are either Kafka's own (``value`` is then parsed as JSON by the table's columns), or the table's.  A
transform keeps ``topic``, ``partition`` and ``offset``, turns each record into 0..N rows, and keeps their order.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from chsink.batch.driver import Driver
from chsink.batch.ledger import read_records
from chsink.batch.model import PlannedBatch
from chsink.config import Config
from chsink.errors import AlteredError, ChsinkError, ConfigError, UnavailableError, halts
from chsink.observe.logs import logger
from chsink.observe.metrics import Metrics
from chsink.observe.observer import JobObserver
from chsink.spark.executor import SystemClock
from chsink.spark.offset_log import planned_batch
from chsink.spark.query import check_whole, current_query
from chsink.spark.runner import SparkRunner
from chsink.spark.stream_plan import StreamPlan, of_frame
from chsink.wiring import Wiring
from statemachine.ranges import OffsetRange, TopicPartition
from statemachine.records import Phase, StateKey, StateRecord

ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


class Ended(Exception):
    """The sink was asked to end: this batch is not begun, and the next start takes it."""


class Sink:
    """One sink: owns its state from the first batch (or ``start``) on.  Callable, for ``foreachBatch``."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.failure: BaseException | None = None
        self.log = logger(config.sink.name)
        self.clock = SystemClock()
        self.metrics = Metrics(config.sink.name)
        self.observer = JobObserver(self.log, self.metrics, self.clock, config.observe.progress)
        self._wiring = Wiring(config, self.clock, self.log)
        self._driver: Driver | None = None
        self._runner: SparkRunner | None = None
        self._run: str | None = None
        self._batches = threading.Lock()
        self._ending = False

    # --- ways in --------------------------------------------------------------------------------------------------

    def start(self, stream: DataFrame) -> StreamingQuery:
        """Claim the sink, settle what is in doubt, start the query with the configured checkpoint and trigger.

        Raises ChsinkError before anything is read when a check fails or a range cannot be settled.
        """
        checkpoint = self.config.sink.checkpoint
        if checkpoint is None:
            raise ConfigError("CHS-609", "sink.checkpoint is not set", "name a folder or URI for Spark's checkpoint")
        self._ending = False
        with self._batches:
            self._open(of_frame(stream))
            assert self._driver is not None
            assert self._runner is not None
            self._driver.settle_all(self._runner)
            self._run = None
        stream.sparkSession.conf.set(ARROW_ROWS, str(self.config.clickhouse.chunk_offsets))
        writer = stream.writeStream.foreachBatch(self).option("checkpointLocation", checkpoint)
        if self.config.trigger.mode == "available_now":
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self.config.trigger.interval_ms} milliseconds").start()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Land one micro-batch: the function of ``foreachBatch``."""
        with self._batches:
            if self._ending:
                raise Ended
            self._take(frame, batch_id)

    def end_after_batch(self, wait_s: float) -> bool:
        """Take no further batch.  Whether the one at hand is done, for which ``wait_s`` is waited."""
        self._ending = True
        done = self._batches.acquire(timeout=wait_s)
        if done:
            self._batches.release()
        return done

    def _take(self, frame: DataFrame, batch_id: int) -> None:
        with self._failing():
            query = current_query(frame)
            check_whole(frame)
            spark = frame.sparkSession
            if self._driver is None or self._run not in (None, query.run_id):
                self._open(query.stream(spark))
            self._run = query.run_id
            self._land(frame, planned_batch(spark, query.checkpoint, batch_id), lambda: query.stream(spark))

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.failure = error
            self._driver = None  # what is cached may no longer be what is stored: the next batch claims anew
            if isinstance(error, ChsinkError):
                self.log.error("stopped", id=error.id, error=error.message, fix=error.hint)  # noqa: TRY400 - no trace
            raise

    def process(
        self, frame: DataFrame, batch_id: int, ranges: Mapping[TopicPartition, OffsetRange], stream: DataFrame
    ) -> None:
        """Land a batch whose planned ranges the caller knows.  ``stream`` is what exact reads are made from."""
        plan = of_frame(stream)
        with self._batches, self._failing():
            known = self._runner.stream if self._runner is not None else None
            if self._driver is None or known is None or known.made_of != plan.made_of:
                self._open(plan)
            self._land(frame, PlannedBatch(batch_id, dict(ranges)), lambda: plan)

    def stream(self, spark: SparkSession) -> DataFrame:
        """The Kafka source as the configuration describes it, from where the sink stands."""
        return kafka_stream(spark, self.config, self.starting_offsets(), headers=self.needs_headers())

    def starting_offsets(self) -> str:
        """``startingOffsets`` for the Kafka source: the recorded end per partition, else the configured start.

        Spark uses it only when the checkpoint is new; with it, a lost checkpoint costs nothing.  Offsets that Kafka
        dropped meanwhile are not asked for: they are a gap, and ``errors.on_gap`` decides.
        """
        default = -2 if self.config.kafka.starting_offsets == "earliest" else -1
        records = read_records(self._wiring.store, self.config.sink.name)
        routed = {(t.topic, t.name) for t in self._wiring.targets.values()}
        by_partition = {
            k.topic_partition: r
            for k, r in records.items()
            if r.phase is not Phase.EMPTY and (k.topic, k.table) in routed
        }
        if by_partition:
            default = -2  # the sink has run: a partition without a record is one that had none yet
        ids = self._wiring.kafka.topic_ids(self.config.topics)
        offsets: dict[str, dict[str, int]] = {}
        partitions = self._wiring.kafka.partitions(self.config.topics)
        held = self._wiring.kafka.log_starts(partitions)
        for tp in partitions:
            record = by_partition.get(tp)
            known = record is not None and record.topic_id == ids[tp.topic]
            start = max(record.end, held[tp]) if record and known else default
            offsets.setdefault(tp.topic, {})[str(tp.partition)] = start
        return json.dumps(offsets)

    def check_owned(self) -> None:
        """FencedError CHS-801 when a newer driver owns the sink; nothing while that cannot be known."""
        if self._driver is not None:
            with suppress(UnavailableError):
                self._driver.ledger.check_owned()

    def needs_headers(self) -> bool:
        """Whether a target table has a column for the records' headers, which the source then has to read."""
        return any(c.name == "_kafka_headers" for t in self._wiring.targets.values() for c in t.tables[0].insertable)

    def close(self) -> None:
        """Release connections.  The state stays; another start goes on from it."""
        self.observer.close()
        self._wiring.close()

    # --- inside ---------------------------------------------------------------------------------------------------

    def _open(self, stream: StreamPlan) -> None:
        """Check the target, build the pipelines, claim the sink."""
        isolation = self.config.kafka.isolation_level
        if stream.isolation_level != isolation:
            raise ConfigError(
                "CHS-612",
                f"the stream reads at Kafka's isolation level {stream.isolation_level}, the job at {isolation}",
                "make the stream by Sink.stream(spark); or give it the option kafka.isolation.level, or set "
                "kafka.isolation_level in the job",
            )
        wired = self._wiring.driver(stream, self.observer)
        self._runner = SparkRunner(wired.make_task, wired.pipelines, stream)
        wired.driver.claim(wired.layouts)
        self._driver = wired.driver
        owner = wired.driver.ledger.owner
        self.log.info("claimed", epoch=owner.epoch, driver=owner.driver, store=self._wiring.store.name)
        self._check_logs(wired.driver.ledger.records)

    def _check_logs(self, records: Mapping[StateKey, StateRecord]) -> None:
        """HaltError CHS-301 for a log that ends before what was landed.  Spark itself would only find offsets missing,
        with any checkpoint, and propose to ignore that.
        """
        kafka = self._wiring.kafka
        ids = kafka.topic_ids(self.config.topics)
        same = {k.topic_partition: r for k, r in records.items() if r.topic_id and ids.get(k.topic) == r.topic_id}
        for tp, end in kafka.log_ends(same).items():
            if end < same[tp].end:
                raise halts.LOG_SHRANK(tp=tp, detail=f"it ends at {end}, the recorded range is {same[tp].range}")

    def _land(self, frame: DataFrame, batch: PlannedBatch, stream: Callable[[], StreamPlan]) -> None:
        """Land a batch.  A table that was altered since the last one is looked at anew, and the sink claimed anew."""
        unrouted = sorted({tp.topic for tp in batch.ranges} - set(self.config.topics))
        if unrouted:
            raise ConfigError(
                "CHS-610",
                f"no route leads from topic {', '.join(unrouted)}",
                "add a [[route]], or do not subscribe to it",
            )
        frame.sparkSession.conf.set(ARROW_ROWS, str(self.config.clickhouse.chunk_offsets))
        try:
            self._process(frame, batch)
        except AlteredError as altered:
            self.log.warning(altered.message, id=altered.id, next="looking anew")
            self._open(stream())
            self._process(frame, batch)
        self.observer.finished(batch, self._wiring.kafka.log_ends(batch.ranges))

    def _process(self, frame: DataFrame, batch: PlannedBatch) -> None:
        assert self._driver is not None
        assert self._runner is not None
        self._runner.frame = frame
        try:
            self._driver.process(batch, self._runner)
        finally:
            self._runner.frame = None


def kafka_stream(spark: SparkSession, config: Config, starting_offsets: str, *, headers: bool) -> DataFrame:
    """The Kafka source that the configuration describes."""
    reader = (
        spark.readStream.format("kafka")
        .options(**config.kafka.spark_options())
        .option("subscribe", ",".join(config.topics))
        .option("startingOffsets", starting_offsets)
        .option("failOnDataLoss", "true")
        .option("includeHeaders", str(headers).lower())
    )
    if config.kafka.max_offsets_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(config.kafka.max_offsets_per_trigger))
    return reader.load()
