"""Small inserts by the sink's own client."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from chsink.clickhouse.client import ClickHouseClient

NOBODY = "http://127.0.0.1:9"
"""Where nothing listens."""


def body(rows: int, text: str = "x") -> pa.Buffer:
    """``rows`` rows of two columns, as an Arrow stream."""
    batch = pa.record_batch({"a": pa.array(range(rows), pa.uint64()), "b": [text] * rows})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def insert_into(table: str) -> str:
    """The INSERT statement for such a body."""
    return f"INSERT INTO {table} (`a`, `b`) FORMAT ArrowStream"


def count(client: ClickHouseClient, table: str) -> Any:
    """The table's rows."""
    return client.query(f"SELECT count() FROM {table}")[0][0]
