"""The units that a coordinator has read and not yet committed: their parts, and the files that these name."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from pyiceberg.manifest import DataFile

from chsink.mirror.events import DataWritten, FileEntry, UnitTag
from chsink.mirror.files import data_file
from chsink.statemachine.commit.units import Head, Position, Unit, UnitPart, assemble
from chsink.statemachine.ranges import OffsetRange, TopicPartition


class Buffer:
    """Uncommitted units of all tables.  One thread adds events while others commit tables."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._parts: dict[str, list[UnitPart]] = {}
        self._files: dict[str, FileEntry] = {}
        self._tags: dict[str, UnitTag] = {}

    @property
    def files(self) -> int:
        """How many files are held."""
        return len(self._files)

    def add(self, written: DataWritten, table: str, at: Position) -> None:
        """Add one event of a table.  An event without chsink's fields has no place in a chain and is ignored."""
        tag = written.tag
        if tag is None:
            return
        head = Head(
            tag.unit,
            table,
            tag.table_uuid,
            TopicPartition(tag.topic, tag.partition),
            tag.topic_id,
            OffsetRange(tag.start, tag.until),
            tag.spec_id,
            tag.parts,
            tag.choice or "",
        )
        locations = tuple(entry["file_path"] for entry in written.files)
        with self._lock:
            self._parts.setdefault(table, []).append(UnitPart(head, tag.part, locations, at))
            self._files.update(zip(locations, written.files, strict=True))
            self._tags[tag.unit] = tag

    def units(self, table: str) -> tuple[Unit, ...]:
        """The units that were read for a table.  Raises ``DamagedUnit``."""
        with self._lock:
            parts = tuple(self._parts.get(table, ()))
        return assemble(parts)

    def all_units(self) -> list[Unit]:
        """The units of every table."""
        return [unit for table in list(self._parts) for unit in self.units(table)]

    def data_files(self, locations: Iterable[str]) -> list[DataFile]:
        """The files of these locations, for a commit."""
        return [data_file(self._files[location]) for location in locations]

    def newest_ms(self, units: Iterable[Unit]) -> dict[TopicPartition, int]:
        """The largest record timestamp of these units, by topic-partition."""
        found: dict[TopicPartition, int] = {}
        for unit in units:
            tag = self._tags.get(unit.head.unit_id)
            if tag is not None and (at := tag.timestamp_ms) is not None:
                found[unit.head.tp] = max(at, found.get(unit.head.tp, at))
        return found

    def skipped(self, units: Iterable[Unit]) -> int:
        """How many records of these units were skipped."""
        return sum(self._tags[unit.head.unit_id].skipped or 0 for unit in units)

    def forget(self, table: str, units: Iterable[Unit]) -> None:
        """Drop units that were committed, or never will be."""
        gone = {unit.head.unit_id for unit in units}
        with self._lock:
            parts = self._parts.get(table, [])
            for part in parts:
                if part.head.unit_id in gone:
                    self._tags.pop(part.head.unit_id, None)
                    for location in part.files:
                        self._files.pop(location, None)
            self._parts[table] = [part for part in parts if part.head.unit_id not in gone]
