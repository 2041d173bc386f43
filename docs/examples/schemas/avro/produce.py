"""Send two orders to the topic avro_orders, in Avro's binary encoding: python produce.py BOOTSTRAP."""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import fastavro
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

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


def stored(error: KafkaError | None, _message: object) -> None:
    """Called for each record."""
    assert error is None, error


if __name__ == "__main__":
    broker, topic = {"bootstrap.servers": sys.argv[1]}, "avro_orders"
    admin, producer = AdminClient(broker), Producer(broker)
    if topic not in admin.list_topics().topics:
        admin.create_topics([NewTopic(topic, 4)])[topic].result()
    for value in values():
        producer.produce(topic, value, on_delivery=stored)
    producer.flush()
