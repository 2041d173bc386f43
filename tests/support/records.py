"""Ten records as a task gets them from Kafka, at offsets 10 to 19: odd keys, headers, and a tombstone."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

TOMBSTONE = 13


def batch() -> pa.RecordBatch:
    """The records, all of partition 1 of the topic ``t``."""
    n = 10
    return pa.record_batch(
        {
            "topic": pa.array(["t"] * n),
            "partition": pa.array([1] * n, pa.int32()),
            "offset": pa.array(range(10, 20), pa.int64()),
            "key": pa.array([None, *[b"\xff\x00"] * 9], pa.binary()),
            "value": pa.array([None if o == TOMBSTONE else b"\x80%d" % o for o in range(10, 20)], pa.binary()),
            "headers": pa.array(
                [None, None, [{"key": "h", "value": b"\x00"}, {"key": "h", "value": None}], *[None] * 7],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "timestamp": pa.array([datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)] * n, pa.timestamp("us", "UTC")),
            "timestampType": pa.array([0] * n, pa.int32()),
        }
    )
