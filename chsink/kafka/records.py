"""Messages of the client as a batch in the columns of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Message

SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def record_batch(messages: Sequence[Message[bytes, bytes]]) -> pa.RecordBatch:
    """The messages, none of which is an error, in their order."""
    ms = pa.array([message.timestamp()[1] for message in messages], pa.int64())
    columns = [
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.array([message.topic() for message in messages], pa.string()),
        pa.array([message.partition() for message in messages], pa.int32()),
        pa.array([message.offset() for message in messages], pa.int64()),
        ms.cast(pa.timestamp("ms", tz="UTC")).cast(SCHEMA.field("timestamp").type),
        pa.array([message.timestamp()[0] - 1 for message in messages], pa.int32()),  # Spark's -1 is the client's 0
        pa.array([_headers(message) for message in messages], SCHEMA.field("headers").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _headers(message: Message[bytes, bytes]) -> list[dict[str, Any]] | None:
    """The headers; null if there are none, as in Spark's source."""
    headers = message.headers()
    assert not isinstance(headers, dict), "a list where they are read"
    return [{"key": key, "value": value} for key, value in headers] if headers else None
