"""One Iceberg table of the mirror: its chain in the catalog, and commits that require the head that was read.

Rules:
- A commit goes to the catalog with *our* requirements: the table's uuid and its head are the ones that were read.
  pyiceberg's own commit retries on a new head by itself, so it is never used.
- Each file is listed in a manifest of the partition spec that it was written for.
- The chain is in the snapshot's summary and, naming that snapshot, in a table property: written in one commit.
- An error that is not a definite refusal makes a commit unknown: the caller reads the table again and checks its chain.
  No data file is deleted.
- Each attempt writes metadata files under names of its own: an earlier attempt, whose answer did not come, may still be
  applied, and its snapshot refers to what that attempt wrote.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.manifest import DataFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, ancestors_of
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from chsink import failpoints
from chsink.kafka.same_records import Times
from chsink.mirror.append import AppendBySpec
from chsink.mirror.rows import found_row, row_ranges, timestamps
from chsink.ports import Outcome
from chsink.statemachine.commit.chain import (
    Chain,
    DamagedChain,
    Link,
    Sharing,
    Snapshot,
    StoredShare,
    TableView,
    decode,
    encode,
)
from chsink.statemachine.ranges import OffsetRange, TopicPartition

_log = logging.getLogger(__name__)

COMMIT_ID = "kafka.connect.commit-id"
VALID_THROUGH = "kafka.connect.valid-through-ts"
TOTAL, ADDED, DELETED = "total-records", "added-records", "deleted-records"
"""Keys of Iceberg in a snapshot's summary."""
QUESTIONS = 16
"""How many files are checked for existence in parallel: an object store answers in 10 to 50 ms."""
_UNKNOWN_TYPE = re.compile("(?:Unsupported field type: '|Could not parse )(.+?)(?:'| into )")
"""What pyiceberg says of a type that it does not know."""


class CatalogFailed(Exception):
    """The catalog, or the storage of its tables, gave no usable answer."""


class UnknownType(CatalogFailed):
    """The table has a type that pyiceberg does not know."""

    def __init__(self, table: str, kind: str) -> None:
        super().__init__(f"{table}: pyiceberg does not know the type {kind}")
        self.table, self.kind = table, kind


class DamagedProperty(DamagedChain):
    """A table property of the mirror cannot be read."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name


class MissingBranch(CatalogFailed):
    """The table has snapshots, and not the branch to which the mirror commits."""

    def __init__(self, table: str, branch: str) -> None:
        super().__init__(f"{table} has no branch {branch}")
        self.table, self.branch = table, branch


CHAINS = "chsink.chain."


@dataclass(frozen=True, slots=True)
class PropertyKeys:
    """The keys of the mirror's values in a table.  ``group`` is the sink's group, ``topic`` its control topic; it
    commits to ``branch``.
    """

    group: str
    topic: str
    branch: str = MAIN_BRANCH

    @property
    def chain(self) -> str:
        """The property with the branch's chain."""
        return f"{CHAINS}{self.branch}.{self.group}"

    @property
    def summary(self) -> str:
        """The key of the chain in a summary: it tells what the snapshot holds, whichever branches have it."""
        return f"{CHAINS}{self.group}"

    def origin(self, tp: TopicPartition) -> str:
        """The property with a topic-partition's origin, kept until a snapshot's chain has the origin."""
        return f"{self._origins}{tp.topic}.{tp.partition}"

    def origins(self, properties: Mapping[str, str]) -> dict[str, TopicPartition]:
        """The properties that hold origins.  Raises ``DamagedProperty``."""
        return _by_partition(self._origins, properties)

    def share(self, tp: TopicPartition) -> str:
        """The property that says how the table shares a topic-partition."""
        return f"{self._shares}{tp.topic}.{tp.partition}"

    def shares(self, properties: Mapping[str, str]) -> dict[str, TopicPartition]:
        """The properties that say how the table shares topic-partitions.  Raises ``DamagedProperty``."""
        return _by_partition(self._shares, properties)

    def choice(self, choice: str) -> str:
        """The property with the tables of a choice.  It is never changed: the choice is a digest of the tables, too."""
        return f"chsink.choice.{self.branch}.{self.group}/{choice}"

    def named(self, table: str) -> str:
        """The property that says that records named this table, with its uuid.  Each has its own, which is never
        changed: so a commit that the catalog applies late takes none away.
        """
        return f"{self._named}{table}"

    def names(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The tables that records named, each with the uuid that it had then."""
        mine = sorted(name for name in properties if name.startswith(self._named))
        return {name.removeprefix(self._named): properties[name] for name in mine}

    @property
    def _named(self) -> str:
        return f"chsink.named.{self.branch}.{self.group}/"

    @property
    def _shares(self) -> str:
        return f"chsink.share.{self.branch}.{self.group}/"

    @property
    def backfill(self) -> str:
        """The property that says down to which offsets a person asked for a backfill."""
        return f"chsink.backfill.{MAIN_BRANCH}.{self.group}"

    @property
    def _origins(self) -> str:
        return f"chsink.origin.{self.branch}.{self.group}/"  # no name of a sink has a slash

    @property
    def offsets(self) -> str:
        """The key, in the summary, of the next events to read by partition of the control topic."""
        return f"kafka.connect.offsets.{self.topic}.{self.group}"


def _by_partition(prefix: str, properties: Mapping[str, str]) -> dict[str, TopicPartition]:
    """The properties with this prefix, and the topic-partitions that their names end in."""
    found = {}
    for name in properties:
        if name.startswith(prefix):
            topic, _, number = name.removeprefix(prefix).rpartition(".")
            if not (topic and number.isdecimal()):
                raise DamagedProperty(name, "its name has no topic-partition")
            found[name] = TopicPartition(topic, int(number))
    return found


def other_writers(keys: PropertyKeys, properties: Mapping[str, str]) -> list[str]:
    """The properties that hold chains of other sinks, on any branch."""
    return [name for name in properties if name.startswith(CHAINS) and not name.endswith(f".{keys.group}")]


def lacks_branch(metadata: TableMetadata, branch: str) -> bool:
    """Whether a person has to make the branch.  In a table without snapshots, the mirror makes it."""
    if branch == MAIN_BRANCH:
        return False
    if branch in metadata.refs:
        return metadata.refs[branch].snapshot_ref_type != SnapshotRefType.BRANCH
    return metadata.current_snapshot_id is not None


@dataclass(frozen=True, slots=True)
class TableRead:
    """A table as it was read; a commit requires the same head and uuid."""

    table: Table
    view: TableView


@dataclass(frozen=True, slots=True)
class Committed:
    """``snapshot_id`` is the offered snapshot, which the table is known to have only if the outcome is APPLIED."""

    outcome: Outcome
    snapshot_id: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class MirrorTable:
    """One table.  ``identifier`` is ``namespace.name``."""

    catalog: Catalog
    identifier: str
    keys: PropertyKeys

    def read(self) -> TableRead | None:
        """The table as it is now, None if the catalog has none.  Raises ``DamagedProperty``, ``CatalogFailed``."""
        table = self.load()
        return None if table is None else TableRead(table, self._view(table))

    def load(self) -> Table | None:
        """The table without its chain, None if the catalog has none.  Raises ``CatalogFailed``."""
        try:
            return self.catalog.load_table(self.identifier)
        except NoSuchTableError:
            return None
        except Exception as error:  # any exception of the catalog's client
            if unknown := _UNKNOWN_TYPE.search(str(error)):
                raise UnknownType(self.identifier, unknown[1]) from error
            raise CatalogFailed(f"{self.identifier}: {said(error)}") from error

    def missing(self, read: TableRead, locations: Sequence[str]) -> frozenset[str]:
        """The locations whose data files no longer exist.  Raises ``CatalogFailed`` if the storage does not answer."""
        if not locations:
            return frozenset()
        with self._answered(), ThreadPoolExecutor(min(QUESTIONS, len(locations))) as pool:
            there = list(pool.map(lambda location: self._exists(read.table, location), locations))
        return frozenset(location for location, exists in zip(locations, there, strict=True) if not exists)

    def found_row(self, read: TableRead, topics: Collection[str], topic: str, partitions: Collection[int]) -> str:
        """See :func:`chsink.mirror.rows.found_row`.  Raises ``CatalogFailed`` if the storage does not answer."""
        # nothing speaks of the mirror; but a history that is whole shows that no row is the mirror's
        view = read.view
        lost = not (view.stored or view.own or view.origins or none_expired(read.table.metadata))
        with self._answered():
            return found_row(read.table, topics, topic, partitions, branch=self.keys.branch, unsure=lost)

    def row_ranges(
        self, read: TableRead, topics: Collection[str], topic: str, partitions: Collection[int], *, partly: bool = False
    ) -> dict[int, Sequence[OffsetRange]] | None:
        """See :func:`chsink.mirror.rows.row_ranges`.  Raises ``CatalogFailed`` if the storage does not answer."""
        with self._answered():
            return row_ranges(read.table, topics, topic, partitions, branch=self.keys.branch, partly=partly)

    def foreign_rows(self, read: TableRead) -> int | None:
        """How many rows of the branch may be of others than the mirror, at most; None if that is not known."""
        metadata = read.table.metadata
        return foreign_rows(metadata, self.keys.branch, self.keys.summary) if none_expired(metadata) else None

    def timestamps(self, read: TableRead, tp: TopicPartition, within: OffsetRange) -> Times:
        """See :func:`chsink.mirror.rows.timestamps`.  Raises ``CatalogFailed`` if the storage does not answer."""
        with self._answered():
            return timestamps(read.table, tp, within, branch=self.keys.branch)

    @contextmanager
    def _answered(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # any exception of the storage's client
            raise CatalogFailed(f"{self.identifier}: {said(error)}") from error

    def _exists(self, table: Table, location: str) -> bool:
        return table.io.new_input(location).exists()

    def append(
        self,
        read: TableRead,
        files: Sequence[DataFile],
        chain: Chain,
        commit_id: uuid.UUID,
        valid_through_ms: int | None,
        *,
        more: Mapping[str, str] = MappingProxyType({}),
        also: tuple[TableUpdate, ...] = (),
    ) -> Committed:
        """Commit one snapshot with these files, this chain, ``more`` in its summary, and ``also`` other changes.  In a
        table without snapshots, the branch is made first: then the commit is refused, as after any other change.
        """
        if read.view.head is None and self.keys.branch != MAIN_BRANCH:
            made = self._branched(read)
            return Committed(Outcome.REFUSED, reason="the branch is new") if made.outcome is Outcome.APPLIED else made
        chain = replace(chain, commit_id=str(commit_id))
        unnamed = replace(chain, snapshot_id=None, sequence=0, rows=None)
        summary = {
            COMMIT_ID: str(commit_id),
            self.keys.offsets: json.dumps({str(p): offset for p, offset in sorted(chain.control.items())}),
            self.keys.summary: encode(unnamed),
            **more,
        }
        if valid_through_ms is not None:
            summary[VALID_THROUGH] = str(valid_through_ms)
        try:
            updates = self._appended(read.table, files, uuid.uuid4(), summary)
        except Exception as error:  # manifests could not be written: the catalog was offered nothing
            return Committed(Outcome.REFUSED, reason=said(error))
        (snapshot,) = (update.snapshot for update in updates if isinstance(update, AddSnapshotUpdate))
        sequence, rows = snapshot.sequence_number or 0, _counted(snapshot)[TOTAL]
        named = replace(chain, snapshot_id=snapshot.snapshot_id, sequence=sequence, rows=rows)
        kept = [n for n, tp in self.keys.origins(read.table.metadata.properties).items() if tp in chain.links]
        removed = [RemovePropertiesUpdate(removals=kept)] if kept else []
        updates = (*updates, self._property(named), *removed, *also)
        done = self._commit(read, updates)
        return replace(done, snapshot_id=snapshot.snapshot_id)

    def _branched(self, read: TableRead) -> Committed:
        """Let main and the branch begin with one snapshot, without rows: else main could never move to the branch."""
        try:
            updates = AppendBySpec(read.table, uuid.uuid4(), {}, MAIN_BRANCH)._commit()[0]
        except Exception as error:  # its manifest list could not be written
            return Committed(Outcome.REFUSED, reason=said(error))
        (moved,) = (update for update in updates if isinstance(update, SetSnapshotRefUpdate))
        branched = moved.model_copy(update={"ref_name": self.keys.branch})
        return self._commit(read, (*updates, branched), {MAIN_BRANCH: None})

    def move(self, read: TableRead, chain: Chain, commit_id: uuid.UUID) -> Committed:
        """Commit the chain alone, without a snapshot: the newest own snapshot stays the one that it names."""
        return self._commit(read, (self._property(replace(chain, commit_id=str(commit_id))),))

    def begin(
        self,
        read: TableRead,
        chain: Chain,
        tps: Sequence[TopicPartition],
        shares: Mapping[TopicPartition, StoredShare] = MappingProxyType({}),
    ) -> Committed:
        """Commit the chain in which these topic-partitions begin, their origins, and how the table shares others."""
        links = {self.keys.origin(tp): chain.links[tp] for tp in tps}
        stored = {name: json.dumps([link.topic_id, link.origin]) for name, link in links.items()}
        stored |= self._shared(shares)
        return self._commit(read, (SetPropertiesUpdate(updates=stored), self._property(chain)))

    def _shared(self, shares: Mapping[TopicPartition, StoredShare]) -> dict[str, str]:
        """The properties that say so.  Each topic-partition has its own: a commit that the catalog applies late leaves
        those alone that it does not name.
        """
        tables = {self.keys.choice(s.sharing.choice): json.dumps(sorted(s.sharing.tables)) for s in shares.values()}
        since = {self.keys.share(tp): [s.sharing.choice, s.since, s.sequence] for tp, s in shares.items()}
        return tables | {name: json.dumps(each) for name, each in since.items()}

    def decide(
        self,
        read: TableRead,
        chain: Chain,
        commit_id: uuid.UUID,
        shares: Mapping[TopicPartition, StoredShare] = MappingProxyType({}),
    ) -> Committed:
        """Commit the chain that a person decided on, and how the table shares topics.  The chain has every
        topic-partition, so stored origins are removed.  A table with snapshots gets one more, without files: if
        it is missing later, somebody has set the table to another one.
        """
        properties = read.table.metadata.properties
        # a backfill was asked for by the chain that was lost
        removed = [self.keys.backfill] if read.view.stored is None and self.keys.backfill in properties else []
        back = {
            tp: replace(share, since=chain.links[tp].until)
            for tp, share in read.view.shared.items()
            if tp in chain.links and share.since > chain.links[tp].until
        } | dict(shares)
        updates: tuple[TableUpdate, ...] = (SetPropertiesUpdate(updates=self._shared(back)),) if back else ()
        appends = read.view.head is not None
        removed += [] if appends else self.keys.origins(properties)
        updates += (RemovePropertiesUpdate(removals=removed),) if removed else ()
        if appends:
            return self.append(read, (), chain, commit_id, None, also=updates)
        return self._commit(read, (self._property(replace(chain, commit_id=str(commit_id))), *updates))

    def expire(self, read: TableRead, snapshots: Sequence[int]) -> Committed:
        """Remove these snapshots, if all branches and tags are still where they were."""
        refs = {name: ref.snapshot_id for name, ref in read.table.metadata.refs.items()}
        heads = {**refs, self.keys.branch: read.view.head}
        return self._commit(read, (RemoveSnapshotsUpdate(snapshot_ids=list(snapshots)),), heads)  # type: ignore[call-arg] # by name

    def publish(self, read: TableRead, snapshot_id: int, chain: Chain | None) -> Committed:
        """Move the main branch to a snapshot that holds this chain, if main is still where it was.  The mirror may
        commit to its own branch meanwhile.
        """
        main = read.table.metadata.snapshot_by_name(MAIN_BRANCH)
        moved = _main_at(snapshot_id)
        updates: tuple[TableUpdate, ...] = (moved,)
        if chain is not None:  # the mirror goes on from there if it is to commit to main
            updates = (moved, SetPropertiesUpdate(updates=self._on_main(read, chain)))
        return self._commit(read, updates, {MAIN_BRANCH: None if main is None else main.snapshot_id})

    def _on_main(self, read: TableRead, chain: Chain) -> dict[str, str]:
        """What the mirror needs to go on from this chain on main: how the table shared topics by then, too."""
        main, properties = replace(self, keys=replace(self.keys, branch=MAIN_BRANCH)), read.table.metadata.properties
        shares = {tp: share for tp, share in read.view.shared.items() if share.sequence <= chain.sequence}
        named = {main.keys.named(name): found for name, found in self.keys.names(properties).items()}
        origins = {main.keys.origin(tp): properties[self.keys.origin(tp)] for tp in read.view.origins}
        return {main.keys.chain: encode(chain), **main._shared(shares), **named, **origins}

    def _property(self, chain: Chain) -> TableUpdate:
        return SetPropertiesUpdate(updates={self.keys.chain: encode(chain)})

    def _appended(
        self, table: Table, files: Sequence[DataFile], attempt: uuid.UUID, summary: Mapping[str, str]
    ) -> tuple[TableUpdate, ...]:
        """Write manifest and manifest list; nothing refers to them before the catalog's commit."""
        producer = AppendBySpec(table, attempt, summary, self.keys.branch)
        for file in files:
            producer.append_data_file(file)
        updates, _ = producer._commit()
        return updates

    def _commit(
        self, read: TableRead, updates: tuple[TableUpdate, ...], heads: Mapping[str, int | None] | None = None
    ) -> Committed:
        """Require these heads, by default the one that was read."""
        table, head = read.table, read.view.head
        if heads is None:  # pyiceberg takes no requirement of a branch in a table without snapshots
            heads = {MAIN_BRANCH if head is None else self.keys.branch: head}
        required: tuple[TableRequirement, ...] = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            *(AssertRefSnapshotId(ref=ref, snapshot_id=at) for ref, at in heads.items()),  # type: ignore[call-arg] # by name
        )
        try:
            done = self.catalog.commit_table(table, required, updates)
        except CommitFailedException as error:
            return Committed(Outcome.REFUSED, reason=str(error))
        except Exception as error:  # the answer was lost, or the catalog went away
            return Committed(Outcome.UNKNOWN, reason=said(error))
        failpoints.reach("table.after_commit")
        self._tidy(table, done)
        return Committed(Outcome.APPLIED)

    def _tidy(self, before: Table, after: CommitTableResponse) -> None:
        """Delete the metadata files that the table no longer lists, if ``write.metadata.delete-after-commit.enabled``.
        pyiceberg does so in its own commit only.
        """
        try:
            self.catalog._delete_old_metadata(before.io, before.metadata, after.metadata)
        except Exception as error:  # the commit was applied all the same
            _log.warning("old metadata files of table %s remain: %s", self.identifier, said(error))

    # --- reading ------------------------------------------------------------------------------------------------------

    def _view(self, table: Table) -> TableView:
        try:
            return self._viewed(table)
        except DamagedProperty:
            raise
        except DamagedChain as error:
            raise DamagedProperty(self.keys.chain, str(error)) from error

    def _viewed(self, table: Table) -> TableView:
        metadata = table.metadata
        if lacks_branch(metadata, self.keys.branch):
            raise MissingBranch(self.identifier, self.keys.branch)
        text = metadata.properties.get(self.keys.chain)
        stored = None if text is None else decode(text)
        lineage, parent, oldest = self._lineage(table)
        # some clients keep the id of an expired parent, pyiceberg forgets it: then the named snapshot is gone too
        named = None if stored is None else stored.snapshot_id
        specs = frozenset(metadata.specs())
        cut = parent is not None or (named is not None and metadata.snapshot_by_id(named) is None)
        before = None if oldest is None else rows_before(oldest)
        origins, shared = self._origins(metadata.properties), self._shares(metadata.properties)
        floors = self._floors(metadata.properties)
        return TableView(str(metadata.table_uuid), specs, lineage, cut, stored, origins, before, shared, floors)

    def _floors(self, properties: Mapping[str, str]) -> dict[TopicPartition, int]:
        try:
            found = json.loads(properties.get(self.keys.backfill, "{}"))
            return {TopicPartition(t, int(p)): int(at) for t, of in found.items() for p, at in of.items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise DamagedProperty(self.keys.backfill, f"damaged ({type(error).__name__}: {error})") from error

    def set_property(self, read: TableRead, name: str, value: str) -> Committed:
        """Commit one property."""
        return self._commit(read, (SetPropertiesUpdate(updates={name: value}),))

    def fill_back(self, read: TableRead, floors: Mapping[TopicPartition, int]) -> Committed:
        """Commit that a person asks for the records from these offsets on.  A running mirror reads and lands them."""
        found: dict[str, dict[str, int]] = {}
        for tp, floor in sorted({**read.view.floors, **floors}.items()):
            found.setdefault(tp.topic, {})[str(tp.partition)] = floor
        return self.set_property(read, self.keys.backfill, json.dumps(found))

    def name_tables(self, read: TableRead, uuids: Mapping[str, str]) -> Committed:
        """Commit that records named these tables."""
        named = {self.keys.named(name): found for name, found in uuids.items()}
        return self._commit(read, (SetPropertiesUpdate(updates=named),))

    def _shares(self, properties: Mapping[str, str]) -> dict[TopicPartition, StoredShare]:
        found, damaged = {}, {}
        for name, tp in self.keys.shares(properties).items():
            try:
                choice, since, sequence = json.loads(properties[name])
                tables = json.loads(properties[self.keys.choice(choice)])
                found[tp] = StoredShare(Sharing(choice, frozenset(tables)), int(since), int(sequence))
            except (KeyError, TypeError, ValueError) as error:
                damaged[name] = f"{type(error).__name__}: {error}"
        if damaged:
            raise DamagedProperty("', '".join(damaged), f"damaged ({'; '.join(damaged.values())})")
        return found

    def _origins(self, properties: Mapping[str, str]) -> dict[TopicPartition, Link]:
        found = {}
        for name, tp in self.keys.origins(properties).items():
            try:
                topic_id, origin = json.loads(properties[name])
                found[tp] = Link(topic_id, origin, origin)
            except (AssertionError, TypeError, ValueError) as error:
                raise DamagedProperty(name, f"damaged origin of {tp} ({type(error).__name__}: {error})") from error
        return found

    def _lineage(self, table: Table) -> tuple[tuple[Snapshot, ...], int | None, Any]:
        """The head and its ancestors down to the newest own snapshot: older ones change nothing.  Also the id of the
        next parent, if its snapshot is gone, and the last snapshot as pyiceberg has it.
        """
        found: list[Snapshot] = []
        at: Any = table.metadata.snapshot_by_name(self.keys.branch)
        parent = oldest = None
        while at is not None:
            oldest = at
            text = (at.summary.additional_properties if at.summary else {}).get(self.keys.summary)
            chain = None if text is None else replace(decode(text), rows=_counted(at)[TOTAL])
            found.append(Snapshot(at.snapshot_id, at.sequence_number or 0, chain))
            parent = None if chain is not None else at.parent_snapshot_id
            at = None if parent is None else table.metadata.snapshot_by_id(parent)
        return tuple(found), parent, oldest


def _main_at(snapshot_id: int) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate(ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=snapshot_id)  # type: ignore[call-arg] # by name


def _counted(snapshot: Any) -> dict[str, int | None]:
    """What a snapshot's summary says of rows, None where it does not."""
    said = snapshot.summary.additional_properties if snapshot.summary else {}
    return {name: int(said[name]) if str(said.get(name)).isdecimal() else None for name in (TOTAL, ADDED, DELETED)}


def rows_before(snapshot: Any) -> int | None:
    """How many rows the table had before a snapshot."""
    counted = _counted(snapshot)
    total = counted[TOTAL]
    return None if total is None else total - (counted[ADDED] or 0) + (counted[DELETED] or 0)


def foreign_rows(metadata: TableMetadata, branch: str, key: str) -> int | None:
    """How many rows of a branch may be of snapshots whose summary lacks this key, at most; None if they do not say.  An
    overwrite may take away as much as it adds; what a replace adds was there.
    """
    rows = found = 0
    for at in reversed([*ancestors_of(metadata.snapshot_by_name(branch), metadata)]):
        if (total := _counted(at)[TOTAL]) is None:
            return None
        if not (at.summary and key in at.summary.additional_properties):
            overwritten = at.summary is not None and at.summary.operation is Operation.OVERWRITE
            found += max(0, total - rows, (_counted(at)[ADDED] or 0) if overwritten else 0)
        rows, found = total, min(found, total)
    return found


def none_expired(metadata: TableMetadata) -> bool:
    """Whether the table has each snapshot that it ever had: each takes the next sequence number.  Those of format
    version 1 have none, and a table that had rows before its first number had such snapshots.
    Not noticed: such snapshots that have expired, if the last of them left no row.
    """
    numbered = {snapshot.sequence_number: snapshot for snapshot in metadata.snapshots}
    last = getattr(metadata, "last_sequence_number", -1)
    return len(numbered) == last and 0 not in numbered and (last == 0 or rows_before(numbered[1]) == 0)


def said(error: Exception) -> str:
    """The first line of a client's error: the rest of its message is the statement or the request."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
