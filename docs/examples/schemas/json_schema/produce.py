"""Send two orders to the topic json_schema_orders, with a Schema Registry: python produce.py BOOTSTRAP REGISTRY_URL."""

from __future__ import annotations

import sys

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
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


def stored(error: KafkaError | None, _message: object) -> None:
    """Called for each record."""
    assert error is None, error


if __name__ == "__main__":
    broker, topic = {"bootstrap.servers": sys.argv[1]}, "json_schema_orders"
    admin, producer = AdminClient(broker), Producer(broker)
    if topic not in admin.list_topics().topics:
        admin.create_topics([NewTopic(topic, 4)])[topic].result()
    for value in values(sys.argv[2]):
        producer.produce(topic, value, on_delivery=stored)
    producer.flush()
