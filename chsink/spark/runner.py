"""Has assignments carried out by Spark: one action over the micro-batch, or over an exact Kafka read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from chsink.batch.model import Ack, Assignment, PlannedBatch
from chsink.batch.pipeline import Pipeline
from chsink.errors import ConfigError, UnavailableError
from chsink.spark.executor import ACK_SCHEMA, ExecutorTask
from chsink.spark.lineage import check_tasks
from chsink.spark.stream_plan import StreamPlan
from statemachine.ranges import OffsetRange, TopicPartition

MakeTask = Callable[[Sequence[Assignment], Mapping[TopicPartition, OffsetRange]], ExecutorTask]


@dataclass(slots=True)
class SparkRunner:
    """:class:`chsink.batch.roles.PieceRunner`.  ``frame`` is the micro-batch, None before the first one."""

    make_task: MakeTask
    pipelines: Mapping[str, Pipeline]
    stream: StreamPlan
    frame: DataFrame | None = None

    def from_batch(self, batch: PlannedBatch, assignments: Sequence[Assignment]) -> list[Ack]:
        """One action over the micro-batch at hand."""
        assert self.frame is not None
        return self._run(self.frame, assignments, batch.ranges)

    def from_kafka(self, assignments: Sequence[Assignment]) -> list[Ack]:
        """One action over an exact read of the assignments' ranges."""
        ranges = {a.key.topic_partition: a.record.range for a in assignments}
        return self._run(self.stream.exact(ranges), assignments, ranges)

    def _run(
        self, frame: DataFrame, assignments: Sequence[Assignment], planned: Mapping[TopicPartition, OffsetRange]
    ) -> list[Ack]:
        tasks = check_tasks(frame, sum(not r.is_empty for r in planned.values()))
        acked = frame.select(*self._fields(frame)).mapInArrow(self.make_task(assignments, planned), ACK_SCHEMA)
        acks = [Ack.from_json(row.ack) for row in acked.collect()]
        if len(acks) != tasks:
            raise UnavailableError(
                "CHS-706",
                f"{tasks} tasks gave {len(acks)} answers",
                "start again: the batch is in doubt and will be settled",
            )
        return acks

    def _fields(self, frame: DataFrame) -> list[str]:
        """The columns that the tasks need, of all topics together."""
        fields = list(dict.fromkeys(f for p in self.pipelines.values() for f in p.record_fields))
        missing = [f for f in fields if f not in frame.columns]
        if missing:
            raise ConfigError(
                "CHS-607",
                f"the stream has no column {', '.join(missing)}",
                "keep topic, partition and offset through the transform, and give every column that the table needs"
                + (" (for _kafka_headers, set includeHeaders on the source)" if "headers" in missing else ""),
            )
        return fields
