"""Structs, lists and maps in every format: the same rows, and the same records that do not fit."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, json_format, message_factory, text_format
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, DecimalType, IntegerType, ListType, MapType, NestedField, StringType, StructType

from chsink.fields import TextFile
from chsink.formats.settings import JSON, Avro, Csv, Debezium, FormatSettings, Json, Protobuf, Raw, String
from chsink.mirror.types import TableColumns

POINT = StructType(
    NestedField(10, "x", IntegerType(), required=True),
    NestedField(11, "price", DecimalType(9, 2)),
    NestedField(12, "day", DateType()),
)
INNER = StructType(NestedField(20, "x", IntegerType(), required=True))
SCHEMA = Schema(
    NestedField(1, "s", POINT),
    NestedField(2, "l", ListType(30, IntegerType(), element_required=True)),
    NestedField(3, "m", MapType(31, StringType(), 32, INNER, value_required=True)),
)
RECORDS: list[dict[str, Any]] = [
    {"s": {"x": 1, "price": "1.25", "day": 1}, "l": [1, 2], "m": {"a": {"x": 5}}},
    {"s": {"x": 2}, "l": [], "m": {}},
    {"s": {"x": 3, "price": "123456789.25"}, "l": [], "m": {}},
    {"s": {"x": 4, "day": 20484}, "l": [-3], "m": {"a": {"x": 1}, "b": {"x": 2}}},
]
ROWS = [
    {"s": {"x": 1, "price": Decimal("1.25"), "day": date(1970, 1, 2)}, "l": [1, 2], "m": [("a", {"x": 5})]},
    {"s": {"x": 2, "price": None, "day": None}, "l": [], "m": []},
    {"s": {"x": 4, "price": None, "day": date(2026, 1, 31)}, "l": [-3], "m": [("a", {"x": 1}), ("b", {"x": 2})]},
]


def decoded(form: FormatSettings, values: list[bytes], schema: Schema = SCHEMA) -> tuple[list[Any], list[Any]]:
    found = TableColumns(schema, form).decode(pa.record_batch([pa.array(values, pa.binary())], names=["value"]))
    return found.batch.to_pylist(), [(bad.row, bad.column, bad.reason) for bad in found.bad]


# --- formats that send the same records --------------------------------------------------------------------------------


def dated(record: Mapping[str, Any]) -> dict[str, Any]:
    """With the day as ISO 8601 has it."""
    point = dict(record["s"])
    if "day" in point:
        point["day"] = date.fromordinal(date(1970, 1, 1).toordinal() + point["day"]).isoformat()
    return {**record, "s": point}


def in_json(record: dict[str, Any]) -> bytes:
    return json.dumps(dated(record)).encode()


def in_an_envelope(record: dict[str, Any]) -> bytes:
    return json.dumps({"payload": {"row": dated(record)}}).encode()


CONNECT = [
    {"type": "int32", "field": "x"},
    {"type": "bytes", "field": "price", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    {"type": "int32", "field": "day", "name": "io.debezium.time.Date"},
]
EVENT = {
    "fields": [{"type": "struct", "field": "after", "fields": [{"type": "struct", "field": "s", "fields": CONNECT}]}]
}
UNSCALED = {"1.25": "fQ==", "123456789.25": "At/cHDU="}


def in_debezium(record: dict[str, Any]) -> bytes:
    point = dict(record["s"])
    if "price" in point:
        point["price"] = UNSCALED[point["price"]]
    return json.dumps({"schema": EVENT, "payload": {"op": "c", "after": {**record, "s": point}}}).encode()


AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {
            "name": "s",
            "type": {
                "type": "record",
                "name": "S",
                "fields": [
                    {"name": "more", "type": "string", "default": "ignored"},
                    {"name": "x", "type": "long"},
                    {
                        "name": "price",
                        "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}],
                        "default": None,
                    },
                    {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
                ],
            },
        },
        {"name": "l", "type": {"type": "array", "items": "long"}},
        {
            "name": "m",
            "type": {
                "type": "map",
                "values": {"type": "record", "name": "M", "fields": [{"name": "x", "type": "int"}]},
            },
        },
    ],
}
SCHEMA_OF_AVRO = fastavro.parse_schema(AVRO)


def in_avro(record: dict[str, Any]) -> bytes:
    point = {"more": "ignored", **record["s"]}
    point |= {"price": Decimal(point["price"])} if "price" in point else {}
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, SCHEMA_OF_AVRO, {**record, "s": point})
    return buffer.getvalue()


PROTO = text_format.Parse(
    """
name: "r.proto" package: "t" syntax: "proto3"
message_type { name: "S"
  field { name: "x" number: 1 type: TYPE_SINT64 label: LABEL_OPTIONAL }
  field { name: "price" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL proto3_optional: true oneof_index: 0 }
  field { name: "day" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL proto3_optional: true oneof_index: 1 }
  oneof_decl { name: "_price" } oneof_decl { name: "_day" } }
message_type { name: "R"
  field { name: "s" number: 1 type: TYPE_MESSAGE type_name: ".t.S" label: LABEL_OPTIONAL }
  field { name: "l" number: 2 type: TYPE_INT32 label: LABEL_REPEATED }
  field { name: "m" number: 3 type: TYPE_MESSAGE type_name: ".t.R.MEntry" label: LABEL_REPEATED }
  nested_type { name: "MEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".t.S" label: LABEL_OPTIONAL } } }
""",
    descriptor_pb2.FileDescriptorProto(),
)
FILES = descriptor_pb2.FileDescriptorSet(file=[PROTO])
MESSAGE = message_factory.GetMessages([PROTO])["t.R"]


def in_protobuf(record: dict[str, Any]) -> bytes:
    return bytes(json_format.ParseDict(dated(record), MESSAGE()).SerializeToString(deterministic=True))


FORMATS: dict[str, tuple[FormatSettings, Callable[[dict[str, Any]], bytes]]] = {
    "json": (JSON, in_json),
    "envelope": (Json(type="json", envelope="$.payload.row"), in_an_envelope),
    "debezium": (Debezium(type="debezium"), in_debezium),
    "avro": (Avro(type="avro", schema_file=TextFile("r.avsc", json.dumps(AVRO).encode())), in_avro),
    "protobuf": (
        Protobuf(type="protobuf", schema_file=TextFile("r.desc", FILES.SerializeToString()), message="t.R"),
        in_protobuf,
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_rows(name: str) -> None:
    """⚑ W-5: exact at each level; a price with too many digits is bad."""
    form, written = FORMATS[name]
    rows, bad = decoded(form, [written(record) for record in RECORDS] * 20)
    assert rows == ROWS * 20
    assert [row for row, _, _ in bad] == [2 + 4 * n for n in range(20)]
    assert {(column, reason) for _, column, reason in bad} == {("s", "out of range for decimal(9, 2)")}


def test_a_schema_of_avro_without_a_field() -> None:
    """A field that a record's schema lacks is null; a required one makes the record bad."""
    fields = [{"name": "x", "type": "long"}]
    for name, expected in (("x", [{"s": {"x": 7, "price": None, "day": None}, "l": None, "m": None}]), ("y", [])):
        kind = {"type": "record", "name": "S", "fields": [{**fields[0], "name": name}]}
        avro = {"type": "record", "name": "R", "fields": [{"name": "s", "type": kind}]}
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, fastavro.parse_schema(avro), {"s": {name: 7}})
        form = Avro(type="avro", schema_file=TextFile("r.avsc", json.dumps(avro).encode()))
        rows, bad = decoded(form, [buffer.getvalue()])
        assert rows == expected and len(bad) == 1 - len(expected)


@pytest.mark.parametrize(
    "form", [Csv(type="csv", columns=("s",), delimiter=";"), String(type="string"), Raw(type="raw")]
)
def test_text_is_no_struct(form: FormatSettings) -> None:
    """As for a Tuple of ClickHouse: a format of flat values fills flat columns."""
    schema = Schema(NestedField(1, "s", POINT))
    rows, bad = decoded(
        form, [b'{"x":1}'.replace(b'"', b'""').join([b'"', b'"']) if isinstance(form, Csv) else b'{"x":1}'], schema
    )
    assert rows == [] and [(row, column) for row, column, _ in bad] == [(0, "s")]
