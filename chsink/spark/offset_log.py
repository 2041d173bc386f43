"""The planned ranges of a micro-batch, read from the checkpoint before the batch runs.

Spark writes ``<checkpoint>/offsets/N`` (the planned end offsets of batch N) before it runs the batch, and runs the same
plan again when ``commits/N`` is missing.  Batch N starts where ``offsets/N-1`` ended; batch 0 at ``sources/0/0``; a
partition that appears later starts at 0.  Read through Hadoop's file system, so object stores work.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from chsink.batch.model import PlannedBatch
from chsink.errors import halts
from chsink.spark.offsets import Offsets, initial_offsets, source_offsets
from statemachine.ranges import OffsetRange


def planned_batch(spark: SparkSession, checkpoint: str, batch_id: int) -> PlannedBatch:
    """What batch ``batch_id`` will read.  HaltError or PreflightError when the checkpoint does not say."""
    ends = source_offsets(_required(spark, f"{checkpoint}/offsets/{batch_id}"))
    initial = _initial(spark, checkpoint)
    starts = initial
    if batch_id > 0:
        starts = source_offsets(_required(spark, f"{checkpoint}/offsets/{batch_id - 1}"))
    ranges = {}
    for tp, end in sorted(ends.items()):
        start = starts.get(tp, 0)
        if end < start:
            raise halts.PLAN_SHRANK(tp=tp, batch=batch_id, end=end, start=start)
        ranges[tp] = OffsetRange(start, end)
    history = frozenset(tp for tp, r in ranges.items() if r.start > initial.get(tp, 0))
    return PlannedBatch(batch_id, ranges, history)


def _initial(spark: SparkSession, checkpoint: str) -> Offsets:
    """Where the source began, by ``sources/0/0``."""
    return initial_offsets(_required(spark, f"{checkpoint}/sources/0/0"))


def _required(spark: SparkSession, path: str) -> str:
    text = read_text(spark, path)
    if text is None:
        raise halts.CHECKPOINT_DAMAGED(path=path)
    return text


def read_text(spark: SparkSession, path: str) -> str | None:
    """A small file as text through Hadoop's file system, None when there is none."""
    jvm: Any = spark._jvm
    hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
    files = hadoop_path.getFileSystem(spark._jsc.hadoopConfiguration())
    if not files.exists(hadoop_path):
        return None
    stream = files.open(hadoop_path)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()
