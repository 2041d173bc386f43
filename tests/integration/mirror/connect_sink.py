"""A stand-in for Iceberg's Kafka Connect sink, with its rules: what it writes to Kafka and to tables, and when.

The real one runs in ``test_real_connector.py``.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pyiceberg.manifest import DataFile

from chsink.mirror.control import Names
from chsink.mirror.events import (
    DataComplete,
    DataWritten,
    Event,
    PartitionAnswer,
    Payload,
    TableReference,
    decode,
    encode,
)
from chsink.mirror.files import DataFiles, data_file, entry_of
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.integration.mirror.bench import Bench
from tests.support.kafka import await_marker, read_all

CATALOG = "iceberg"
"""Its name for the catalog, which may differ from the mirror's."""


@dataclass
class ConnectSink:
    """One connector, on the topics and tables of a bench."""

    bench: Bench
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    control_topic: str = ""

    def __post_init__(self) -> None:
        self.group = f"connect-{self.name}"
        if not self.control_topic:
            self.control_topic = f"control.iceberg-{self.name}"
            self.bench.kafka.create_topic(self.control_topic, 2)
        self.read: dict[int, int] = {}

    @property
    def names(self) -> Names:
        return replace(self.bench.names, topic=self.control_topic, group=self.group)

    @property
    def key(self) -> str:
        return f"kafka.connect.offsets.{self.control_topic}.{self.group}"

    def write(
        self, start: int, end: int, partition: int = 0, tables: Sequence[str] = (), *, move: bool = True
    ) -> list[str]:
        """A worker's answer to StartCommit: files, events and source offsets in one transaction."""
        commit, events, written = uuid.uuid4(), [], []
        for table in tables or self.bench.tables:
            files = self._files(table, OffsetRange(start, end), partition)
            written += [file.file_path for file in files]
            spec = self.bench.catalog().load_table(f"shop.{table}").spec().spec_id
            entries = tuple(entry_of(file, spec) for file in files)
            events.append(self._event(DataWritten(commit, TableReference(CATALOG, ("shop",), table), entries, None)))
        answer = PartitionAnswer(self.bench.topic, partition, end, datetime.now(UTC))
        idle = PartitionAnswer(self.bench.topic, 9, None, None)
        events.append(self._event(DataComplete(commit, (answer, idle))))
        offsets = {TopicPartition(self.bench.topic, partition): end} if move else {}
        with self.names.sender(f"worker-{self.name}-{partition}", self.group) as sender:
            sender.send(str(uuid.uuid4()), events, offsets)
        return written

    def _files(self, table: str, offsets: OffsetRange, partition: int) -> list[DataFile]:
        work = self.bench.work(table)
        files = DataFiles(work.metadata, work.io, uuid.uuid4())
        for batch in self.bench.records(partition)(offsets):
            files.write(work.columns.decode(batch).batch)
        return files.close()

    def _event(self, payload: Payload) -> bytes:
        return encode(Event(uuid.uuid4(), datetime.now(UTC), self.group, payload))

    def commit(self, *tables: str, move: bool = True) -> None:
        """A coordinator's commit: the files of events that a table's snapshots do not cover; then its own group."""
        for number in (0, 1):
            await_marker(self.bench.kafka.bootstrap, self.control_topic, number)
        found = read_all(self.bench.kafka.bootstrap, self.control_topic)
        events = [(r.partition, r.offset, decode(r.value or b"")) for r in found]
        self.read = {p: max(o for q, o, _ in events if q == p) + 1 for p, _, _ in events}
        for table in tables or self.bench.tables:
            stored = self.stored(table)
            files = {
                entry["file_path"]: data_file(entry)
                for partition, offset, event in events
                if event is not None and isinstance(event.payload, DataWritten) and event.group_id == self.group
                if event.payload.table.name == table and offset >= stored.get(partition, 0)
                for entry in event.payload.files
                if entry["record_count"] > 0
            }
            if files:
                self._append(table, list(files.values()))
        if move:
            with self.names.sender(f"coordinator-{self.name}", f"{self.group}-coord") as sender:
                sender.send("x", [], {TopicPartition(self.control_topic, p): at for p, at in self.read.items()})

    def delete_events(self) -> None:
        """As Kafka does, by the topic's retention."""
        self.bench.delete_events(self.control_topic)

    def stored(self, table: str) -> dict[int, int]:
        """By the table's newest snapshot that has it."""
        loaded = self.bench.catalog().load_table(f"shop.{table}")
        at: Any = loaded.current_snapshot()
        while at is not None:
            if self.key in at.summary.additional_properties:
                return {int(p): o for p, o in json.loads(at.summary.additional_properties[self.key]).items()}
            at = loaded.snapshot_by_id(at.parent_snapshot_id) if at.parent_snapshot_id else None
        return {}

    def _append(self, table: str, files: list[DataFile]) -> None:
        summary = {self.key: json.dumps(self.read), "kafka.connect.commit-id": str(uuid.uuid4())}
        summary["kafka.connect.valid-through-ts"] = "2026-01-01T00:00Z"
        loaded = self.bench.catalog().load_table(f"shop.{table}")
        with (
            loaded.transaction() as transaction,
            transaction.update_snapshot(snapshot_properties=summary).fast_append() as append,
        ):
            for file in files:
                append.append_data_file(file)
