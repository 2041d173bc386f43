"""What the rows of a table say by themselves, where no chain speaks: which records of a topic it holds.

Rows are known by ``_kafka_partition`` and ``_kafka_offset``, and by ``_kafka_topic``.  A table without the last one
counts where one topic alone feeds it.  A row without a value there may be of any record: it was written before the
column was added, or by another program.

The statistics of a file suffice where all of its rows are of one topic-partition and it has as many rows as its offsets
span.  Other files are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import DataScan, FileScanTask, Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.types import PrimitiveType

from chsink.kafka.same_records import I64, Times
from chsink.statemachine.ranges import OffsetRange, TopicPartition

TOPIC, PARTITION, OFFSET, TIMESTAMP = "_kafka_topic", "_kafka_partition", "_kafka_offset", "_kafka_timestamp"
Runs = list[tuple[I64, I64]]
"""Starts and ends of runs of offsets, in pieces."""


def found_row(
    table: Table,
    topics: Collection[str],
    topic: str,
    partitions: Collection[int],
    *,
    branch: str = MAIN_BRANCH,
    unsure: bool = False,
) -> str:
    """A row of these partitions of a topic, in words; "" if there is none, or the table lacks the columns.  ``unsure``:
    a row that may be of any record counts, too.
    """
    if not _tells(table, topics, topic):
        return ""
    scan = _scan(table, topic, partitions, branch, limit=1)
    rows = [] if scan is None else scan.to_arrow().to_pylist()
    found = "".join(f"{topic}-{row[PARTITION]}, offset {row[OFFSET]}" for row in rows)
    return found or ("some rows do not say which records they are" if unsure and _some_silent(table, branch) else "")


def row_ranges(
    table: Table,
    topics: Collection[str],
    topic: str,
    partitions: Collection[int],
    *,
    branch: str = MAIN_BRANCH,
    partly: bool = False,
) -> dict[int, Sequence[OffsetRange]] | None:
    """By partition, the offsets that have a row: ranges that ascend and lie apart.  None if rows do not tell; with
    ``partly``, a row that may be of any record is passed over.
    """
    if not _tells(table, topics, topic) or (not partly and _some_silent(table, branch)):
        return None
    runs: dict[int, Runs] = {partition: [] for partition in partitions}
    scan = _scan(table, topic, partitions, branch, limit=None)
    if scan is not None:
        unread = []
        for task in scan.plan_files():
            told = _told(table, task, topic)
            if told is None:
                unread.append(task)
            elif told[0] in runs:
                runs[told[0]].append((np.array([told[1]]), np.array([told[2]])))
        _read(scan, table, unread, runs)
    return {partition: _merged(found) for partition, found in runs.items()}


def timestamps(table: Table, tp: TopicPartition, within: OffsetRange, *, branch: str = MAIN_BRANCH) -> Times:
    """The offset and the timestamp in ms of each row of a range that has both."""
    scan = _scan(table, tp.topic, [tp.partition], branch, limit=None, columns=(PARTITION, OFFSET, TIMESTAMP))
    if scan is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rows = scan.filter(f"{OFFSET} >= {within.start} and {OFFSET} < {within.end} and {TIMESTAMP} is not null").to_arrow()
    times = pc.cast(rows.column(TIMESTAMP), pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy() // 1000
    return rows.column(OFFSET).cast(pa.int64()).to_numpy(), times


def union(several: Iterable[Sequence[OffsetRange]]) -> Sequence[OffsetRange]:
    """All offsets of these ranges, as ranges that ascend and lie apart."""
    runs = [one for ranges in several for one in ranges]
    return _merged([(np.array([one.start for one in runs]), np.array([one.end for one in runs]))])


def _tells(table: Table, topics: Collection[str], topic: str) -> bool:
    names = {field.name for field in table.schema().fields}
    return {PARTITION, OFFSET} <= names and (TOPIC in names or set(topics) == {topic})


def _some_silent(table: Table, branch: str) -> bool:
    """Whether a row lacks a value in one of the columns.  Files whose statistics count no null are not read."""
    scan = _on(table, branch, limit=1)
    if scan is None:
        return False
    columns = [name for name in (TOPIC, PARTITION, OFFSET) if name in table.schema().column_names]
    if not {field.name for field in scan.projection().fields}.issuperset(columns):
        return scan.count() > 0
    return bool(scan.filter(" or ".join(f"{name} is null" for name in columns)).select(*columns).to_arrow().num_rows)


def _scan(
    table: Table,
    topic: str,
    partitions: Collection[int],
    branch: str,
    *,
    limit: int | None,
    columns: tuple[str, ...] = (PARTITION, OFFSET),
) -> DataScan | None:
    """Of the branch's rows; None if it has none that tell."""
    scan = _on(table, branch, limit)
    names = {field.name for field in scan.projection().fields} if scan else set()
    if scan is None or not names.issuperset(columns):  # the columns are younger than the branch's newest snapshot
        return None
    chosen = f"{PARTITION} in ({', '.join(map(str, sorted(partitions)))})"
    if TOPIC in names:  # no name of a topic has a quote
        chosen += f" and {TOPIC} = '{topic}'"
    return scan.filter(chosen).select(*columns)


def _on(table: Table, branch: str, limit: int | None) -> DataScan | None:
    """Of all rows of the branch, None if it has no snapshot."""
    if table.metadata.snapshot_by_name(branch) is None:
        return None
    scan = table.scan(limit=limit)
    return scan if branch == MAIN_BRANCH else scan.use_ref(branch)


def _told(table: Table, task: FileScanTask, topic: str) -> tuple[int, int, int] | None:
    """The partition, the first offset and the end of a file without a gap; None if its statistics do not say so."""
    if task.delete_files:
        return None
    bounds: dict[str, tuple[Any, Any]] = {}
    for name in (TOPIC, PARTITION, OFFSET):
        field = next((f for f in table.schema().fields if f.name == name), None)
        if field is None:
            continue
        kind = field.field_type
        if not isinstance(kind, PrimitiveType):
            return None
        low, high = ((of or {}).get(field.field_id) for of in (task.file.lower_bounds, task.file.upper_bounds))
        if low is None or high is None or (task.file.null_value_counts or {}).get(field.field_id) != 0:
            return None
        bounds[name] = from_bytes(kind, low), from_bytes(kind, high)
    (first, last), (partition, other) = bounds[OFFSET], bounds[PARTITION]
    # statistics of long texts are cut, and then differ from the text
    if (
        bounds.get(TOPIC, (topic, topic)) != (topic, topic)
        or partition != other
        or last - first + 1 != task.file.record_count
    ):
        return None
    return int(partition), int(first), int(last) + 1


def _read(scan: DataScan, table: Table, tasks: Sequence[FileScanTask], runs: dict[int, Runs]) -> None:
    """Add the rows of these files, one file after the other: pyiceberg reads all that it is given into memory."""
    reading = ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter)
    for found in (batch for task in tasks for batch in reading.to_record_batches([task])):
        batch = found.filter(pc.is_valid(found.column(OFFSET)))
        numbers = pc.cast(batch.column(PARTITION), pa.int64()).to_numpy(zero_copy_only=False)
        offsets: I64 = pc.cast(batch.column(OFFSET), pa.int64()).to_numpy(zero_copy_only=False)
        for number in np.unique(numbers):
            if int(number) in runs:
                runs[int(number)].append(_runs(np.unique(offsets[numbers == number])))


def _runs(offsets: I64) -> tuple[I64, I64]:
    """The runs of ascending offsets."""
    breaks = np.flatnonzero(np.diff(offsets) != 1)
    return offsets[np.r_[0, breaks + 1]][: len(offsets)], offsets[np.r_[breaks, len(offsets) - 1]][: len(offsets)] + 1


def _merged(found: Iterable[tuple[I64, I64]]) -> Sequence[OffsetRange]:
    """The union of runs."""
    pieces = [piece for piece in found if len(piece[0])]
    if not pieces:
        return ()
    starts, ends = (np.concatenate(each) for each in zip(*pieces, strict=True))
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    breaks = np.flatnonzero(starts[1:] > ends[:-1])
    first, last = starts[np.r_[0, breaks + 1]], ends[np.r_[breaks, len(ends) - 1]]
    return [OffsetRange(int(a), int(b)) for a, b in zip(first, last, strict=True)]
