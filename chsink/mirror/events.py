"""The control topic's events: five kinds, each with the envelope of its sender.

A message is the bytes C2 01, the length of the writer's schema (two bytes, the higher one first), that schema as JSON,
and the event as Avro.  A reader takes the schema from the message, so fields that either side adds later do no harm.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from io import BytesIO
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.types import Schema as AvroSchema
from pyiceberg.types import StructType

from chsink.mirror.avro_names import with_full_names
from chsink.mirror.schemas import (
    COMMIT_COMPLETE,
    COMMIT_TO_TABLE,
    DATA_COMPLETE,
    DATA_WRITTEN,
    KINDS,
    START_COMMIT,
    UNPARTITIONED,
    data_file_schema,
    envelope,
)

MAGIC = b"\xc2\x01"
MAX_SCHEMA = 0xFFFF
MAX_PART_BYTES = 600_000
"""Limit for the files in one message, as Avro: the brokers' default limit of 1 MB, less room for the schema."""

Fields = dict[str, Any]
"""A record that fastavro reads or writes."""
FileEntry = Mapping[str, Any]
"""One data file, by the names of Iceberg's manifest; maps are lists of ``{"key": …, "value": …}``."""


class DamagedEvent(ValueError):
    """A message of the control topic is not an event."""


@dataclass(frozen=True, slots=True)
class TableReference:
    """A table: the catalog's name, its namespace, its name."""

    catalog: str
    namespace: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class UnitTag:
    """Which part of which unit an event carries: see ``chsink.statemachine.commit.units``.  Offsets are half-open.

    The unit's files bear a name that is made of its id and range, so no two units name one file.  ``timestamp_ms`` is
    the largest of the unit's records, None where it has none.  ``choice`` is the fingerprint of what chose the records,
    None if the table takes all.  ``skipped`` counts the records that were skipped.
    """

    unit: str
    table_uuid: str
    topic: str
    topic_id: str
    partition: int
    start: int
    until: int
    part: int
    parts: int
    spec_id: int
    timestamp_ms: int | None = None
    choice: str | None = None
    skipped: int | None = None

    @property
    def file_id(self) -> UUID:
        """What is in the names of the unit's files, and of no others."""
        range_ = f"{self.topic_id}/{self.topic}/{self.partition}/{self.start}/{self.until}"
        return uuid5(NAMESPACE_OID, f"{self.unit}/{range_}")

    def wrote(self, location: str) -> bool:
        """Whether a file was written for this unit."""
        return str(self.file_id) in location.rpartition("/")[2]


NOW = UUID(int=1)
"""The commit id of a StartCommit that begins no round: it asks the coordinator to begin one at once."""


@dataclass(frozen=True, slots=True)
class StartCommit:
    """A round begins; DataComplete answers it."""

    commit_id: UUID


@dataclass(frozen=True, slots=True)
class DataWritten:
    """Files of one table and spec, whose partition has this type; that is only needed to write an event.  ``tag`` is
    None in an event of another program.
    """

    commit_id: UUID
    table: TableReference
    files: tuple[FileEntry, ...]
    tag: UnitTag | None
    partition: StructType = field(default=UNPARTITIONED, compare=False)
    deletes: tuple[FileEntry, ...] = ()
    """Of another program; chsink writes none."""

    @property
    def own(self) -> bool:
        """Whether every file was written for this unit."""
        return self.tag is not None and all(self.tag.wrote(entry["file_path"]) for entry in self.files)


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """A source partition's answer: the next offset to read and the largest timestamp since the last round, or None."""

    topic: str
    partition: int
    offset: int | None
    timestamp: datetime | None


@dataclass(frozen=True, slots=True)
class DataComplete:
    """The answer to a StartCommit, for all partitions of the sender."""

    commit_id: UUID
    answers: tuple[PartitionAnswer, ...]


@dataclass(frozen=True, slots=True)
class CommitToTable:
    """A table was committed."""

    commit_id: UUID
    table: TableReference
    snapshot_id: int | None
    valid_through: datetime | None


@dataclass(frozen=True, slots=True)
class CommitComplete:
    """All tables of a round were committed."""

    commit_id: UUID
    valid_through: datetime | None


Payload = StartCommit | DataWritten | DataComplete | CommitToTable | CommitComplete


@dataclass(frozen=True, slots=True)
class Event:
    """``group_id`` names the sink: a reader ignores other sinks' events.  ``timestamp`` is UTC, in microseconds."""

    id: UUID
    timestamp: datetime
    group_id: str
    payload: Payload


# --- writing ---------------------------------------------------------------------------------------------------------


def encode(event: Event) -> bytes:
    """The message's value."""
    kind, payload = _written(event.payload)
    record = {
        "id": event.id.bytes,
        "type": kind,
        "timestamp": event.timestamp,
        "group_id": event.group_id,
        "payload": payload,
    }
    schema, text = _schema(kind, _partition_of(event.payload))
    body = BytesIO()
    schemaless_writer(body, schema, record)
    return MAGIC + struct.pack(">H", len(text)) + text + body.getvalue()


def _partition_of(payload: Payload) -> StructType:
    return payload.partition if isinstance(payload, DataWritten) else UNPARTITIONED


@lru_cache(maxsize=256)
def _schema(kind: int, partition: StructType) -> tuple[AvroSchema, bytes]:
    written = envelope(kind, partition)
    text = json.dumps(written, separators=(",", ":")).encode()
    assert len(text) <= MAX_SCHEMA, kind
    return parse_schema(written), text


def _written(payload: Payload) -> tuple[int, Fields]:
    own: Fields = {"commit_id": payload.commit_id.bytes}
    match payload:
        case StartCommit():
            return START_COMMIT, own
        case DataWritten():
            own |= {"table_reference": _reference(payload.table), "data_files": list(payload.files)}
            own["delete_files"] = None
            return DATA_WRITTEN, own | _tag(payload.tag)
        case DataComplete():
            answers = [
                {"topic": a.topic, "partition": a.partition, "offset": a.offset, "timestamp": a.timestamp}
                for a in payload.answers
            ]
            return DATA_COMPLETE, own | {"assignments": answers}
        case CommitToTable():
            own |= {"table_reference": _reference(payload.table), "snapshot_id": payload.snapshot_id}
            return COMMIT_TO_TABLE, own | {"valid_through_ts": payload.valid_through}
        case CommitComplete():
            return COMMIT_COMPLETE, own | {"valid_through_ts": payload.valid_through}


def _reference(table: TableReference) -> Fields:
    return {"catalog": table.catalog, "namespace": list(table.namespace), "name": table.name}


_TAG = {
    "chsink_unit": "unit",
    "chsink_table_uuid": "table_uuid",
    "chsink_topic": "topic",
    "chsink_topic_id": "topic_id",
    "chsink_partition": "partition",
    "chsink_from": "start",
    "chsink_until": "until",
    "chsink_part": "part",
    "chsink_parts": "parts",
    "chsink_spec_id": "spec_id",
    "chsink_timestamp": "timestamp_ms",
    "chsink_choice": "choice",
    "chsink_skipped": "skipped",
}


def _tag(tag: UnitTag | None) -> Fields:
    return {field: None if tag is None else getattr(tag, name) for field, name in _TAG.items()}


def split(
    files: Sequence[FileEntry], partition: StructType = UNPARTITIONED, limit: int = MAX_PART_BYTES
) -> tuple[tuple[FileEntry, ...], ...]:
    """The files in groups that each fit one message; one empty group where there is none."""
    groups: list[list[FileEntry]] = [[]]
    size = 0
    for entry in files:
        mine = _size(entry, partition)
        if groups[-1] and size + mine > limit:
            groups.append([])
            size = 0
        groups[-1].append(entry)
        size += mine
    return tuple(tuple(group) for group in groups)


def _size(entry: FileEntry, partition: StructType) -> int:
    body = BytesIO()
    schemaless_writer(body, _file_schema(partition), dict(entry))
    return len(body.getvalue())


@lru_cache(maxsize=64)
def _file_schema(partition: StructType) -> AvroSchema:
    return parse_schema(data_file_schema("file", partition))


# --- reading ---------------------------------------------------------------------------------------------------------


def decode(message: bytes) -> Event | None:
    """The event; None for a kind that is not known here.  Raises :class:`DamagedEvent`."""
    if len(message) < 4 or message[:2] != MAGIC:
        raise DamagedEvent("the message does not begin with C2 01")
    (length,) = struct.unpack(">H", message[2:4])
    text = message[4 : 4 + length]
    try:
        found: Any = schemaless_reader(BytesIO(message[4 + length :]), _parsed(text), None)
        read = _read(found["type"], found["payload"])
        if read is None:
            return None
        return Event(_uuid(found["id"]), found["timestamp"], found["group_id"], read)
    except Exception as error:  # damaged bytes can make fastavro raise anything
        raise DamagedEvent(f"{type(error).__name__}: {error}") from error


@lru_cache(maxsize=64)
def _parsed(text: bytes) -> AvroSchema:
    return parse_schema(with_full_names(json.loads(text)))


def _read(kind: int, found: Fields) -> Payload | None:
    if kind not in KINDS:
        return None
    commit_id = _uuid(found["commit_id"])
    match kind:
        case 0:
            return StartCommit(commit_id)
        case 1:
            files = tuple(found.get("data_files") or ())
            deletes = tuple(found.get("delete_files") or ())
            return DataWritten(commit_id, _read_reference(found), files, _read_tag(found), deletes=deletes)
        case 2:
            return DataComplete(commit_id, tuple(_answers(found)))
        case 3:
            times = found.get("snapshot_id"), found.get("valid_through_ts")
            return CommitToTable(commit_id, _read_reference(found), *times)
        case _:
            return CommitComplete(commit_id, found.get("valid_through_ts"))


def _uuid(found: UUID | bytes) -> UUID:
    return found if isinstance(found, UUID) else UUID(bytes=found)


def _read_reference(found: Fields) -> TableReference:
    reference = found["table_reference"]
    return TableReference(reference["catalog"], tuple(reference["namespace"]), reference["name"])


def _read_tag(found: Fields) -> UnitTag | None:
    if found.get("chsink_unit") is None:
        return None
    tag: Fields = {name: found.get(field) for field, name in _TAG.items()}
    for name in ("partition", "start", "until", "part", "parts", "spec_id"):
        if not isinstance(tag[name], int):
            raise DamagedEvent(f"{name} is {type(tag[name]).__name__}")
    if not (0 <= tag["start"] <= tag["until"] and 0 <= tag["part"] < tag["parts"]):
        raise DamagedEvent("its offsets or parts are out of order")
    return UnitTag(**tag)


def _answers(found: Fields) -> Iterator[PartitionAnswer]:
    for answer in found.get("assignments") or ():
        yield PartitionAnswer(answer["topic"], answer["partition"], answer.get("offset"), answer.get("timestamp"))
