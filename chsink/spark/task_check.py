"""Does each task of a micro-batch own one whole topic-partition?

Checked before any piece is sent.  A task with half a chunk would send it under the whole chunk's token, and ClickHouse
would drop the other half as a duplicate.  Without a shuffle, and with as many tasks as there are non-empty planned
ranges, every task holds exactly one range: Kafka's source never puts two ranges into one task, so a split range would
mean more tasks.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from chsink.errors import stream

FIX = (
    "remove minPartitions and maxRecordsPerPartition from the source, and repartition, coalesce, joins with a shuffle, "
    "aggregations, sorts and unions from the stream; do such work in ClickHouse (materialized views)"
)


def check_tasks(frame: DataFrame, expected: int) -> int:
    """The number of tasks, which must be ``expected``; PreflightError CHS-602 if not, or if there is a shuffle."""
    rdd: Any = frame._jdf.queryExecution().toRdd()
    tasks = int(rdd.getNumPartitions())
    if tasks != expected:
        raise stream.TASK_COUNT(tasks=tasks, expected=expected)
    if _has_shuffle(rdd):
        raise stream.SHUFFLED()
    return tasks


def _has_shuffle(rdd: Any) -> bool:
    dependencies = rdd.dependencies()
    for i in range(dependencies.size()):
        dependency = dependencies.apply(i)
        if "Shuffle" in dependency.getClass().getSimpleName() or _has_shuffle(dependency.rdd()):
            return True
    return bool("Coalesced" in rdd.getClass().getSimpleName() or "Shuffled" in rdd.getClass().getSimpleName())
