"""How many records Spark's JVM hands to a Python worker at a time, as one Arrow batch.

Spark can bound the bytes of a batch.  Then it adds up the sizes of all columns after each record, which takes longer
than writing the record.  So their number is bounded instead, once it is known how large the records are.

Rules:
- Of records that no batch of this process has read, the bytes are bounded.
- Otherwise a batch has so many records that they take ``EXPECTED_BYTES``, if they are as large as those of the last
  batch that had many.
- Records may suddenly be so much larger that Java's memory does not suffice.  The job then ends, and the next process
  begins with a bound of the bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
MOST_ROWS: Final = 25_000
"""With more, each record takes more time, in Java and in the worker: a batch no longer fits the processor's cache."""
MOST_BYTES: Final = 64 << 20
"""The bound where sizes are not known.  It is Spark's own default."""
EXPECTED_BYTES: Final = 8 << 20
UNBOUNDED: Final = 2**31 - 1
"""With this number, Spark does not add up the sizes."""
MANY: Final = 1_000
"""Records of one task whose sizes say something about the next ones."""

_known: dict[tuple[str, tuple[str, ...]], int] = {}


@dataclass(slots=True)
class RecordSizes:
    """Of the records that a task has read so far."""

    records: int = 0
    bytes: int = 0

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, each counted when it is taken."""
        for batch in batches:
            self.records += batch.num_rows
            self.bytes += batch.nbytes
            yield batch

    @property
    def mean(self) -> int:
        """Bytes of a record, rounded up; 0 for too few records."""
        return -(-self.bytes // self.records) if self.records >= MANY else 0


def bound_rows(spark: SparkSession, topics: Collection[str], fields: tuple[str, ...], most_rows: int) -> None:
    """For the next action, which reads these fields of these topics' records: at most so many rows in a batch."""
    sizes = [_known.get((topic, fields), 0) for topic in topics]
    if not all(sizes):
        bound_bytes(spark, most_rows)
        return
    spark.conf.set(ROWS, str(max(1, min(most_rows, MOST_ROWS, EXPECTED_BYTES // max(sizes, default=1)))))
    spark.conf.set(BYTES, str(UNBOUNDED))


def bound_bytes(spark: SparkSession, most_rows: int = MOST_ROWS) -> None:
    """For the next action, whose records may have any size."""
    spark.conf.set(ROWS, str(min(most_rows, MOST_ROWS)))
    spark.conf.set(BYTES, str(MOST_BYTES))


def learn(fields: tuple[str, ...], means: Iterable[tuple[str | None, int]]) -> None:
    """Remember the largest record size of each topic; ``means`` are those of tasks, by topic."""
    found: dict[str, int] = {}
    for topic, mean in means:
        if topic is not None and mean:
            found[topic] = max(found.get(topic, 0), mean)
    _known.update({(topic, fields): mean for topic, mean in found.items()})
