"""What runs in Spark's Python worker: one call per task, Arrow batches in, acknowledgements out.

Workers import it by name, so clients and decoders are cached per worker process, not per task.

In a micro-batch, topic and partition of a record come as one number: the same text in every row costs the JVM more than
all other fields of Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.types import LongType, StringType, StructField, StructType

from chsink.batch.model import Ack
from chsink.batch.roles import TaskBody
from chsink.spark.arrow_batches import RecordSizes
from chsink.spark.input_end import to_the_end, worker_input

ACK_SCHEMA: Final = StructType([StructField("ack", StringType()), StructField("record_bytes", LongType())])
"""Not as text, which Spark's JVM would parse three times a batch."""
PART: Final = "_chsink_part"
"""The column with the number of the source's partition that a row of an exact read comes from."""


PLACE: Final = "_chsink_place"
"""The column with topic and partition: the number of the topic, then the partition in ``PLACE_BITS`` bits."""
PLACE_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class ExecutorTask:
    """The function of ``mapInArrow``: the lander's ``body`` over the task's input, pickled once per task.

    ``topics`` are those that ``PLACE`` numbers; none, if the input has topics and partitions as columns.  ``copied``:
    Spark may run copies of the task beside it (``spark.speculation``), which the first attempt does not know of.
    """

    body: TaskBody
    topics: tuple[str, ...] = ()
    copied: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Land what the task holds; yield one row with the acknowledgement and the mean size of a record."""
        sizes = RecordSizes()
        whole = sizes.counted(to_the_end(batches, worker_input()))
        number, again = _number()
        ack = self.body(number, placed(whole, self.topics) if self.topics else whole, again=again or self.copied)
        yield _rows([ack], sizes.mean)


@dataclass(frozen=True, slots=True)
class ExactTask:
    """The same for a task that may read several ranges, one after the other: the ``body`` is called for each of them.

    The column ``PART`` tells where one ends: the next one has begun, or the whole input has ended.
    """

    body: TaskBody
    copied: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Land what the task holds; yield one acknowledgement for each range that has a record, at least one."""
        (number, again), whole = _number(), to_the_end(batches, worker_input())
        land = partial(self.body, number, again=again or self.copied)
        acks = [land(part) for part in by_part(whole)]
        yield _rows(acks or [land(iter(()))])


def placed(batches: Iterable[pa.RecordBatch], topics: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The batches with the columns topic and partition in place of ``PLACE``.  Both are null where that is null."""
    names = pa.array(topics, pa.string())
    for batch in batches:
        place, rest = batch.column(PLACE), batch.drop_columns([PLACE])
        topic = names.take(pc.shift_right(place, PLACE_BITS))
        partition = pc.cast(pc.bit_wise_and(place, 2**PLACE_BITS - 1), pa.int32())
        yield pa.RecordBatch.from_arrays([topic, partition, *rest.columns], ["topic", "partition", *rest.schema.names])


def by_part(batches: Iterable[pa.RecordBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
    """The input cut where the source's partition changes, without that column.  Take each part before the next one."""
    cut = (part for batch in batches for part in _cut(batch))
    for _, part in groupby(cut, key=itemgetter(0)):
        yield (batch for _, batch in part)


def _cut(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    numbers = batch.column(PART).to_numpy()
    rest = batch.drop_columns([PART])
    bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, end in pairwise(bounds):
        if start < end:
            yield int(numbers[start]), rest.slice(start, end - start)


def _number() -> tuple[int, bool]:
    """The task's, and whether another attempt at it was begun before."""
    context = TaskContext.get()
    assert context is not None
    return context.partitionId(), context.attemptNumber() > 0


def _rows(acks: Sequence[Ack], record_bytes: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"ack": [ack.to_json() for ack in acks], "record_bytes": [record_bytes] * len(acks)}
    )
