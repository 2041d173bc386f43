"""Has a lander's tasks carried out by Spark: one action over the micro-batch, or over an exact Kafka read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pyspark.sql import DataFrame

from chsink.batch.model import Ack, Assigned, PlannedBatch
from chsink.batch.roles import Landing, Tasks
from chsink.errors import services
from chsink.errors import stream as errors
from chsink.spark.executor import ACK_SCHEMA, ExecutorTask
from chsink.spark.stream_plan import StreamPlan
from chsink.spark.task_check import check_tasks
from chsink.statemachine.ranges import OffsetRange, TopicPartition

A = TypeVar("A", bound=Assigned)


@dataclass(frozen=True, slots=True)
class SparkReads(Generic[A]):
    """:class:`chsink.batch.roles.ExactReads`, made from a stream."""

    tasks: Tasks[A]
    stream: StreamPlan

    def from_kafka(self, assignments: Sequence[A]) -> list[Ack]:
        """One action over an exact read of the assignments' ranges."""
        ranges = {a.topic_partition: a.held for a in assignments}
        return _run(self.tasks, self.stream.exact(ranges), assignments, ranges)


@dataclass(frozen=True, slots=True)
class SparkBatchTasks(SparkReads[A]):
    """:class:`chsink.batch.roles.BatchTasks` over the micro-batch ``frame``."""

    frame: DataFrame

    def from_batch(self, batch: PlannedBatch, assignments: Sequence[A]) -> list[Ack]:
        """One action over the micro-batch at hand."""
        return _run(self.tasks, self.frame, assignments, batch.ranges)


@dataclass(frozen=True, slots=True)
class SparkBatch(Generic[A]):
    """:class:`chsink.batch.loop.MicroBatch`: the batch's frame, its plan, and how to learn its stream."""

    run: object
    frame: DataFrame
    planned: PlannedBatch
    stream: Callable[[], StreamPlan]

    def tasks(self, landing: Landing[A], stream: StreamPlan) -> SparkBatchTasks[A]:
        """See :class:`chsink.batch.loop.MicroBatch`."""
        return SparkBatchTasks(landing.tasks, stream, self.frame)


def exact_reads(landing: Landing[A], stream: StreamPlan) -> SparkReads[A]:
    """Exact reads for a lander that is open for this stream."""
    return SparkReads(landing.tasks, stream)


def _run(
    tasks: Tasks[A], frame: DataFrame, assignments: Sequence[A], planned: Mapping[TopicPartition, OffsetRange]
) -> list[Ack]:
    expected = check_tasks(frame, sum(not r.is_empty for r in planned.values()))
    chosen = frame.select(*_present(tasks.fields, frame))
    acked = chosen.mapInArrow(ExecutorTask(tasks.body(assignments, planned)), ACK_SCHEMA)
    acks = [Ack.from_json(row.ack) for row in acked.collect()]
    if len(acks) != expected:
        raise services.ANSWERS_MISSING(expected=expected, answers=len(acks))
    return acks


def _present(fields: Sequence[str], frame: DataFrame) -> Sequence[str]:
    """The columns that the tasks need; ConfigError CHS-607 where the stream has one of them not."""
    missing = [f for f in fields if f not in frame.columns]
    if missing:
        raise errors.STREAM_COLUMN_MISSING(columns=", ".join(missing))
    return fields
