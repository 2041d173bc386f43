"""What a dead letter holds: the record as Kafka gave it, where it came from, and why it has no row.

Nothing in a dead letter differs from one delivery to the next, so that a delivery that is repeated is the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc

from chsink.driver.deleted_offsets import why_deleted
from chsink.driver.roles import Assignment
from chsink.errors import halts, values
from chsink.ports import BadValue, InsertResult
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey

RECORD_FIELDS = ("key", "value", "headers", "timestamp", "timestampType")
"""The columns of the stream that a dead letter needs, besides topic, partition and offset."""
ERROR_ID = values.BAD_VALUE.id
DELETED_ID = halts.IN_DOUBT_LOST.id
"""The error of a dead letter that lists offsets which Kafka deleted: it has no record."""
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

COLUMNS = {
    "sink": "LowCardinality(String)",
    "table": "LowCardinality(String)",
    "_kafka_topic": "LowCardinality(String)",
    "_kafka_partition": "UInt32",
    "_kafka_offset": "UInt64",
    "timestamp_ms": "Int64",
    "timestamp_type": "Int8",
    "key": "Nullable(String)",
    "value": "Nullable(String)",
    "headers": "Array(Tuple(key String, value Nullable(String)))",
    "column": "String",
    "error_id": "LowCardinality(String)",
    "reason": "String",
}
"""The columns of a table of dead letters.  ``timestamp_type``: 0 for the producer's time, 1 for the broker's, -1 for
none; ``column`` is empty where the whole record is bad.
"""

WINDOW = "\nSETTINGS non_replicated_deduplication_window = 10000"
"""The end of a statement that creates a plain MergeTree which deduplicates."""


class Delivery(Protocol):
    """Where the dead letters of one range go."""

    def deliver(
        self, assignment: Assignment, chunk: int, offsets: OffsetRange, letters: pa.RecordBatch
    ) -> InsertResult:
        """Deliver the dead letters of a chunk of the range.  Returns once they are known to be there, each once,
        whoever delivered them.  Raises ChsinkError otherwise.
        """


def letters_of(records: pa.RecordBatch, dead: Sequence[BadValue], assignment: Assignment) -> pa.RecordBatch:
    """The dead letters for these bad records of a chunk, with the names of ``COLUMNS``."""
    rows = records.take(pa.array([bad.row for bad in dead], pa.int64()))
    n, key = rows.num_rows, assignment.key
    times = rows.column("timestamp")
    milliseconds = pc.cast(times, pa.timestamp("ms", cast("pa.TimestampType", times.type).tz), safe=False)
    columns = {
        "sink": _same(key.sink, n),
        "table": _same(key.table, n),
        "_kafka_topic": _same(key.topic, n),
        "_kafka_partition": pc.cast(rows.column("partition"), pa.uint32()),
        "_kafka_offset": pc.cast(rows.column("offset"), pa.uint64()),
        "timestamp_ms": pc.cast(milliseconds, pa.int64()),
        "timestamp_type": pc.cast(rows.column("timestampType"), pa.int8()),
        "key": _binary(rows.column("key")),
        "value": _binary(rows.column("value")),
        "headers": _headers(rows.column("headers")),
        "column": pa.array([bad.column or "" for bad in dead], pa.string()),
        "error_id": _same(ERROR_ID, n),
        "reason": pa.array([bad.reason for bad in dead], pa.string()),
    }
    assert columns.keys() == COLUMNS.keys()
    return pa.RecordBatch.from_pydict(columns)


def deleted_letter(key: StateKey, run: OffsetRange) -> pa.RecordBatch:
    """The dead letter that lists offsets which Kafka deleted: at the first of them.  A header has the last one."""
    headers = [{"key": "chsink.last_offset", "value": str(run.end - 1).encode()}]
    return without_record(key, [run.start], why_deleted(run), [headers], [(0, -1)], error_id=DELETED_ID)


def without_record(
    key: StateKey,
    offsets: Sequence[int],
    reason: str,
    headers: Sequence[Sequence[object]],
    times: Sequence[tuple[int, int]],
    *,
    error_id: str = "",
) -> pa.RecordBatch:
    """Rows that look like dead letters and hold no record.  ``times``: timestamps in ms and their types."""
    n, nothing = len(offsets), pa.nulls(len(offsets), pa.binary())
    columns = {
        "sink": _same(key.sink, n),
        "table": _same(key.table, n),
        "_kafka_topic": _same(key.topic, n),
        "_kafka_partition": pa.array([key.partition] * n, pa.uint32()),
        "_kafka_offset": pa.array(offsets, pa.uint64()),
        "timestamp_ms": pa.array([ms for ms, _ in times], pa.int64()),
        "timestamp_type": pa.array([kind for _, kind in times], pa.int8()),
        "key": nothing,
        "value": nothing,
        "headers": pa.array([list(each) for each in headers], HEADERS),
        "column": _same("", n),
        "error_id": _same(error_id, n),
        "reason": _same(reason, n),
    }
    assert columns.keys() == COLUMNS.keys()
    return pa.RecordBatch.from_pydict(columns)


def _same(text: str, n: int) -> pa.Array:
    return pa.array([text] * n, pa.string())


def _binary(column: pa.Array) -> pa.Array:
    return column if pa.types.is_binary(column.type) else pc.cast(column, pa.binary())


def _headers(column: pa.Array) -> pa.Array:
    """A record without headers has an empty list."""
    return pa.array([each or [] for each in column.to_pylist()], HEADERS)


def create_table(table: str, engine: str = "MergeTree", window: str = WINDOW) -> str:
    """The statement that creates a table of dead letters.  ``table`` is quoted, and may end with ``ON CLUSTER``."""
    width = max(map(len, COLUMNS))
    columns = ",\n".join(f"    {name:<{width}} {kind}" for name, kind in COLUMNS.items())
    return (
        f"CREATE TABLE {table}\n(\n{columns}\n)\nENGINE = {engine}\n"
        f"ORDER BY (sink, _kafka_topic, _kafka_partition, _kafka_offset){window}"
    )
