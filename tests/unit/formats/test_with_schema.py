"""Confluent's wire format, as Confluent's own serializers write it: several schemas in one batch, and what is wrong with it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from chsink.decode.columns import Column
from chsink.errors import PreflightError, UnavailableError
from chsink.fields import TextFile
from chsink.formats.metadata import Columns
from chsink.formats.pipeline import Untouched, fingerprint
from chsink.formats.records import Records
from chsink.formats.settings import Avro, JsonSchema, Protobuf
from chsink.ports import Decoded
from chsink.registry.client import registry_of
from chsink.registry.settings import SchemaRegistry
from tests.support.registry import RegistryService

V1 = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},{"name":"to","type":"string"}]}'
V2 = (
    '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"to","type":["null","string"]},{"name":"id","type":"long"},'
    '{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}}]}'
)
ADDRESS = '{"type":"record","name":"Address","namespace":"shop","fields":[{"name":"city","type":"string"}]}'
SENT = '{"type":"record","name":"Sent","namespace":"shop","fields":[{"name":"id","type":"long"},{"name":"at","type":"shop.Address"}]}'
TABLE = (Column("id", "Int64"), Column("to", "String", "DEFAULT"), Column("price", "Nullable(Decimal(9, 2))"))
CONTEXT = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture(scope="module")
def service() -> Iterator[RegistryService]:
    with RegistryService() as service:
        yield service
        registry_of(settings(service)).close()


def settings(service: RegistryService) -> SchemaRegistry:
    return SchemaRegistry(url=(service.url,), retry_for_s=0)


def forget(service: RegistryService) -> None:
    """As a process that has asked nothing yet."""
    registry_of(settings(service)).close()
    registry_of.cache_clear()


def decoder(service: RegistryService, *columns: Column) -> Records:
    form = Avro(type="avro")
    form.use(settings(service))
    return Records(form, Columns(columns or TABLE, (), "UTC"))


def decode(decoder: Records, values: Sequence[bytes | None]) -> Decoded:
    return decoder.decode(pa.record_batch([pa.array(values, pa.binary())], names=["value"]))


def written(service: RegistryService, schema: Schema | str, *values: Any) -> list[bytes]:
    with SchemaRegistryClient({"url": service.url}) as client:
        serializer = AvroSerializer(client, schema)
        return [serializer(value, CONTEXT) for value in values]


def test_records_of_several_schemas_are_decoded_in_their_order(service: RegistryService) -> None:
    old = written(service, V1, *({"id": at, "to": f"t{at}"} for at in range(0, 100, 2)))
    new = written(service, V2, *({"id": at, "to": None, "price": Decimal("1.50")} for at in range(1, 100, 2)))
    mixed = [value for pair in zip(old, new, strict=True) for value in pair]
    decoded = decode(decoder(service), mixed)
    assert decoded.bad == []
    assert decoded.rows is None
    assert decoded.batch.column("id").to_pylist() == list(range(100))
    assert decoded.batch.column("to").to_pylist()[:3] == [b"t0", None, b"t2"], "null is the column's DEFAULT"
    assert decoded.batch.column("price").to_pylist()[:3] == [None, Decimal("1.50"), None]


def test_a_schema_may_use_another_one(service: RegistryService) -> None:
    with SchemaRegistryClient({"url": service.url}) as client:
        client.register_schema("address", Schema(ADDRESS, "AVRO"))
    schema = Schema(SENT, "AVRO", [SchemaReference("shop.Address", "address", 1)])
    values = written(service, schema, {"id": 1, "at": {"city": "Köln"}})
    decoded = decode(decoder(service, Column("id", "Int8"), Column("at", "Tuple(city String)")), values)
    assert decoded.batch.to_pylist() == [{"id": 1, "at": {"city": "Köln".encode()}}]


def test_what_is_not_of_the_registry_is_bad_and_spoils_no_other(service: RegistryService) -> None:
    [good] = written(service, V1, {"id": 7, "to": "x"})
    with SchemaRegistryClient({"url": service.url}) as client:
        other = client.register_schema("other", Schema('{"type":"object"}', "JSON"))
        text = client.register_schema("text", Schema('"string"', "AVRO"))
    values = [
        good,
        b'{"id":1}',
        None,
        b"",
        b"\0\0\0",
        b"\0\x7f\xff\xff\xff\x02",
        b"\0" + other.to_bytes(4, "big") + b"{}",
        b"\0" + text.to_bytes(4, "big") + b"\x02x",
        good[:-1],
        good + b"\0",
        good,
    ]
    for times in (1, 20):
        decoded = decode(decoder(service), values * times)
        assert decoded.batch.column("id").to_pylist() == [7, 7] * times
        assert {(one.row, one.reason, one.tombstone) for one in decoded.bad if one.row < len(values)} == {
            (1, "it does not begin with a zero byte and a schema id, as records of a Schema Registry do", False),
            (2, "value is null (a tombstone)", True),
            (3, "the value is empty", False),
            (4, "it does not begin with a zero byte and a schema id, as records of a Schema Registry do", False),
            (5, "its schema id 2147483647 is not in the Schema Registry", False),
            (6, f"its schema id {other} belongs to a schema of type JSON", False),
            (7, f"its schema (id {text}) cannot be used: it is not a record", False),
            (8, "the record ends inside a value", False),
            (9, "bytes are left after the last field", False),
        }


def test_the_same_bytes_are_the_same_row_in_every_process(service: RegistryService) -> None:
    """⚑ A replay decodes in another process, after a newer schema came: ids never change, so its rows are the same."""
    values = written(service, V1, {"id": 1, "to": "x"})
    first = decoder(service)
    row = decode(first, values).batch
    values += written(service, V2, {"id": 2, "to": "y", "price": Decimal(1)})
    later = pickle.loads(pickle.dumps(first))
    forget(service)
    assert later.parts() == first.parts()
    assert decode(later, values).batch.slice(0, 1).equals(row)


def test_json_with_a_schema_is_the_json_behind_its_header(service: RegistryService) -> None:
    schema = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"},"to":{"type":"string"}}}'
    with SchemaRegistryClient({"url": service.url}) as client:
        serializer = JSONSerializer(schema, client)
        values = [
            serializer({"id": at, "to": f"t{at}"}, SerializationContext("json", MessageField.VALUE)) for at in range(5)
        ]
    [avro] = written(service, V1, {"id": 7, "to": "x"})
    values = [values[0], None, avro, *values[1:], values[0][:-1], values[0][5:]]
    form = JsonSchema(type="json_schema", fields={"price": "$.cost"})
    form.use(settings(service))
    for some in (values, values[:1]):
        decoded = decode(Records(form, Columns(TABLE, (), "UTC")), some)
        assert decoded.batch.column("id").to_pylist() == list(range(5))[: len(some)]
    decoded = decode(Records(form, Columns(TABLE, (), "UTC")), values)
    assert decoded.rows is not None
    assert decoded.rows.to_pylist() == [0, 3, 4, 5, 6]
    assert [one.row for one in decoded.bad] == [1, 2, 7, 8]
    assert decoded.bad[1].reason.endswith("belongs to a schema of type AVRO")
    assert decoded.bad[2].reason.startswith("not valid JSON at byte")
    assert decode(Records(form, Columns(TABLE, (), "UTC")), []).batch.num_rows == 0


def test_protobuf_messages_say_which_of_their_file_they_are(service: RegistryService) -> None:
    """Confluent's serializer writes the indexes of the message; files may import others."""
    files = {
        "common.proto": 'package: "shop" message_type { name: "Address" field { name: "city" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL } }',
        "order.proto": """package: "shop" dependency: "common.proto"
            message_type { name: "Other" field { name: "id" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL } }
            message_type { name: "Order"
              field { name: "id" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL }
              field { name: "at" number: 2 type: TYPE_MESSAGE type_name: ".shop.Address" label: LABEL_OPTIONAL }
              nested_type { name: "Inner" field { name: "id" number: 3 type: TYPE_INT64 label: LABEL_OPTIONAL } } }""",
    }
    pool = descriptor_pool.DescriptorPool()
    for name, text in files.items():
        pool.Add(text_format.Parse(f'name: "{name}" syntax: "proto3" {text}', descriptor_pb2.FileDescriptorProto()))
    made = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
        for name in ("Other", "Order", "Order.Inner", "Address")
    }
    sent: dict[str, bytes] = {}
    with SchemaRegistryClient({"url": service.url}) as client:
        for name, kind in made.items():
            serializer = ProtobufSerializer(kind, client)
            fields = {"city": "x"} if name == "Address" else {"id": len(sent) + 1}
            sent[name] = serializer(kind(**fields), SerializationContext(name, MessageField.VALUE))
        order = ProtobufSerializer(made["Order"], client)(
            made["Order"](id=9, at=made["Address"](city="Köln")), SerializationContext("Order", MessageField.VALUE)
        )
    [avro] = _avro(service)
    values = [
        *sent.values(),
        order,
        None,
        avro,
        order[:5] + b"\x02\x12" + order[7:],
        order[:5] + b"\x01" + order[7:],
        order[:-1],
    ]
    form = Protobuf(type="protobuf")
    form.use(settings(service))
    decoder = Records(
        form, Columns((Column("id", "Int64", "DEFAULT"), Column("at", "Tuple(city String)", "DEFAULT")), (), "UTC")
    )
    for times in (1, 20):
        decoded = decode(decoder, values * times)
        assert decoded.batch.column("id").to_pylist() == [1, 2, 3, None, 9] * times
        assert decoded.batch.column("at").to_pylist()[:5] == [None, None, None, None, {"city": "Köln".encode()}]
        assert [(one.row, one.reason) for one in decoded.bad if one.row < len(values)] == [
            (5, "value is null (a tombstone)"),
            (6, f"its schema id {int.from_bytes(avro[1:5], 'big')} belongs to a schema of type AVRO"),
            (7, "its schema cannot be used: it has no message at [9]"),
            (8, "it does not say which message of its schema it is"),
            (9, "the record ends inside a value"),
        ]
    plain = descriptor_pb2.FileDescriptorSet()
    for name in files:
        pool.FindFileByName(name).CopyToProto(plain.file.add())
    named = Protobuf(type="protobuf", schema_file=TextFile("o.desc", plain.SerializeToString()), message="shop.Order")
    table = Columns((Column("id", "Int64"), Column("at", "Tuple(city String)")), (), "UTC")
    assert decode(Records(named, table), [order[7:]]).batch.to_pylist() == [{"id": 9, "at": {"city": "Köln".encode()}}]


def _avro(service: RegistryService) -> list[bytes]:
    return written(service, V1, {"id": 7, "to": "x"})


def test_a_registry_that_is_away_says_nothing_about_a_record(service: RegistryService) -> None:
    """⚑ It is an error that a start again ends, not a bad value that is skipped."""
    values = written(service, V1, {"id": 1, "to": "x"})
    forget(service)
    waiting = decoder(service)
    service.down()
    try:
        with pytest.raises(UnavailableError):
            decode(waiting, values)
    finally:
        service.up()
    assert decode(waiting, values).bad == []
    service.down()
    assert decode(waiting, values).bad == [], "a schema that is known is not asked for"
    service.up()


def test_a_changed_schema_file_or_registry_changes_the_fingerprint() -> None:
    """⚑ A range in doubt is then not sent with other rows."""

    def of(content: str, *urls: str) -> str:
        file = TextFile("order.avsc", content.encode()) if content else None
        form = Avro(type="avro", schema_file=file)
        form.use(SchemaRegistry(url=urls))
        return fingerprint(Records(form, Columns(TABLE, (), "UTC")), Untouched("read_committed"), ["t"])

    assert of(V1) == of(V1, "http://a") != of(V2)
    assert of("", "http://a", "http://b") == of("", "http://b", "http://a") != of("", "http://a")


def test_plain_records_have_the_schema_of_a_file(service: RegistryService) -> None:
    values = [value[5:] for value in written(service, V1, {"id": 5, "to": "x"}, {"id": 6, "to": "y"})]
    form = Avro(type="avro", schema_file=TextFile("order.avsc", V1.encode()))
    decoded = decode(Records(form, Columns(TABLE, (), "UTC")), [*values, b"\x02"])
    assert decoded.batch.column("id").to_pylist() == [5, 6]
    assert [one.row for one in decoded.bad] == [2]
    broken = Avro(type="avro", schema_file=TextFile("order.avsc", b'{"type":"record"'))
    with pytest.raises(PreflightError, match=r"schema file order\.avsc cannot be used"):
        decode(Records(broken, Columns(TABLE, (), "UTC")), values)
