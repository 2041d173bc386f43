"""Send two orders to the topic json_schema_orders, with a Schema Registry: python produce.py BOOTSTRAP REGISTRY_URL."""

from __future__ import annotations

import sys

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

SCHEMA = '{"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}, "price": {"type": "string"}}}'
ORDERS = [
    {"id": 1, "customer": "Ada", "price": "12.50", "sent": "2026-01-31T12:00:00Z", "tags": ["new", "gift"]},
    {"id": 2, "customer": "Zoë", "price": "7.00", "tags": []},
]


def values(url: str) -> list[bytes]:
    """The records' values."""
    context = SerializationContext("json_schema_orders", MessageField.VALUE)
    with SchemaRegistryClient({"url": url}) as client:
        serializer = JSONSerializer(SCHEMA, client)
        return [serializer(order, context) for order in ORDERS]


if __name__ == "__main__":
    producer = Producer({"bootstrap.servers": sys.argv[1]})
    for value in values(sys.argv[2]):
        producer.produce("json_schema_orders", value)
    producer.flush()
