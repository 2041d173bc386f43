"""Avro, Protobuf and JSON with schemas, in one job on real services: what Confluent's serializers write lands once.

One batch holds records of several schemas, and records that no schema reads.  The registry goes away while a batch
runs, and is restarted while the next start waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from pyspark.sql import SparkSession

from chsink.errors import UnavailableError
from tests.integration.job.conftest import MakeJob
from tests.support.registry import RegistryService

if TYPE_CHECKING:
    from chsink.embedded.stack import Stack

pytestmark = pytest.mark.slow

FORMATS = ("avro", "protobuf", "json_schema")
COLUMNS = """id Int64, name String, price Nullable(Decimal(9, 2)), tags Array(String),
    price_text Nullable(String) ALIAS toString(price)"""
SHOWN = ("id", "name", "price_text", "tags")
Row = tuple[Any, ...]

AVRO = [
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"name","type":"string"},'
    f'{{"name":"tags","type":{{"type":"array","items":"string"}}}}{more}]}}'
    for more in (
        "",
        ',{"name":"price","type":["null",{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}]}',
        ',{"name":"price","type":"string"},{"name":"unused","type":"boolean"}',
    )
]
PROTO = """name: "order%d.proto" package: "v%d" syntax: "proto3" message_type { name: "Order"
  field { name: "tags" number: 1 type: TYPE_STRING label: LABEL_REPEATED }
  field { name: "id" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "name" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL }
  %s }"""
PRICE = 'field { name: "price" number: 4 type: TYPE_STRING label: LABEL_OPTIONAL }'
JSON = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}%s}}'


@pytest.fixture
def registry() -> Iterator[RegistryService]:
    with RegistryService() as service:
        yield service


def proto(version: int) -> Any:
    pool = descriptor_pool.DescriptorPool()
    text = PROTO % (version, version, PRICE if version > 1 else "")
    pool.Add(text_format.Parse(text, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v{version}.Order"))


def records(registry: RegistryService, topic: str, form: str, version: int, ids: range) -> Iterator[tuple[bytes, Row]]:
    """What a serializer writes by a version of the format's schema, and the rows that it becomes."""
    with SchemaRegistryClient({"url": registry.url}) as client:
        write, wrap = serializer(client, form, version)
        for one in ids:
            price = None if version == 1 else Decimal(one) / 4 + Decimal("0.25")
            value: dict[str, Any] = {"id": one, "name": f"{form} {one}", "tags": ["a"] * (one % 3)}
            if version > 1:
                value["price"] = price if form == "avro" and version == 2 else str(price)
            if form == "avro" and version == 3:
                value["unused"] = True
            row = (one, value["name"], None if price is None else f"{price:f}".rstrip("0").rstrip("."), value["tags"])
            yield write(wrap(value), SerializationContext(topic, MessageField.VALUE)), row


def serializer(
    client: SchemaRegistryClient, form: str, version: int
) -> tuple[Callable[..., bytes], Callable[..., Any]]:
    if form == "avro":
        return AvroSerializer(client, AVRO[version - 1]), dict
    if form == "protobuf":
        kind = proto(version)
        return ProtobufSerializer(kind, client), lambda value: kind(**value)
    return JSONSerializer(JSON % (',"name":{"type":"string"}' * (version > 1)), client), dict


def test_records_with_schemas_land_once(
    services: Stack, make_job: MakeJob, registry: RegistryService, spark: SparkSession
) -> None:
    job = make_job(partitions=1, table=False)
    topics = {form: f"{job.name}-{form}" for form in FORMATS}
    for topic in topics.values():
        services.kafka.create_topic(topic, 1)
        job.make_table(topic, columns=COLUMNS)
    expected: dict[str, dict[int, Row]] = {topic: {} for topic in topics.values()}

    def send(form: str, given: list[tuple[bytes, Row | None]]) -> None:
        first, _ = job.send_values(0, [value for value, _ in given], topic=topics[form])
        for offset, (_, row) in enumerate(given, first):
            if row is not None:
                expected[topics[form]][offset] = row

    def check() -> None:
        for topic, rows in expected.items():
            job.check(topic, lambda record, rows=rows: [rows[record.offset]] if record.offset in rows else [], SHOWN)  # type: ignore[misc]

    overrides = {
        "route": [{"topic": topics[form], "table": job.tables[topics[form]], "format": form} for form in FORMATS],
        "schema_registry.url": registry.url,
        "schema_registry.retry_for_s": 0,
        "errors.on_bad_value": "skip",
    }
    for form in FORMATS:
        old, new = (
            records(registry, topics[form], form, 1, range(12)),
            records(registry, topics[form], form, 2, range(100, 112)),
        )
        mixed: list[tuple[bytes, Row | None]] = [one for pair in zip(old, new, strict=True) for one in pair]
        good = mixed[0][0]
        send(form, [*mixed[:9], (b"no header", None), (b"\0\0\x0f\xff\xff\x02", None), (good[:-1], None), *mixed[9:]])
    job.drain(spark, overrides)
    check()
    skipped = {p["topic"]: p["skipped"] for p in job.status(overrides)["partitions"]}
    assert skipped == dict.fromkeys(topics.values(), 3)

    for form in FORMATS:
        send(form, list(records(registry, topics[form], form, 3, range(200, 220))))
    registry.broken, registry.where = 503, "/schemas/"
    with pytest.raises(UnavailableError, match="the Schema Registry at .* answered with HTTP status 503"):
        job.drain(spark, overrides)
    assert any(phase == "BEFORE" for topic in topics.values() for phase, _, _ in job.phases(topic).values())

    registry.broken = 0
    registry.down()
    back = threading.Timer(2, registry.up)
    back.start()
    job.drain(spark, overrides | {"schema_registry.retry_for_s": 60})
    back.join()
    check()
    assert {p["skipped"] for p in job.status(overrides)["partitions"]} == {3}
