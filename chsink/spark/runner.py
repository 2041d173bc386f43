"""Runs a lander's tasks with Spark: one action over the micro-batch, or over an exact Kafka read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType

from chsink.batch.model import Ack, Assigned, PlannedBatch
from chsink.batch.roles import Landing, Tasks
from chsink.errors import services
from chsink.errors import stream as errors
from chsink.spark.arrow_batches import MOST_ROWS, bound_bytes, bound_rows, learn
from chsink.spark.executor import ACK_SCHEMA, PART, PLACE, PLACE_BITS, ExactTask, ExecutorTask
from chsink.spark.stream_plan import StreamPlan
from chsink.spark.task_check import check_tasks
from chsink.statemachine.ranges import OffsetRange, TopicPartition

A = TypeVar("A", bound=Assigned)
SMALL_OFFSETS, SMALL_RANGE, TASKS_PER_CORE = 65_536, 8_192, 2
"""A read of at most ``SMALL_OFFSETS`` offsets has at most ``TASKS_PER_CORE`` tasks for each core, because a task costs
more than a small range.  So has a larger read whose ranges all have at most ``SMALL_RANGE`` offsets, or, if that is
more, one task for each ``SMALL_OFFSETS`` offsets.
"""
NUMBERED_TOPICS = 16
"""With more topics, a record's topic comes as text: each name is compared with it."""


@dataclass(frozen=True, slots=True)
class SparkReads(Generic[A]):
    """:class:`chsink.batch.roles.ExactReads`, made from a stream."""

    tasks: Tasks[A]
    stream: StreamPlan

    def from_kafka(self, assignments: Sequence[A]) -> list[Ack]:
        """One action over an exact read of the assignments' ranges."""
        ranges = {a.topic_partition: a.held for a in assignments}
        frame = self.stream.exact(ranges)
        bound_bytes(frame.sparkSession)
        expected = check_tasks(frame, sum(not r.is_empty for r in ranges.values()))
        return _by_range(self.tasks, frame, assignments, ranges, expected)


@dataclass(frozen=True, slots=True)
class SparkBatchTasks(SparkReads[A]):
    """:class:`chsink.batch.roles.BatchTasks` over the micro-batch ``frame``."""

    frame: DataFrame
    planned: PlannedBatch
    most_rows: int

    def from_batch(self, batch: PlannedBatch, assignments: Sequence[A]) -> list[Ack]:
        """One action over the micro-batch at hand; over an exact read if it has tasks for topics that wait, too."""
        if any(not offsets.is_empty for tp, offsets in self.planned.ranges.items() if tp not in batch.ranges):
            return self.from_kafka(assignments)
        topics = {tp.topic for tp, offsets in batch.ranges.items() if not offsets.is_empty}
        bound_rows(self.frame.sparkSession, topics, tuple(self.tasks.fields), self.most_rows)
        return _run(self.tasks, self.frame, assignments, batch.ranges)


@dataclass(frozen=True, slots=True)
class SparkBatch(Generic[A]):
    """:class:`chsink.batch.loop.MicroBatch`: the batch's frame, its plan, and how to learn its stream.  ``most_rows``
    bounds the rows of an Arrow batch.
    """

    run: object
    frame: DataFrame
    planned: PlannedBatch
    stream: Callable[[], StreamPlan]
    most_rows: int = MOST_ROWS

    def tasks(self, landing: Landing[A], stream: StreamPlan) -> SparkBatchTasks[A]:
        """See :class:`chsink.batch.loop.MicroBatch`."""
        return SparkBatchTasks(landing.tasks, stream, self.frame, self.planned, self.most_rows)


def exact_reads(landing: Landing[A], stream: StreamPlan) -> SparkReads[A]:
    """Exact reads for a lander that is open for this stream."""
    return SparkReads(landing.tasks, stream)


def _run(
    tasks: Tasks[A], frame: DataFrame, assignments: Sequence[A], planned: Mapping[TopicPartition, OffsetRange]
) -> list[Ack]:
    expected = check_tasks(frame, sum(not r.is_empty for r in planned.values()))
    if _most_tasks(frame, planned.values()) < expected:
        return _by_range(tasks, frame, assignments, planned, expected)
    topics = tuple(sorted({tp.topic for tp in planned}))
    columns, body = columns_of(tasks.fields, frame), tasks.body(assignments, planned)
    if 0 < len(topics) <= NUMBERED_TOPICS:
        rest = [column for name, column in columns.items() if name not in ("topic", "partition")]
        answers = _answers(frame.select(_place(topics), *rest), ExecutorTask(body, topics))
    else:
        answers = _answers(frame.select(*columns.values()), ExecutorTask(body))
    learn(tuple(tasks.fields), ((ack.topic, mean) for ack, mean in answers))
    acks = [ack for ack, _ in answers]
    if len(acks) != expected:
        raise services.ANSWERS_MISSING(expected=expected, answers=len(acks))
    return acks


def _by_range(
    tasks: Tasks[A],
    frame: DataFrame,
    assignments: Sequence[A],
    ranges: Mapping[TopicPartition, OffsetRange],
    expected: int,
) -> list[Ack]:
    """One action over a frame of which each partition reads one range.  Small ranges share tasks."""
    chosen = frame.select(*columns_of(tasks.fields, frame).values(), F.spark_partition_id().alias(PART))
    number = min(expected, _most_tasks(frame, ranges.values()))
    shared = chosen.coalesce(number) if number < expected else chosen
    answers = _answers(shared, ExactTask(tasks.body(assignments, ranges)))
    return _of_ranges([ack for ack, _ in answers], number, expected)


def _place(topics: Sequence[str]) -> Column:
    """Topic and partition as one number (see ``PLACE``); null for a topic that is not planned."""
    partition, number = F.col("partition").cast("long"), F.lit(None).cast("long")
    for at, topic in enumerate(topics):
        number = F.when(F.col("topic") == topic, partition + (at << PLACE_BITS)).otherwise(number)
    return number.alias(PLACE)


def _answers(frame: DataFrame, task: ExecutorTask | ExactTask) -> list[tuple[Ack, int]]:
    """Acknowledgements, and the mean size of a record of each task that knows it."""
    task = replace(task, copied=str(frame.sparkSession.conf.get("spark.speculation", "")).strip().lower() == "true")
    return [(Ack.from_json(row.ack), row.record_bytes) for row in frame.mapInArrow(task, ACK_SCHEMA).collect()]


def _most_tasks(frame: DataFrame, ranges: Collection[OffsetRange]) -> int:
    """What is large is not shared: ranges differ in length, and Spark adds executors for tasks that wait."""
    lengths = [r.length for r in ranges if not r.is_empty]
    total = sum(lengths)
    if total > SMALL_OFFSETS and max(lengths) > SMALL_RANGE:
        return len(lengths)
    return max(TASKS_PER_CORE * frame.sparkSession.sparkContext.defaultParallelism, total // SMALL_OFFSETS)


def _of_ranges(acks: Sequence[Ack], tasks: int, ranges: int) -> list[Ack]:
    """One acknowledgement for each range: those without a record have none of their own.

    A task answers once its input has ended, so when all have answered, every range was read.
    """
    answered = {ack.task for ack in acks}
    seen = [ack for ack in acks if ack.topic_partition is not None or ack.error is not None]
    if len(answered) != tasks or len(seen) > ranges:
        raise services.ANSWERS_MISSING(expected=tasks, answers=len(answered))
    return [*seen, *(Ack(number, None, None) for number in range(len(seen), ranges))]


def columns_of(fields: Sequence[str], frame: DataFrame) -> dict[str, Column]:
    """The columns that the tasks need, by name; ConfigError CHS-607 if the stream lacks one.

    Records without headers have an empty list of them, not null.  After each row, Spark asks how large its Arrow batch
    is, and a list column goes through all nulls since its last list: the cost would grow with the square of the rows.
    """
    missing = [f for f in fields if f not in frame.columns]
    if missing:
        raise errors.STREAM_COLUMN_MISSING(columns=", ".join(missing))
    columns = {name: F.col(name) for name in fields}
    if "headers" in columns and isinstance(kind := frame.schema["headers"].dataType, ArrayType):
        columns["headers"] = F.coalesce(F.col("headers"), F.array().cast(kind)).alias("headers")
    return columns
