"""What runs in Spark's Python worker: one call per task, Arrow batches in, one acknowledgement out.

Imported by name on the workers, so that clients and decoders are cached per worker process, not per task.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext as SparkTask

from chsink.batch.model import Assignment
from chsink.batch.pipeline import Pipeline
from chsink.batch.task import Prepared, TaskContext, run_task
from chsink.clickhouse.client import Endpoint, cached_client
from chsink.clickhouse.table import TargetTable
from chsink.clickhouse.writer import ShardWriter
from chsink.decode import INSERT_SETTINGS
from chsink.sharding import Layout
from chsink.spark.input_end import to_the_end, worker_input
from statemachine.ranges import OffsetRange, TopicPartition

ACK_SCHEMA = "ack string"


class SystemClock:
    """:class:`chsink.ports.Clock` of this machine."""

    def now_ms(self) -> int:
        """Wall clock."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class ExecutorTask:
    """The function of ``mapInArrow``.  Everything in it is small and pickled once per task.

    ``access`` gives connection settings (credentials, TLS, timeouts) to which a shard's URLs are added.  ``tables``
    holds the target on each shard of an assignment's layout.
    """

    assignments: Mapping[TopicPartition, Assignment]
    planned: Mapping[TopicPartition, OffsetRange]
    pipelines: Mapping[str, Pipeline]
    tables: Mapping[TopicPartition, tuple[TargetTable, ...]]
    access: Endpoint
    insert_settings: Mapping[str, str | int]
    retry_for_s: float
    halt_on_bad_value: bool
    max_chunk_bytes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Land what the task holds; yield one row with the acknowledgement."""
        spark_task = SparkTask.get()
        assert spark_task is not None
        context = TaskContext(
            spark_task.partitionId(),
            self.assignments,
            self.planned,
            self._prepare,
            self._writer_for,
            self.halt_on_bad_value,
            self.max_chunk_bytes,
        )
        ack = run_task(to_the_end(batches, worker_input()), context)
        yield pa.RecordBatch.from_pydict({"ack": [ack.to_json()]})

    def _prepare(self, table: pa.Table, assignment: Assignment) -> Prepared:
        return self.pipelines[assignment.key.topic].prepare(table, assignment)

    def _writer_for(self, assignment: Assignment) -> ShardWriter:
        shards = Layout.from_json(assignment.layout).shards
        clients = [cached_client(replace(self.access, urls=shard.replicas)) for shard in shards]
        settings = {**self.insert_settings, **INSERT_SETTINGS}
        return ShardWriter(
            clients,
            self.tables[assignment.key.topic_partition],
            assignment.record.marks,
            settings,
            SystemClock(),
            self.retry_for_s,
            self.access.send_receive_timeout_s,
        )
