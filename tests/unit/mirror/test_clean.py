"""What ``chsink mirror clean`` removes of real tables, and what it never does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlparse
from uuid import UUID, uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from chsink.errors import PreflightError
from chsink.mirror import clean
from chsink.mirror.clean import Cleaner, TableClean
from chsink.mirror.control import ControlUnanswered, Names
from chsink.mirror.events import DataWritten, Event, TableReference, encode
from chsink.mirror.files import DataFiles, data_file, entry_of
from chsink.mirror.known_tables import Target
from chsink.mirror.stop_reasons import Halted
from chsink.mirror.tables import MirrorTable, PropertyKeys, TableRead
from chsink.ports import Outcome
from chsink.statemachine.commit.chain import Chain, Link, read_chain, with_origin
from chsink.statemachine.ranges import TopicPartition

TP = TopicPartition("orders", 0)
KEYS = PropertyKeys("chsink-orders", "control")
SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))
BEGUN = with_origin(Chain(), TP, "id", 0)
DAY_MS = 86_400_000
NOW_MS = int(datetime.now(UTC).timestamp() * 1000)
Open = Callable[[], Catalog]


class Reader:
    """:class:`chsink.mirror.ports.EventReader` of one partition that holds these events; ``then`` happens at a read."""

    def __init__(self, values: list[bytes], then: Callable[[], None]) -> None:
        self.values, self.then, self.at = values, then, 0

    def logs(self) -> dict[int, tuple[int, int]]:
        return {0: (0, len(self.values))}

    def read_from(self, positions: Mapping[int, int]) -> None:
        self.at = positions[0]

    def poll(self, _: float) -> list[tuple[int, int, bytes]]:
        self.then()
        found, self.at = [(0, at, self.values[at]) for at in range(self.at, len(self.values))], len(self.values)
        return found

    def positions(self, _: Mapping[int, int]) -> dict[int, int]:
        return {0: self.at}

    def uncommitted(self, _partition: int, _offset: int) -> None:
        """There is none."""

    def close(self) -> None:
        """Nothing to release."""


@dataclass(frozen=True)
class Offsets:
    """:class:`chsink.mirror.ports.GroupReader` of the coordinators' group."""

    at: int

    def committed(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(tps, self.at)

    def close(self) -> None:
        """Nothing to release."""


class ControlTopic:
    """In place of :class:`chsink.mirror.control.Names`: the control topic, which the coordinators read up to ``at``."""

    topic, group, control_group = "control", "chsink-orders", "chsink-orders/control"

    def __init__(self) -> None:
        self.values: list[bytes] = [b"of another program"]
        self.at = 0
        self.then: Callable[[], None] = lambda: None

    def report(self, *files: DataFile) -> None:
        """Hand over files."""
        reference = TableReference("lake", ("shop",), "orders")
        written = DataWritten(UUID(int=0), reference, tuple(entry_of(file, 0) for file in files), None)
        self.values.append(encode(Event(uuid4(), datetime.now(UTC), self.group, written)))

    def reader(self) -> Reader:
        return Reader(self.values, self.then)

    def offsets(self, _: str) -> Offsets:
        return Offsets(self.at)


@dataclass
class Mirror:
    """One table, and what is cleaned of it, ten days later."""

    table: MirrorTable
    control: ControlTopic
    days: int = 10

    def cleaner(self, *, expire: bool = False) -> Cleaner:
        targets = {
            "shop.orders": Target(self.table, TableReference("lake", ("shop",), "orders"), frozenset({"orders"}))
        }
        names, now = cast("Names", self.control), NOW_MS + self.days * DAY_MS
        return Cleaner(names, targets, now, timedelta(days=3), expire=expire)

    def clean(self, *, expire: bool = False) -> TableClean:
        return self.cleaner(expire=expire).carry_out("shop.orders")

    @property
    def there(self) -> Table:
        return self.table.catalog.load_table("shop.orders")

    def write(self, *ids: int, days: int = 0) -> DataFile:
        """A file of an attempt, so many days younger than the others."""
        files = DataFiles(self.there.metadata, self.there.io, uuid4())
        files.write(pa.table({"id": list(ids)}, schema=self.there.schema().as_arrow()))
        [file] = files.close()
        at = NOW_MS / 1000 + days * 86_400
        os.utime(urlparse(file.file_path).path, (at, at))
        return data_file(entry_of(file, 0))

    def commit(self, until: int, *files: DataFile) -> None:
        read = self.table.read()
        assert read is not None
        chain = replace(read_chain(read.view).chain or BEGUN, links={TP: Link("id", 0, until)})
        assert self.table.append(read, files, chain, uuid4(), None).outcome is Outcome.APPLIED

    def rows(self) -> list[int]:
        return sorted(self.there.scan().to_arrow().column("id").to_pylist())

    def files(self) -> set[str]:
        root = Path(urlparse(self.there.location()).path)
        return {path.name for path in root.rglob("*") if path.is_file()}


def name(file: DataFile) -> str:
    return file.file_path.rpartition("/")[2]


@pytest.fixture
def mirror(open_catalog: Open) -> Mirror:
    open_catalog().create_table("shop.orders", SCHEMA)
    return Mirror(MirrorTable(open_catalog(), "shop.orders", KEYS), ControlTopic())


def test_only_old_files_that_nobody_needs_are_removed(mirror: Mirror) -> None:
    """⚑ O-5.  Not what is in a snapshot, not what waits for a commit, not what is young."""
    landed, waits, young, orphan = mirror.write(1), mirror.write(2), mirror.write(3, days=8), mirror.write(4)
    mirror.commit(1, landed)
    mirror.control.report(waits)
    planned = mirror.cleaner().plan("shop.orders")
    assert [file.name for file in planned.orphans] == [name(orphan)] and planned.bytes == orphan.file_size_in_bytes
    assert {name(file) for file in (landed, waits, young, orphan)} <= mirror.files()
    assert mirror.clean() == planned
    assert {name(landed), name(waits), name(young)} <= mirror.files() and name(orphan) not in mirror.files()
    mirror.commit(2, waits)
    assert mirror.rows() == [1, 2]


def test_files_below_the_coordinators_offset_are_orphans(mirror: Mirror) -> None:
    """A unit that was dropped as a duplicate."""
    dropped = mirror.write(1)
    mirror.control.report(dropped)
    mirror.control.at = len(mirror.control.values)
    assert [file.name for file in mirror.clean().orphans] == [name(dropped)]


def test_what_is_committed_while_it_looks_is_kept(mirror: Mirror) -> None:
    """⚑ The files were listed, then the commit came, then the coordinators' group moved."""
    file = mirror.write(1)

    def commits() -> None:
        mirror.control.then = lambda: None
        mirror.commit(1, file)

    mirror.control.then = commits
    assert mirror.clean().orphans == () and mirror.rows() == [1]


def test_nothing_is_removed_while_the_control_topic_cannot_be_read_to_its_end(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ An unread report may name any file."""
    mirror.write(1)
    monkeypatch.setattr("chsink.mirror.trail.STALLED_S", 0)
    monkeypatch.setattr(Reader, "poll", lambda *_: [])
    with pytest.raises(ControlUnanswered):
        mirror.clean()


def test_a_table_that_was_rolled_back_is_left_alone(mirror: Mirror) -> None:
    """⚑ Who undoes the rollback needs the files."""
    mirror.commit(1, mirror.write(1))
    first = mirror.there.current_snapshot()
    mirror.commit(2, mirror.write(2))
    assert first is not None
    mirror.there.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    with pytest.raises(Halted):
        mirror.clean(expire=True)


@pytest.mark.parametrize("path", ["/elsewhere", "/warehouse/shop/orders-too", "/warehouse"])
def test_files_outside_the_tables_location_are_not_touched(mirror: Mirror, tmp_path: Path, path: str) -> None:
    """⚑ Another table may have its files there."""
    mirror.there.transaction().set_properties({"write.data.path": f"file://{tmp_path}{path}"}).commit_transaction()
    mirror.write(1)
    with pytest.raises(PreflightError, match="outside its location"):
        mirror.clean()


def test_a_table_without_files_has_nothing_to_clean(mirror: Mirror) -> None:
    found = mirror.clean(expire=True)
    assert found.figures() == ("shop.orders", 0, 0, 0, 0, 0, 0)


def test_old_snapshots_expire_and_the_mirror_goes_on(mirror: Mirror) -> None:
    """⚑ Chain and rows stay; what only the old snapshots need is gone; branches and tags stay."""
    for number in range(5):
        mirror.commit(number + 1, mirror.write(number))
    snapshots = [snapshot.snapshot_id for snapshot in mirror.there.snapshots()]
    mirror.there.manage_snapshots().create_tag(snapshots[1], "audit").commit()
    mirror.there.manage_snapshots().create_branch(snapshots[2], "dev").commit()
    before = mirror.files()
    planned = mirror.cleaner(expire=True).plan("shop.orders")
    assert planned.snapshots == (snapshots[0], snapshots[3]) and mirror.files() == before
    mirror.clean(expire=True)
    assert [snapshot.snapshot_id for snapshot in mirror.there.snapshots()] == [*snapshots[1:3], snapshots[4]]
    assert len(planned.metadata_files) == 2  # the manifests are in later snapshots, too
    gone = {location.rpartition("/")[2] for location in planned.metadata_files}
    assert gone <= before and not gone & mirror.files()
    for ref in ("main", "audit", "dev"):
        assert mirror.there.scan(snapshot_id=mirror.there.metadata.refs[ref].snapshot_id).to_arrow().num_rows
    mirror.commit(6, mirror.write(5))
    assert mirror.rows() == list(range(6)) and mirror.clean(expire=True).orphans == ()
    assert mirror.rows() == list(range(6))


def test_the_mirrors_newest_snapshot_stays_behind_those_of_others(mirror: Mirror) -> None:
    """⚑ With a gap behind the head, its chain would look as if the table had been rolled back."""
    mirror.commit(1, mirror.write(1))
    mirror.commit(2, mirror.write(2))
    for number in range(3):
        mirror.there.append(pa.table({"id": [10 + number]}, schema=mirror.there.schema().as_arrow()))
    assert len(mirror.clean(expire=True).snapshots) == 1
    assert len(mirror.there.snapshots()) == 4
    mirror.commit(3, mirror.write(3))
    assert len(mirror.clean(expire=True).snapshots) == 4
    assert mirror.rows() == [1, 2, 3, 10, 11, 12]


@pytest.mark.parametrize(
    ("properties", "days", "gone"),
    [
        ({}, 4, 0),
        ({}, 6, 3),
        ({"history.expire.max-snapshot-age-ms": str(3 * DAY_MS)}, 4, 3),
        ({"history.expire.min-snapshots-to-keep": "3"}, 10, 1),
    ],
)
def test_the_tables_own_limits_decide(mirror: Mirror, properties: dict[str, str], days: int, gone: int) -> None:
    mirror.there.transaction().set_properties(properties).commit_transaction()
    for number in range(4):
        mirror.commit(number + 1, mirror.write(number))
    mirror.days = days
    assert len(mirror.clean(expire=True).snapshots) == gone
    assert mirror.rows() == [0, 1, 2, 3]


def test_a_commit_in_between_lets_it_look_again(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ The snapshots were chosen for another head."""
    for number in range(3):
        mirror.commit(number + 1, mirror.write(number))
    expire, tried = MirrorTable.expire, list[int]()

    def disturbed(table: MirrorTable, *arguments: Any) -> Any:
        if not tried:
            mirror.commit(4, mirror.write(3))
        tried.append(len(arguments[1]))
        return expire(table, *arguments)

    monkeypatch.setattr(MirrorTable, "expire", disturbed)
    mirror.clean(expire=True)
    assert tried == [2, 3] and len(mirror.there.snapshots()) == 1 and mirror.rows() == [0, 1, 2, 3]


def test_a_tag_that_is_new_keeps_its_snapshot(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ A tag that was made while files were read was removed with its snapshot: the catalog refuses no such commit."""
    for number in range(3):
        mirror.commit(number + 1, mirror.write(number))
    first = mirror.there.snapshots()[0].snapshot_id
    small = clean._small

    def tags(found: TableRead) -> Any:
        if "audit" not in mirror.there.metadata.refs:
            mirror.there.manage_snapshots().create_tag(first, "audit").commit()
        return small(found)

    monkeypatch.setattr(clean, "_small", tags)
    assert len(mirror.clean(expire=True).snapshots) == 1
    assert mirror.there.scan(snapshot_id=mirror.there.metadata.refs["audit"].snapshot_id).to_arrow().num_rows == 1


def test_a_table_into_which_another_sink_writes_is_left_alone(mirror: Mirror) -> None:
    """⚑ Files that waited for a commit of the other sink were removed: Kafka may not hold their records any more."""
    waits = mirror.write(1)
    other = replace(mirror.table, keys=PropertyKeys("chsink-other", "elsewhere"))
    read = other.read()
    assert read is not None and other.begin(read, BEGUN, [TP]).outcome is Outcome.APPLIED
    with pytest.raises(PreflightError, match=r"its property chsink\.chain\.main\.chsink-other says"):
        mirror.clean()
    assert name(waits) in mirror.files()


def test_small_files_are_counted(mirror: Mirror) -> None:
    mirror.commit(1, mirror.write(1), mirror.write(2))
    assert mirror.clean().figures()[-2:] == (2, 2)
    mirror.there.transaction().set_properties({"write.target-file-size-bytes": "100"}).commit_transaction()
    assert mirror.clean().figures()[-2:] == (2, 0)
