"""Does each task of a micro-batch own one whole topic-partition?

Checked before any piece is sent.  A task with half a chunk would send it under the whole chunk's token, and ClickHouse
would drop the other half as a duplicate.  Without a shuffle, and with as many tasks as there are non-empty planned
ranges, every task holds exactly one range: Kafka's source never puts two ranges into one task, so a split range would
mean more tasks.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from chsink.errors import stream
from chsink.spark.java import JavaObject
from chsink.statemachine.ranges import OffsetRange, TopicPartition


def check_tasks(frame: DataFrame, expected: int) -> int:
    """The number of tasks, which must be ``expected``; PreflightError CHS-602 if not, or if there is a shuffle."""
    rdd: JavaObject = frame._jdf.queryExecution().toRdd()
    tasks = int(rdd.getNumPartitions())
    if tasks != expected:
        raise stream.TASK_COUNT(tasks=tasks, expected=expected)
    if _has_shuffle(rdd):
        raise stream.SHUFFLED()
    return tasks


def check_ranges(frame: DataFrame, said: Mapping[TopicPartition, OffsetRange]) -> None:
    """ConfigError CHS-608 unless the frame reads exactly these ranges from Kafka, as its own input partitions say.

    Offsets beyond what the frame reads would be taken for offsets without a record, and never be read.
    """
    reads = _input_ranges(frame._jdf.queryExecution().toRdd())
    wanted = {tp: r for tp, r in said.items() if not r.is_empty}
    for tp in sorted(wanted.keys() | reads.keys()):
        if wanted.get(tp) != reads.get(tp):
            raise stream.RANGES_DIFFER(tp=tp, said=wanted.get(tp, "nothing"), reads=reads.get(tp, "nothing"))


def _input_ranges(rdd: JavaObject) -> dict[TopicPartition, OffsetRange]:
    """What the Kafka input partitions below an RDD read; nothing where its records are not read from Kafka."""
    found: dict[TopicPartition, OffsetRange] = {}
    dependencies = rdd.dependencies()
    for i in range(dependencies.size()):
        found |= _input_ranges(dependencies.apply(i).rdd())
    if dependencies.size() == 0:
        for partition in rdd.partitions():
            for part in _inputs(partition):
                at = part.offsetRange()
                if min(at.fromOffset(), at.untilOffset()) < 0:  # a batch read to "latest": known to its tasks only
                    raise stream.RANGES_UNKNOWN()
                tp = TopicPartition(at.topicPartition().topic(), at.topicPartition().partition())
                found[tp] = OffsetRange(at.fromOffset(), at.untilOffset())
    return found


def _inputs(partition: JavaObject) -> list[JavaObject]:
    """The Kafka ranges of a source's partition: a stream's are wrapped, a batch read's are not."""
    kind = partition.getClass().getSimpleName()
    if kind == "KafkaSourceRDDPartition":
        return [partition]
    if kind != "DataSourceRDDPartition" or partition.inputPartition().isEmpty():
        return []
    part = partition.inputPartition().get()
    return [part] if part.getClass().getSimpleName() == "KafkaBatchInputPartition" else []


def _has_shuffle(rdd: JavaObject) -> bool:
    dependencies = rdd.dependencies()
    for i in range(dependencies.size()):
        dependency = dependencies.apply(i)
        if "Shuffle" in dependency.getClass().getSimpleName() or _has_shuffle(dependency.rdd()):
            return True
    return bool("Coalesced" in rdd.getClass().getSimpleName() or "Shuffled" in rdd.getClass().getSimpleName())
