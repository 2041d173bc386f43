"""Topic and partition of a record travel as one number; tasks see the columns."""

from __future__ import annotations

import pyarrow as pa

from chsink.spark.executor import PLACE, PLACE_BITS, placed

SCHEMA = pa.schema({PLACE: pa.int64(), "offset": pa.int64()})
TOPICS = ("orders", "payments")


def batch(*rows: tuple[int | None, int]) -> pa.RecordBatch:
    """Rows of (place, offset)."""
    return pa.RecordBatch.from_pydict({PLACE: [p for p, _ in rows], "offset": [o for _, o in rows]}, schema=SCHEMA)


def test_each_row_gets_its_topic_and_partition() -> None:
    second = 1 << PLACE_BITS
    batches = [batch((7, 5), (7, 6)), batch(), batch((second | 3, 1), (2**31 - 1, 2), (None, 9))]

    found = pa.Table.from_batches(placed(batches, TOPICS))

    assert found.schema == pa.schema({"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()})
    assert found.to_pydict() == {
        "topic": ["orders", "orders", "payments", "orders", None],
        "partition": [7, 7, 3, 2**31 - 1, None],
        "offset": [5, 6, 1, 2, 9],
    }
