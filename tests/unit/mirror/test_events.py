"""The control topic's messages: bytes that are kept, ids that readers rely on, and schemas of other versions."""

from __future__ import annotations

import hashlib
import json
import struct
from datetime import UTC, datetime
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer

from chsink.mirror.events import (
    MAGIC,
    MAX_PART_BYTES,
    CommitComplete,
    CommitToTable,
    DamagedEvent,
    DataComplete,
    DataWritten,
    Event,
    PartitionAnswer,
    Payload,
    StartCommit,
    TableReference,
    UnitTag,
    decode,
    encode,
    split,
)
from chsink.mirror.schemas import envelope

NOW = datetime(2026, 11, 21, 20, 0, 0, 123456, tzinfo=UTC)
ID, COMMIT = UUID(int=1), UUID(int=2)
TABLE = TableReference("lake", ("shop", "raw"), "orders")
TAG = UnitTag("u-1", "t-1", "orders", "W8Rn", 3, 10, 20, 0, 2, 0, 1_790_000_000_123, skipped=5)
FILE: dict[str, Any] = {
    "content": 0,
    "file_path": "file:/lake/a.parquet",
    "file_format": "PARQUET",
    "spec_id": 0,
    "partition": {},
    "record_count": 9,
    "file_size_in_bytes": 1234,
    "column_sizes": [{"key": 1, "value": 100}],
    "value_counts": [{"key": 1, "value": 9}],
    "null_value_counts": [{"key": 1, "value": 0}],
    "nan_value_counts": [],
    "lower_bounds": [{"key": 1, "value": b"\x01\x00"}],
    "upper_bounds": [{"key": 1, "value": b"\x09\x00"}],
    "key_metadata": None,
    "split_offsets": [4],
    "equality_ids": None,
    "sort_order_id": None,
}
PAYLOAD: dict[str, Payload] = {
    "StartCommit": StartCommit(COMMIT),
    "DataWritten": DataWritten(COMMIT, TABLE, (FILE,), TAG),
    "DataComplete": DataComplete(
        COMMIT, (PartitionAnswer("orders", 3, 20, NOW), PartitionAnswer("orders", 4, None, None))
    ),
    "CommitToTable": CommitToTable(COMMIT, TABLE, 77, NOW),
    "CommitComplete": CommitComplete(COMMIT, None),
}
GOLDEN = {
    "StartCommit": "9dc10c76b7cb39538a2c37abadfac42d9dd4a78bef4ece3a65fbc68695db3095",
    "DataWritten": "8e9ea643aa48f3001db7739be6563ab689956aff6c06cb067633c10e9f8a62cd",
    "DataComplete": "cc7d0f0a6af15fe9b57a537d630002252a196b29ac9c6c4e296ee79219773c1e",
    "CommitToTable": "6ab1c879c2c7d0ac8212ea212265fa1b6c0d0ab64e837a255577440928f8868a",
    "CommitComplete": "34015125b61ca3824fbda6481f893b8dd6a716294c74f41ddac8c43a97a2d03c",
}
"""⚑ SHA-256 of each message: what was written once has to be read by every later version."""


def event(payload: Payload) -> Event:
    return Event(ID, NOW, "chsink-orders", payload)


@pytest.mark.parametrize("name", PAYLOAD)
def test_an_event_survives_its_message(name: str) -> None:
    assert decode(encode(event(PAYLOAD[name]))) == event(PAYLOAD[name])


@pytest.mark.parametrize("name", PAYLOAD)
def test_the_bytes_are_these(name: str) -> None:
    assert hashlib.sha256(encode(event(PAYLOAD[name]))).hexdigest() == GOLDEN[name]


def test_the_smallest_message_byte_for_byte() -> None:
    message = encode(event(StartCommit(COMMIT)))
    length = struct.unpack(">H", message[2:4])[0]
    assert message[:2] == MAGIC == bytes([0xC2, 0x01])
    micros = int(NOW.timestamp()) * 1_000_000 + 123456
    zigzag, varint = micros << 1, b""
    while zigzag >= 0x80:
        varint, zigzag = varint + bytes([zigzag & 0x7F | 0x80]), zigzag >> 7
    body = ID.bytes + b"\x00" + varint + bytes([zigzag]) + bytes([13 << 1]) + b"chsink-orders" + COMMIT.bytes
    assert message[4 + length :] == body
    assert json.loads(message[4 : 4 + length])["name"] == "org.apache.iceberg.connect.events.Event"


@pytest.mark.parametrize("name", PAYLOAD)
def test_fastavro_alone_reads_a_message(name: str) -> None:
    """E-3: nothing but the message is needed."""
    message = encode(event(PAYLOAD[name]))
    length = struct.unpack(">H", message[2:4])[0]
    schema = parse_schema(json.loads(message[4 : 4 + length]))
    found: Any = schemaless_reader(BytesIO(message[4 + length :]), schema, None)
    assert found["type"] == list(PAYLOAD).index(name) and found["payload"]["commit_id"] == COMMIT.bytes


def ids(schema: Any) -> dict[str, int]:
    """Every field's id, by its name below the event."""
    found: dict[str, int] = {}
    if isinstance(schema, list):
        for branch in schema:
            found |= ids(branch)
    elif isinstance(schema, dict) and schema["type"] == "array":
        found = {"[]": schema["element-id"]} if "element-id" in schema else {}
        found |= {f"[].{name}": number for name, number in ids(schema["items"]).items()}
    elif isinstance(schema, dict) and schema["type"] == "record":
        for field in schema["fields"]:
            found[field["name"]] = field["field-id"]
            found |= {f"{field['name']}.{name}".replace(".[]", "[]"): n for name, n in ids(field["type"]).items()}
    return found


def payload(kind: int) -> Any:
    return next(field["type"] for field in envelope(kind)["fields"] if field["name"] == "payload")


def test_the_ids_are_those_of_the_peer() -> None:
    """E-4 … E-8."""
    assert {k: v for k, v in ids(envelope(0)).items() if "." not in k} == {
        "id": 10500,
        "type": 10501,
        "timestamp": 10502,
        "group_id": 10503,
        "payload": 10504,
    }
    assert ids(payload(0)) == {"commit_id": 10200}
    written = ids(payload(1))
    assert written["commit_id"] == 10300
    assert (written["data_files"], written["data_files[]"]) == (10302, 10303)
    assert (written["delete_files"], written["delete_files[]"]) == (10304, 10305)
    assert written["table_reference"] == 10301
    reference = {k.removeprefix("table_reference."): v for k, v in written.items() if k.startswith("table_reference.")}
    assert reference == {"catalog": 10600, "namespace": 10601, "namespace[]": 10602, "name": 10603}
    assert written["data_files[].file_path"] == 100 and written["data_files[].upper_bounds[].value"] == 130
    assert {v for k, v in written.items() if k.startswith("chsink_")} == set(range(19300, 19313))
    assert ids(payload(2)) == {
        "commit_id": 10100,
        "assignments": 10101,
        "assignments[]": 10102,
        "assignments[].topic": 10700,
        "assignments[].partition": 10701,
        "assignments[].offset": 10702,
        "assignments[].timestamp": 10703,
    }
    table = {k: v for k, v in ids(payload(3)).items() if "." not in k}
    assert table == {"commit_id": 10400, "table_reference": 10401, "snapshot_id": 10402, "valid_through_ts": 10403}
    assert ids(payload(4)) == {"commit_id": 10000, "valid_through_ts": 10001}


def framed(schema: Any, record: Any) -> bytes:
    text, body = json.dumps(schema).encode(), BytesIO()
    schemaless_writer(body, parse_schema(schema), record)
    return MAGIC + struct.pack(">H", len(text)) + text + body.getvalue()


def test_a_schema_with_one_field_more_and_one_optional_less_is_read() -> None:
    """⚑ E-9: the peer knows nothing of our fields, and may have later ones."""
    schema = json.loads(json.dumps(envelope(1)))
    payload = next(f for f in schema["fields"] if f["name"] == "payload")["type"]
    payload["fields"] = [
        f for f in payload["fields"] if not f["name"].startswith("chsink_") and f["name"] != "delete_files"
    ]
    payload["fields"].append({"name": "later", "type": "int", "field-id": 10399})
    reference = next(f for f in payload["fields"] if f["name"] == "table_reference")["type"]
    reference["fields"].append({"name": "uuid", "type": ["null", "string"], "default": None, "field-id": 10604})
    written = {"catalog": "lake", "namespace": ["shop", "raw"], "name": "orders", "uuid": "x"}
    record = {"commit_id": COMMIT.bytes, "table_reference": written, "data_files": [FILE], "later": 7}
    message = framed(
        schema, {"id": ID.bytes, "type": 1, "timestamp": NOW, "group_id": "chsink-orders", "payload": record}
    )
    assert decode(message) == event(DataWritten(COMMIT, TABLE, (FILE,), None))


def test_a_later_kind_is_passed_over() -> None:
    schema = json.loads(json.dumps(envelope(0)))
    record = {"id": ID.bytes, "type": 9, "timestamp": NOW, "group_id": "g", "payload": {"commit_id": COMMIT.bytes}}
    assert decode(framed(schema, record)) is None


@pytest.mark.parametrize("message", [b"", b"{}", b"\xc2\x01\x00", b"\xc2\x01\xff\xff{}", b"\xc2\x01\x00\x02{}"])
def test_what_is_no_event_is_refused(message: bytes) -> None:
    with pytest.raises(DamagedEvent):
        decode(message)


def test_a_message_that_was_cut_is_refused() -> None:
    with pytest.raises(DamagedEvent):
        decode(encode(event(PAYLOAD["DataWritten"]))[:-4])


@pytest.mark.soak
def test_ten_thousand_files_fit_messages_of_default_size() -> None:
    """E-11: no broker setting is asked for."""
    columns = [{"key": n, "value": b"12345678"} for n in range(19)]
    counts = [{"key": n, "value": 100_000} for n in range(19)]
    bounds = {"lower_bounds": columns, "upper_bounds": columns}
    maps = {"column_sizes": counts, "value_counts": counts, "null_value_counts": counts}
    files = [{**FILE, "file_path": f"file:/lake/{n:0100}.parquet", **bounds, **maps} for n in range(10_000)]
    groups = split(files)
    assert sum(len(group) for group in groups) == 10_000 and [f for group in groups for f in group] == files
    sizes = [len(encode(event(DataWritten(COMMIT, TABLE, group, TAG)))) for group in groups]
    assert len(groups) > 5 and max(sizes) < MAX_PART_BYTES + 10_000 < 1_000_000


def test_a_unit_without_files_has_one_part() -> None:
    assert split([]) == ((),)


def test_names_as_java_writes_them() -> None:
    """⚑ Its types lie in no namespace, and it refers to them from inside one: no event of the connector was readable."""
    id_ = {"type": "fixed", "name": "uuid_fixed", "namespace": "", "size": 16, "logicalType": "uuid"}
    payload = {"type": "record", "name": "StartCommit", "fields": [{"name": "commit_id", "type": "uuid_fixed"}]}
    fields = [
        {"name": "id", "type": id_},
        {"name": "type", "type": "int"},
        {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "group_id", "type": "string"},
        {"name": "payload", "type": payload},
    ]
    schema = {"type": "record", "name": "Event", "namespace": "org.apache.iceberg.connect.events", "fields": fields}
    text = json.dumps(schema).encode()
    first, second = UUID(int=1), UUID(int=2)
    body = first.bytes + b"\x00" + b"\x80\x89\x7a" + b"\x04cg" + second.bytes
    event = decode(b"\xc2\x01" + len(text).to_bytes(2, "big") + text + body)
    assert event is not None and (event.id, event.group_id, event.payload) == (first, "cg", StartCommit(second))
