"""What runs in Spark's Python worker: one call per task, Arrow batches in, one acknowledgement out.

Workers import it by name, so clients and decoders are cached per worker process, not per task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from chsink.batch.roles import TaskBody
from chsink.spark.input_end import to_the_end, worker_input

ACK_SCHEMA = "ack string"


@dataclass(frozen=True, slots=True)
class ExecutorTask:
    """The function of ``mapInArrow``: the lander's ``body`` over the task's input, pickled once per task."""

    body: TaskBody

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Land what the task holds; yield one row with the acknowledgement."""
        context = TaskContext.get()
        assert context is not None
        ack = self.body(context.partitionId(), to_the_end(batches, worker_input()))
        yield pa.RecordBatch.from_pydict({"ack": [ack.to_json()]})
