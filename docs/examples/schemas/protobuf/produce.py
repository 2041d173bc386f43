"""Send two orders to the topic protobuf_orders, as Protobuf messages: python produce.py BOOTSTRAP."""

from __future__ import annotations

import sys
from pathlib import Path

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from google.protobuf import descriptor_pb2, message_factory

FILES = descriptor_pb2.FileDescriptorSet.FromString(Path(__file__).with_name("orders.desc").read_bytes())
Order = message_factory.GetMessages(FILES.file)["shop.Order"]
ORDERS = [
    {"id": 1, "customer": "Ada", "price": "12.50", "sent": {"seconds": 1_769_860_800}, "tags": ["new", "gift"]},
    {"id": 2, "customer": "Zoë", "price": "7.00"},
]


def values(_url: str = "") -> list[bytes]:
    """The records' values."""
    return [Order(**order).SerializeToString() for order in ORDERS]


def stored(error: KafkaError | None, _message: object) -> None:
    """Called for each record."""
    assert error is None, error


if __name__ == "__main__":
    broker, topic = {"bootstrap.servers": sys.argv[1]}, "protobuf_orders"
    admin, producer = AdminClient(broker), Producer(broker)
    if topic not in admin.list_topics().topics:
        admin.create_topics([NewTopic(topic, 4)])[topic].result()
    for value in values():
        producer.produce(topic, value, on_delivery=stored)
    producer.flush()
