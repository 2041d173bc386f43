"""What the rows of a table say by themselves, where no chain speaks: which records of a topic it holds.

Rows are known by ``_kafka_partition`` and ``_kafka_offset``, and by ``_kafka_topic``.  A table without the last one
counts where one topic alone feeds it.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import DataScan, Table

TOPIC, PARTITION, OFFSET = "_kafka_topic", "_kafka_partition", "_kafka_offset"


def found_row(table: Table, head: int | None, topics: Collection[str], topic: str, partitions: Collection[int]) -> str:
    """A row of these partitions of a topic in a snapshot, in words; "" if there is none, or rows do not tell."""
    scan = _scan(table, head, topics, topic, partitions, limit=1)
    rows = [] if scan is None else scan.to_arrow().to_pylist()
    return "".join(f"{topic}-{row[PARTITION]}, offset {row[OFFSET]}" for row in rows)


def rows_until(table: Table, head: int | None, topics: Collection[str], topic: str, partition: int) -> int | None:
    """The offset behind the last row of a topic-partition; None if there is none, or rows do not tell."""
    scan = _scan(table, head, topics, topic, [partition], limit=None)
    until: int | None = None
    for batch in [] if scan is None else scan.to_arrow_batch_reader():
        last: int | None = pc.max(pc.cast(batch.column(OFFSET), pa.int64())).as_py()
        if last is not None:
            until = max(last + 1, until or 0)
    return until


def _scan(
    table: Table,
    head: int | None,
    topics: Collection[str],
    topic: str,
    partitions: Collection[int],
    *,
    limit: int | None,
) -> DataScan | None:
    """None if the table has no rows, or its rows do not tell."""
    scan = table.scan(snapshot_id=head, limit=limit)
    names = {field.name for field in scan.projection().fields}
    if head is None or not {PARTITION, OFFSET} <= names:
        return None
    if TOPIC not in names and set(topics) != {topic}:
        return None
    chosen = f"{PARTITION} in ({', '.join(map(str, sorted(partitions)))})"
    if TOPIC in names:  # no name of a topic has a quote
        chosen += f" and {TOPIC} = '{topic}'"
    return scan.filter(chosen).select(PARTITION, OFFSET)
