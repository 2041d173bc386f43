"""Values as Avro, Protobuf, Debezium and CSV write them, and what each type of an Iceberg table holds of them.

``stored`` names every type that a value fits; all other types refuse it.  The tests decode these values; the table in
docs/types.md is drawn from them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from typing import Any

import fastavro
from google.protobuf import descriptor_pb2, duration_pb2, message_factory, text_format, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from pyiceberg.types import IcebergType

from chsink.fields import TextFile
from chsink.formats.settings import Avro, Csv, Debezium, FormatSettings, Protobuf
from tests.support.iceberg_cases import CASES, ID, at, utc

KINDS: Mapping[str, IcebergType] = {str(case.kind): case.kind for case in CASES if case.row}
"""One of each flat type."""


def _moment(*fields: int) -> dict[str, Any]:
    """In both types of instants."""
    return {"timestamp": at(*fields), "timestamptz": utc(*fields)}


@dataclass(frozen=True)
class Source:
    """One value of the format's ``type``.  ``shown`` is the value in the page; ``stored`` what pyiceberg reads back, by
    the types that it fits.
    """

    format: str
    type: str
    shown: str
    settings: FormatSettings
    record: bytes
    stored: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.format} {self.type} {self.shown}"


_BOTH = (
    ("boolean", "bool", True, "true", {"boolean": True, "string": "true"}),
    (
        "int",
        "int32",
        7,
        "7",
        {"int": 7, "long": 7, "float": 7.0, "double": 7.0, "decimal(9, 2)": Decimal("7.00"), "string": "7"},
    ),
    (
        "long",
        "int64",
        2**53 + 1,
        "9007199254740993",
        {
            "long": 9007199254740993,
            "float": 9007199254740992.0,
            "double": 9007199254740992.0,
            **_moment(2255, 6, 5, 23, 47, 34, 740993),
            "string": "9007199254740993",
        },
    ),
    (
        "float",
        "float",
        1.5,
        "1.5",
        {
            "float": 1.5,
            "double": 1.5,
            "decimal(9, 2)": Decimal("1.50"),
            **_moment(1970, 1, 1, 0, 0, 1, 500000),
            "string": "1.5",
        },
    ),
    (
        "double",
        "double",
        0.1,
        "0.1",
        {
            "float": 0.10000000149011612,
            "double": 0.1,
            "decimal(9, 2)": Decimal("0.10"),
            **_moment(1970, 1, 1, 0, 0, 0, 100000),
            "string": "0.1",
        },
    ),
    ("string", "string", "x", "x", {"string": "x"}),
    (
        "string",
        "string",
        "2026-01-31",
        "2026-01-31",
        {"date": date(2026, 1, 31), **_moment(2026, 1, 31), "string": "2026-01-31"},
    ),
    (
        "bytes",
        "bytes",
        bytes(range(4)),
        "00 01 02 03",
        {"string": "\x00\x01\x02\x03", "fixed[4]": b"\x00\x01\x02\x03", "binary": b"\x00\x01\x02\x03"},
    ),
)
"""Types of Avro and of Protobuf with the same value."""

# --- Avro ------------------------------------------------------------------------------------------------------------


def _avro(kind: str, value: Any, shown: str, stored: Mapping[str, Any], **more: Any) -> Source:
    """``more`` goes to the field's type, whose logical type ``kind`` then is, unless it names Avro's own."""
    own = {"type": more.pop("of"), "logicalType": kind, **more} if "of" in more else {"type": kind, **more}
    schema = {"type": "record", "name": "R", "fields": [{"name": "c", "type": own}]}
    buffer = io.BytesIO()
    # what the logical type means is for the reader: the writer gets the plain value
    plain = {"type": "record", "name": "R", "fields": [{"name": "c", "type": {**own, "logicalType": None}}]}
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(plain), {"c": value})
    settings = Avro(type="avro", schema_file=TextFile("r.avsc", json.dumps(schema).encode()))
    return Source("avro", kind, shown, settings, buffer.getvalue(), stored)


_DAY_TICKS = 45_296_500_000
_NOON = time(12, 34, 56, 500000)
_TICKS = 1_767_225_600_123_456
AVRO = (
    *(_avro(kind, *same) for kind, _, *same in _BOTH),
    _avro(
        "fixed",
        b"\xff" * 4,
        "ff ff ff ff",
        {"fixed[4]": b"\xff\xff\xff\xff", "binary": b"\xff\xff\xff\xff"},
        name="F",
        size=4,
    ),
    _avro("enum", "RED", "RED", {"string": "RED"}, name="E", symbols=["RED", "BLUE"]),
    _avro(
        "decimal",
        b"\x30\x39",
        "123.45",
        {
            "float": 123.44999694824219,
            "double": 123.45,
            "decimal(9, 2)": Decimal("123.45"),
            **_moment(1970, 1, 1, 0, 2, 3, 450000),
            "string": "123.45",
        },
        of="bytes",
        precision=18,
        scale=2,
    ),
    _avro("uuid", str(ID), str(ID), {"string": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "uuid": ID}, of="string"),
    _avro(
        "date",
        20484,
        "2026-01-31",
        {"date": date(2026, 1, 31), **_moment(2026, 1, 31), "string": "2026-01-31"},
        of="int",
    ),
    _avro("time-millis", _DAY_TICKS // 1000, "12:34:56.5", {"time": _NOON, "string": "12:34:56.500000"}, of="int"),
    _avro("time-micros", _DAY_TICKS, "12:34:56.5", {"time": _NOON, "string": "12:34:56.500000"}, of="long"),
    _avro(
        "timestamp-millis",
        _TICKS // 1000,
        "2026-01-01 00:00:00.123",
        {**_moment(2026, 1, 1, 0, 0, 0, 123000), "string": "2026-01-01T00:00:00.123000+00:00"},
        of="long",
    ),
    _avro(
        "timestamp-micros",
        _TICKS,
        "2026-01-01 00:00:00.123456",
        {**_moment(2026, 1, 1, 0, 0, 0, 123456), "string": "2026-01-01T00:00:00.123456+00:00"},
        of="long",
    ),
    _avro(
        "timestamp-nanos",
        _TICKS * 1000,
        "2026-01-01 00:00:00.123456000",
        {**_moment(2026, 1, 1, 0, 0, 0, 123456), "string": "2026-01-01T00:00:00.123456+00:00"},
        of="long",
    ),
    _avro(
        "timestamp-nanos",
        _TICKS * 1000 + 1,
        "2026-01-01 00:00:00.123456001",
        {"string": "2026-01-01T00:00:00.123456001+00:00"},
        of="long",
    ),
    _avro(
        "local-timestamp-micros",
        _TICKS,
        "2026-01-01 00:00:00.123456",
        {**_moment(2026, 1, 1, 0, 0, 0, 123456), "string": "2026-01-01T00:00:00.123456"},
        of="long",
    ),
)

# --- Protobuf --------------------------------------------------------------------------------------------------------

_FIELDS = {
    "bool": "TYPE_BOOL",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "uint64": "TYPE_UINT64",
    "float": "TYPE_FLOAT",
    "double": "TYPE_DOUBLE",
    "string": "TYPE_STRING",
    "bytes": "TYPE_BYTES",
    "enum": 'TYPE_ENUM type_name: ".t.Color"',
    "Timestamp": 'TYPE_MESSAGE type_name: ".google.protobuf.Timestamp"',
    "Duration": 'TYPE_MESSAGE type_name: ".google.protobuf.Duration"',
}


def _protobuf(kind: str, value: Any, shown: str, stored: Mapping[str, Any]) -> Source:
    file = text_format.Parse(
        f"""
        name: "r.proto" package: "t" syntax: "proto3"
        dependency: "google/protobuf/timestamp.proto" dependency: "google/protobuf/duration.proto"
        enum_type {{ name: "Color" value {{ name: "NONE" number: 0 }} value {{ name: "RED" number: 1 }} }}
        message_type {{ name: "R" field {{ name: "c" number: 1 type: {_FIELDS[kind]} label: LABEL_OPTIONAL }} }}
        """,
        descriptor_pb2.FileDescriptorProto(),
    )
    known = [descriptor_pb2.FileDescriptorProto() for _ in range(2)]
    timestamp_pb2.DESCRIPTOR.CopyToProto(known[0])
    duration_pb2.DESCRIPTOR.CopyToProto(known[1])
    files, pool = descriptor_pb2.FileDescriptorSet(file=[*known, file]), DescriptorPool()
    for each in files.file:
        pool.Add(each)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("t.R"))
    settings = Protobuf(type="protobuf", schema_file=TextFile("r.desc", files.SerializeToString()), message="t.R")
    return Source("protobuf", kind, shown, settings, message(c=value).SerializeToString(), stored)


PROTOBUF = (
    *(_protobuf(kind, *same) for _, kind, *same in _BOTH),
    _protobuf(
        "uint64",
        2**64 - 1,
        "18446744073709551615",
        {"float": 1.8446744073709552e19, "double": 1.8446744073709552e19, "string": "18446744073709551615"},
    ),
    _protobuf("enum", 1, "RED", {"string": "RED"}),
    _protobuf(
        "Timestamp",
        {"seconds": _TICKS // 10**6, "nanos": 123456000},
        "2026-01-01T00:00:00.123456Z",
        {**_moment(2026, 1, 1, 0, 0, 0, 123456), "string": "2026-01-01T00:00:00.123456+00:00"},
    ),
    _protobuf(
        "Timestamp",
        {"seconds": _TICKS // 10**6, "nanos": 123456001},
        "2026-01-01T00:00:00.123456001Z",
        {"string": "2026-01-01T00:00:00.123456001+00:00"},
    ),
    _protobuf(
        "Duration",
        {"seconds": 7, "nanos": 500_000_000},
        "7.5s",
        {
            "float": 7.5,
            "double": 7.5,
            "decimal(9, 2)": Decimal("7.50"),
            **_moment(1970, 1, 1, 0, 0, 7, 500000),
            "string": "7.500000000",
        },
    ),
)

# --- Debezium --------------------------------------------------------------------------------------------------------

_CONNECT = "org.apache.kafka.connect.data"
_TIME = "io.debezium.time"


def _debezium(kind: str, name: str, value: str, stored: Mapping[str, Any], **parameters: str) -> Source:
    """``value`` is JSON.  Without a ``name``, the type is Connect's own."""
    field: dict[str, Any] = {"type": kind, "field": "c", "optional": True}
    if name:
        field |= {"name": name, "version": 1, "parameters": parameters}
    row = {"type": "struct", "field": "after", "fields": [field]}
    schema = json.dumps({"type": "struct", "fields": [row, {"type": "string", "field": "op"}]})
    record = f'{{"schema": {schema}, "payload": {{"op": "c", "after": {{"c": {value}}}}}}}'.encode()
    said = name.rpartition(".")[2] or kind
    return Source("debezium", said, value, Debezium(type="debezium"), record, stored)


DEBEZIUM = (
    _debezium(
        "int64",
        "",
        "7",
        {"int": 7, "long": 7, "float": 7.0, "double": 7.0, "decimal(9, 2)": Decimal("7.00"), "string": "7"},
    ),
    _debezium(
        "string", "", '"2026-01-31"', {"date": date(2026, 1, 31), **_moment(2026, 1, 31), "string": "2026-01-31"}
    ),
    _debezium(
        "bytes",
        "",
        '"AAECAw=="',
        {"string": "AAECAw==", "fixed[4]": b"\x00\x01\x02\x03", "binary": b"\x00\x01\x02\x03"},
    ),
    _debezium(
        "bytes",
        f"{_CONNECT}.Decimal",
        '"MDk="',
        {
            "float": 123.44999694824219,
            "double": 123.45,
            "decimal(9, 2)": Decimal("123.45"),
            "string": "MDk=",
            "binary": b"09",
        },
        scale="2",
    ),
    _debezium(
        "struct",
        "io.debezium.data.VariableScaleDecimal",
        '{"scale": 2, "value": "MDk="}',
        {
            "float": 123.44999694824219,
            "double": 123.45,
            "decimal(9, 2)": Decimal("123.45"),
            "string": '{"scale": 2, "value": "MDk="}',
        },
    ),
    _debezium(
        "string", "io.debezium.data.Uuid", f'"{ID}"', {"string": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "uuid": ID}
    ),
    _debezium(
        "int32",
        f"{_TIME}.Date",
        "20484",
        {
            "int": 20484,
            "long": 20484,
            "float": 20484.0,
            "double": 20484.0,
            "decimal(9, 2)": Decimal("20484.00"),
            "date": date(2026, 1, 31),
            "string": "20484",
        },
    ),
    _debezium(
        "int64",
        f"{_TIME}.Timestamp",
        "1767225600123",
        {
            "long": 1767225600123,
            "float": 1767225556992.0,
            "double": 1767225600123.0,
            **_moment(2026, 1, 1, 0, 0, 0, 123000),
            "string": "1767225600123",
        },
    ),
    _debezium(
        "int64",
        f"{_TIME}.MicroTimestamp",
        "1767225600123456",
        {
            "long": 1767225600123456,
            "float": 1767225631440896.0,
            "double": 1767225600123456.0,
            **_moment(2026, 1, 1, 0, 0, 0, 123456),
            "string": "1767225600123456",
        },
    ),
    _debezium(
        "int64",
        f"{_TIME}.NanoTimestamp",
        "1767225600123456000",
        {
            "long": 1767225600123456000,
            "float": 1.7672256604319252e18,
            "double": 1.767225600123456e18,
            **_moment(2026, 1, 1, 0, 0, 0, 123456),
            "string": "1767225600123456000",
        },
    ),
    _debezium(
        "int64",
        f"{_TIME}.NanoTimestamp",
        "1767225600123456001",
        {
            "long": 1767225600123456001,
            "float": 1.7672256604319252e18,
            "double": 1.767225600123456e18,
            "string": "1767225600123456001",
        },
    ),
    _debezium(
        "string",
        f"{_TIME}.ZonedTimestamp",
        '"2026-01-31T23:59:59.5Z"',
        {**_moment(2026, 1, 31, 23, 59, 59, 500000), "string": "2026-01-31T23:59:59.5Z"},
    ),
    _debezium(
        "int32",
        f"{_TIME}.Time",
        "45296500",
        {
            "int": 45296500,
            "long": 45296500,
            "float": 45296500.0,
            "double": 45296500.0,
            "time": _NOON,
            "string": "45296500",
        },
    ),
    _debezium(
        "int64",
        f"{_TIME}.MicroTime",
        "45296500000",
        {"long": 45296500000, "float": 45296500736.0, "double": 45296500000.0, "time": _NOON, "string": "45296500000"},
    ),
    _debezium(
        "int64",
        f"{_TIME}.NanoTime",
        "45296500000001",
        {"long": 45296500000001, "float": 45296499294208.0, "double": 45296500000001.0, "string": "45296500000001"},
    ),
    _debezium("string", f"{_TIME}.ZonedTime", '"12:34:56.5Z"', {"time": _NOON, "string": "12:34:56.5Z"}),
    _debezium("string", f"{_TIME}.IsoDate", '"2026-01-31Z"', {"date": date(2026, 1, 31), "string": "2026-01-31Z"}),
)

# --- CSV -------------------------------------------------------------------------------------------------------------


def _csv(text: str, stored: Mapping[str, Any]) -> Source:
    return Source("csv", "field", text, Csv(type="csv", columns=("c",)), text.encode(), stored)


CSV = (
    _csv("7", {"int": 7, "long": 7, "float": 7.0, "double": 7.0, "decimal(9, 2)": Decimal("7.00"), "string": "7"}),
    _csv("1.5", {"float": 1.5, "double": 1.5, "decimal(9, 2)": Decimal("1.50"), "string": "1.5"}),
    _csv("true", {"boolean": True, "string": "true", "binary": b"\xb6\xbb\x9e"}),
    _csv("x", {"string": "x"}),
    _csv("2026-01-31", {"date": date(2026, 1, 31), **_moment(2026, 1, 31), "string": "2026-01-31"}),
    _csv("12:34:56.5", {"time": _NOON, "string": "12:34:56.5"}),
    _csv("2026-01-31T23:59:59.5Z", {**_moment(2026, 1, 31, 23, 59, 59, 500000), "string": "2026-01-31T23:59:59.5Z"}),
    _csv(str(ID), {"string": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "uuid": ID}),
    _csv("AAECAw==", {"string": "AAECAw==", "fixed[4]": b"\x00\x01\x02\x03", "binary": b"\x00\x01\x02\x03"}),
    _csv("", dict.fromkeys(KINDS)),
)
SOURCES = (*AVRO, *PROTOBUF, *DEBEZIUM, *CSV)


def table() -> Iterator[str]:
    """The lines of the page's table."""
    yield "| format | type | value | fits |\n|---|---|---|---|"
    for source in SOURCES:
        fits = ", ".join(f"`{name}`" for name in source.stored) or "no column"
        shown = f"`{source.shown}`" if source.shown else "an empty one"
        yield f"| `{source.format}` | `{source.type}` | {shown} | {fits if source.shown else 'each column, as null'} |"
