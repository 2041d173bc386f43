"""The simulated catalog under the production :class:`MirrorTable`: requirements are checked, commits are atomic.

A manifest is known by its name, and writing one more of the same name changes what a snapshot refers to.  Files are not
written: a manifest holds their records directly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import numpy as np
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from chsink.kafka.same_records import Times
from chsink.mirror.tables import CHAINS, Committed, MirrorTable
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.sim.hub import Hub
from tests.sim.kafka import PARTITION

LATE_MS = 20_000
"""The longest delay of a late commit.  Most are far shorter: they meet the next attempt of the same round."""


@dataclass(frozen=True, slots=True)
class Snap:
    """``held`` are the records of the table at this snapshot."""

    snapshot_id: int
    sequence_number: int
    parent_snapshot_id: int | None
    held: frozenset[int]
    added: tuple[int, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    manifest: str = ""
    unknown_specs: frozenset[int] = frozenset()

    @property
    def is_own(self) -> bool:
        """Whether the mirror made it."""
        return any(name.startswith(CHAINS) for name in self.properties)

    @property
    def summary(self) -> Any:
        """As pyiceberg has it."""
        counts = {"total-records": str(len(self.held)), "added-records": str(len(self.added))}
        return SimpleNamespace(operation=Operation.APPEND, additional_properties={**self.properties, **counts})


@dataclass(frozen=True, slots=True, eq=False)
class Metadata:
    """One version of a table, itself only: another one with the same content is another version."""

    table_uuid: str
    properties: Mapping[str, str] = field(default_factory=dict)
    snaps: Mapping[int, Snap] = field(default_factory=dict)
    head: int | None = None
    sequence: int = 0
    default_spec_id: int = 0
    branch: str = MAIN_BRANCH
    main: int | None = None
    """The head of main, if ``branch``, whose head is ``head``, is another one."""
    spec_ids: tuple[int, ...] = (0,)

    def specs(self) -> dict[int, None]:
        """As pyiceberg has it: by id."""
        return dict.fromkeys(self.spec_ids)

    def spec(self) -> PartitionSpec:
        """As pyiceberg has it; the values of a partition do not count here."""
        return PartitionSpec(spec_id=self.default_spec_id)

    def schema(self) -> Schema:
        """As pyiceberg has it: one column that the mirror can write."""
        return Schema(NestedField(1, "uid", LongType()))

    def name_mapping(self) -> None:
        """As pyiceberg has it; the names of columns do not count here."""

    @property
    def snapshots(self) -> list[Snap]:
        """As pyiceberg has it."""
        return list(self.snaps.values())

    @property
    def last_sequence_number(self) -> int:
        """As pyiceberg has it."""
        return self.sequence

    def snapshot_by_id(self, number: int) -> Snap | None:
        """As pyiceberg has it."""
        return self.snaps.get(number)

    def snapshot_by_name(self, name: str) -> Snap | None:
        """The head of a branch."""
        at = self.ref(name)
        return None if at is None else self.snaps[at]

    def ref(self, name: str) -> int | None:
        """Its id."""
        return self.head if name == self.branch else self.main

    @property
    def current_snapshot_id(self) -> int | None:
        """The head of main."""
        return self.ref(MAIN_BRANCH)

    @property
    def refs(self) -> dict[str, Any]:
        """As pyiceberg has it."""
        found = {name: self.ref(name) for name in (MAIN_BRANCH, self.branch)}
        kind = SnapshotRefType.BRANCH
        return {n: SimpleNamespace(snapshot_id=at, snapshot_ref_type=kind) for n, at in found.items() if at is not None}

    @property
    def held(self) -> frozenset[int]:
        """What a reader of the table sees."""
        return frozenset() if self.head is None else self.snaps[self.head].held

    def with_head(self, snap: Snap) -> Metadata:
        """One more snapshot."""
        return replace(self, snaps={**self.snaps, snap.snapshot_id: snap}, head=snap.snapshot_id,
                       sequence=max(self.sequence, snap.sequence_number))  # fmt: skip


@dataclass(frozen=True, slots=True)
class SimTable:
    """What ``load_table`` returns."""

    identifier: str
    metadata: Metadata
    io: None = None


class SimCatalog:
    """``committed`` is called after each commit, with the table's name and its metadata before and after."""

    def __init__(self, hub: Hub, tables: Sequence[str], branch: str = MAIN_BRANCH) -> None:
        self.hub, self.branch = hub, branch
        self.made = count(1)
        self.tables: dict[str, Metadata] = {name: self._new() for name in tables}
        self.files: dict[str, tuple[int, ...]] = {}
        self.manifests: dict[str, tuple[int, tuple[int, ...]]] = {}
        self.snapshots: set[int] = set()
        self.away_until = 0
        self.place: Callable[[int], tuple[str, int]] = lambda _: ("", 0)
        self.times: Mapping[int, int] = {}
        self.committed: Callable[[str, Metadata, Metadata], None] = lambda *_: None
        self.late: Callable[[], None] = lambda: None

    def _new(self) -> Metadata:
        return Metadata(str(UUID(int=next(self.made))), branch=self.branch)

    # --- what MirrorTable calls ---------------------------------------------------------------------------------------

    def load_table(self, identifier: str) -> SimTable:
        """As pyiceberg's catalogs."""
        self.hub.pause()
        self._answer()
        if identifier not in self.tables:
            raise NoSuchTableError(identifier)
        return SimTable(identifier, self.tables[identifier])

    def commit_table(self, table: SimTable, required: Sequence[Any], updates: Sequence[Any]) -> None:
        """As pyiceberg's catalogs; a commit may be refused, lost, late or unanswered."""
        hub, name = self.hub, table.identifier
        hub.pause()
        if hub.fault("killed before a table's commit", 0.01):
            hub.die()
        self._answer()
        if hub.fault("table commit refused", 0.03):
            raise CommitFailedException("somebody else was faster")
        if hub.fault("table commit lost", 0.03):
            raise CommitStateUnknownException("request lost")
        if hub.fault("table commit late", 0.06):
            self.late()
            hub.after(int(hub.random.random() ** 4 * LATE_MS), lambda: self._late(name, required, updates))
            raise CommitStateUnknownException("still under way")
        self._apply(name, required, updates)
        if hub.fault("table commit answer lost", 0.04):
            raise CommitStateUnknownException("answer lost")
        if hub.fault("killed after a table's commit", 0.02):
            hub.die()
        hub.pause()

    def _answer(self) -> None:
        if self.hub.now < self.away_until:
            self.hub.sleep(1)
            raise OSError("the catalog is away")

    def _late(self, name: str, required: Sequence[Any], updates: Sequence[Any]) -> None:
        try:
            self._apply(name, required, updates)
            self.hub.counts["outcome late commit applied"] += 1
        except (CommitFailedException, NoSuchTableError, ValueError):
            self.hub.counts["outcome late commit refused"] += 1

    def _apply(self, name: str, required: Sequence[Any], updates: Sequence[Any]) -> None:
        before = self.tables.get(name)
        if before is None:
            raise NoSuchTableError(name)
        if not all(_holds(requirement, before) for requirement in required):
            self.hub.counts["outcome commit refused by a requirement"] += 1
            raise CommitFailedException("a requirement does not hold")
        after = before
        for update in updates:
            if isinstance(update, AddSnapshotUpdate):
                snap = cast("Snap", update.snapshot)
                after = after.with_head(snap)
                self.snapshots.add(snap.snapshot_id)
            elif isinstance(update, SetSnapshotRefUpdate):
                mine, at = update.ref_name == self.branch, update.snapshot_id
                if at not in after.snaps:
                    raise ValueError(f"Cannot set {update.ref_name} to unknown snapshot {at}")
                after = replace(after, head=at) if mine else replace(after, main=at)
            elif isinstance(update, SetPropertiesUpdate):
                after = replace(after, properties={**after.properties, **update.updates})
            elif isinstance(update, RemovePropertiesUpdate):
                kept = {k: v for k, v in after.properties.items() if k not in update.removals}
                after = replace(after, properties=kept)
        self.tables[name] = after
        self.committed(name, before, after)

    # --- the world ----------------------------------------------------------------------------------------------------

    def foreign_append(self, name: str) -> None:
        """Another writer's snapshot.  A branch that is not there yet is the mirror's to make."""
        at = self.tables[name]
        if at.head is None and self.branch != MAIN_BRANCH:
            return
        self.tables[name] = at.with_head(Snap(next(self.made), at.sequence + 1, at.head, at.held, ()))

    def foreign_append_to_main(self, name: str) -> None:
        """Another writer's snapshot on main, beside the mirror's branch."""
        at = self.tables[name]
        if at.main is not None:
            made = Snap(next(self.made), at.sequence + 1, at.main, at.snaps[at.main].held, ())
            snaps = {**at.snaps, made.snapshot_id: made}
            self.tables[name] = replace(at, snaps=snaps, main=made.snapshot_id, sequence=made.sequence_number)

    def expire(self, name: str, *, forget: bool) -> None:
        """Expire all snapshots but the heads.  ``forget``: also remove the head's parent id, as pyiceberg does."""
        at = self.tables[name]
        if at.head is not None:
            head = at.snaps[at.head]
            kept = replace(head, parent_snapshot_id=None) if forget else head
            others = {} if at.main is None else {at.main: at.snaps[at.main]}
            self.tables[name] = replace(at, snaps={**others, at.head: kept})

    def roll_back(self, name: str) -> bool:
        """Roll back to the parent of the mirror's newest snapshot; False if there is none."""
        at = self.tables[name]
        snap = at.snapshot_by_name(at.branch)
        while snap is not None and not (snap.added or snap.is_own):
            snap = None if snap.parent_snapshot_id is None else at.snapshot_by_id(snap.parent_snapshot_id)
        if snap is None or snap.parent_snapshot_id not in at.snaps:
            return False
        self.tables[name] = replace(at, head=snap.parent_snapshot_id)
        return True

    def set_head(self, name: str, snapshot_id: int) -> None:
        """Make any snapshot the current one."""
        self.tables[name] = replace(self.tables[name], head=snapshot_id)

    def rewrite(self, name: str, earlier: int | None) -> None:
        """Other programs' snapshots alone are left, one of them with the rows of an ``earlier`` one; no property is."""
        at = self.tables[name]
        kept = {number: snap for number, snap in at.snaps.items() if not (snap.added or snap.is_own)}
        for held in ([] if earlier is None else [at.snaps[earlier].held]) + [at.held]:
            made = Snap(next(self.made), at.sequence + 1, at.head if at.head in kept else None, held, ())
            kept[made.snapshot_id] = made
            at = replace(at, snaps=kept, head=made.snapshot_id, sequence=made.sequence_number, properties={})
        self.tables[name] = at

    def change_spec(self, name: str, *, forget: bool) -> None:
        """Another partition spec.  ``forget``: also remove the specs before it, as clients do that no manifest needs."""
        at = self.tables[name]
        new = at.default_spec_id + 1
        kept = () if forget else at.spec_ids
        self.tables[name] = replace(at, default_spec_id=new, spec_ids=(*kept, new))

    def add(self, name: str) -> None:
        """Create a table, unless it is there."""
        self.tables.setdefault(name, self._new())

    def recreate(self, name: str) -> None:
        """Drop the table and create it again."""
        self.tables[name] = self._new()


def _holds(requirement: Any, metadata: Metadata) -> bool:
    match requirement:
        case AssertTableUUID():
            return str(requirement.uuid) == metadata.table_uuid
        case AssertRefSnapshotId():
            return bool(requirement.snapshot_id == metadata.ref(requirement.ref))
        case _:
            raise TypeError(requirement)


@dataclass(frozen=True)
class SimMirrorTable(MirrorTable):
    """The production class, without manifests and storage."""

    def found_row(self, read: Any, topics: Collection[str], topic: str, partitions: Collection[int]) -> str:
        """Uids name topic, partition and offset."""
        catalog = cast("SimCatalog", self.catalog)
        catalog.hub.pause()
        uids = sorted(
            uid for uid in read.table.metadata.held if catalog.place(uid)[:2] in {(topic, p) for p in partitions}
        )
        return str(uids[0]) if uids else ""

    def row_ranges(
        self, read: Any, topics: Collection[str], topic: str, partitions: Collection[int], *, partly: bool = False
    ) -> dict[int, Sequence[OffsetRange]] | None:
        """Each row tells its record."""
        return {number: list(_spans(self._offsets(read, TopicPartition(topic, number)))) for number in partitions}

    def timestamps(self, read: Any, tp: TopicPartition, within: OffsetRange) -> Times:
        """As a producer gave them to the records."""
        found = {at: uid for at, uid in self._offsets(read, tp).items() if within.start <= at < within.end}
        times = cast("SimCatalog", self.catalog).times
        return np.array([*found], np.int64), np.array([times[uid] for uid in found.values()], np.int64)

    def _offsets(self, read: Any, tp: TopicPartition) -> dict[int, int]:
        """The row of each offset, ascending."""
        catalog = cast("SimCatalog", self.catalog)
        catalog.hub.pause()
        mine = (tp.topic, tp.partition)
        return {uid % PARTITION: uid for uid in sorted(read.table.metadata.held) if catalog.place(uid) == mine}

    def _branched(self, read: Any) -> Committed:
        """As the production method, without a manifest list."""
        catalog, metadata = cast("SimCatalog", self.catalog), read.table.metadata
        snap = Snap(next(catalog.made), metadata.sequence + 1, None, frozenset(), ())
        refs = [
            SetSnapshotRefUpdate(ref_name=name, type=SnapshotRefType.BRANCH, snapshot_id=snap.snapshot_id)  # type: ignore[call-arg] # by name
            for name in (MAIN_BRANCH, self.keys.branch)
        ]
        return self._commit(read, (AddSnapshotUpdate.model_construct(snapshot=snap), *refs), {MAIN_BRANCH: None})

    def _tidy(self, before: Any, after: Any) -> None:
        """Metadata files are not simulated."""

    def _exists(self, table: Any, location: str) -> bool:
        return location in cast("SimCatalog", self.catalog).files

    def _appended(
        self, table: Any, files: Sequence[DataFile], attempt: UUID, summary: Mapping[str, str]
    ) -> tuple[Any, ...]:
        catalog, metadata = cast("SimCatalog", self.catalog), table.metadata
        # a snapshot may refer to deleted files; files that it names are no longer taken for orphans
        added = tuple(uid for file in files for uid in catalog.files.get(file.file_path, ()))
        unknown = frozenset(file.spec_id for file in files) - set(metadata.spec_ids)
        catalog.hub.pause()
        if catalog.hub.fault("manifests not written", 0.01):
            raise OSError("no space")
        number, manifest = next(catalog.made), f"{self.identifier}/{attempt}"
        catalog.manifests[manifest] = (number, added)
        held = metadata.held | frozenset(added)
        snap = Snap(number, metadata.sequence + 1, metadata.head, held, added, summary, manifest, unknown)
        return (AddSnapshotUpdate.model_construct(snapshot=snap),)


def _spans(offsets: Iterable[int]) -> Iterator[OffsetRange]:
    """Ascending offsets as ranges that lie apart."""
    span: OffsetRange | None = None
    for at in offsets:
        if span is not None and at == span.end:
            span = OffsetRange(span.start, at + 1)
        else:
            yield from () if span is None else (span,)
            span = OffsetRange(at, at + 1)
    yield from () if span is None else (span,)


def data_file(location: str, rows: int) -> DataFile:
    """Of so many rows."""
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=100 * rows,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
        spec_id=0,
    )
