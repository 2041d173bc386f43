"""Send two orders to the topic avro_orders, in Avro's binary encoding: python produce.py BOOTSTRAP."""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import fastavro
from confluent_kafka import Producer

SCHEMA = fastavro.schema.load_schema(Path(__file__).with_name("orders.avsc"))
SENT = datetime(2026, 1, 31, 12, tzinfo=UTC)
ORDERS = [
    {"id": 1, "customer": "Ada", "price": Decimal("12.50"), "sent": SENT, "tags": ["new", "gift"]},
    {"id": 2, "customer": "Zoë", "price": Decimal("7.00"), "sent": None, "tags": []},
]


def values(_url: str = "") -> list[bytes]:
    """The records' values."""
    written = []
    for order in ORDERS:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, SCHEMA, order)
        written.append(buffer.getvalue())
    return written


if __name__ == "__main__":
    producer = Producer({"bootstrap.servers": sys.argv[1]})
    for value in values():
        producer.produce("avro_orders", value)
    producer.flush()
