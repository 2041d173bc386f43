"""The public image of the Schema Registry: what it answers is what chsink expects, a Protobuf schema serialized too."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import timestamp_pb2

from chsink.decode.protobuf.descriptors import file_of, message_at
from chsink.registry.client import Registry
from chsink.registry.settings import SchemaRegistry
from tests.docker.conftest import missing

pytestmark = pytest.mark.docker

KAFKA, REGISTRY = "confluentinc/cp-kafka:7.9.0", "confluentinc/cp-schema-registry:7.9.0"
STARTS_S = 120
ADDRESS = '{"type":"record","name":"Address","namespace":"shop","fields":[{"name":"city","type":"string"}]}'
ORDER = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"to","type":"Address"}]}'


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A registry, with a broker of its own in which it keeps its schemas."""
    if reason := missing():
        pytest.skip(reason)
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.network import Network
    from testcontainers.kafka import KafkaContainer

    with Network() as network:
        kafka: Any = KafkaContainer(KAFKA).with_kraft().with_network(network).with_network_aliases("kafka")
        settings = {
            "SCHEMA_REGISTRY_HOST_NAME": "registry",
            "SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS": "kafka:9092",
        }
        registry = DockerContainer(REGISTRY).with_network(network).with_exposed_ports(8081)
        for name, value in settings.items():
            registry = registry.with_env(name, value)
        with kafka, registry:
            found = f"http://{registry.get_container_host_ip()}:{registry.get_exposed_port(8081)}"
            _await(found)
            yield found


def _await(url: str) -> None:
    deadline = time.monotonic() + STARTS_S
    while True:
        try:
            with SchemaRegistryClient({"url": url, "max.retries": 0}) as client:
                client.get_subjects()
        except Exception:
            assert time.monotonic() < deadline, "the registry does not start"
            time.sleep(1)
        else:
            return


def test_schemas_of_every_kind_are_read_and_unknown_ids_are_known_as_such(url: str) -> None:
    with SchemaRegistryClient({"url": url}) as client:
        client.register_schema("address", Schema(ADDRESS, "AVRO"))
        order = client.register_schema("order", Schema(ORDER, "AVRO", [SchemaReference("shop.Address", "address", 1)]))
        json = client.register_schema("event", Schema('{"type":"object"}', "JSON"))
        serializer = ProtobufSerializer(timestamp_pb2.Timestamp, client)
        value = serializer(timestamp_pb2.Timestamp(seconds=1), SerializationContext("times", MessageField.VALUE))
    registry = Registry(SchemaRegistry(url=(url,)))
    try:
        avro = registry.schema(order)
        assert avro is not None
        assert avro.kind == "AVRO"
        assert [name for name, _ in avro.references] == ["shop.Address"]
        assert getattr(registry.schema(json), "kind", None) == "JSON"
        described = registry.schema(int.from_bytes(value[1:5], "big"))
        assert described is not None
        assert message_at(file_of(base64.b64decode(described.text, validate=True), []), [0])
        assert registry.schema(2_000_000) is None
        assert (registry.versions("address"), registry.versions("nobody")) == (1, None)
    finally:
        registry.close()
