"""Commits to a real catalog: what they require, what they store, and what is read of them afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from uuid import UUID, uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField, StringType

from chsink.mirror.files import DataFiles, data_file, entry_of
from chsink.mirror.tables import COMMIT_ID, VALID_THROUGH, DamagedProperty, MirrorTable, PropertyKeys, TableRead
from chsink.ports import Outcome
from chsink.statemachine.commit.chain import (
    Chain,
    DamagedChain,
    Link,
    Reading,
    Sharing,
    StoredShare,
    read_chain,
    with_origin,
)
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.ranges import TopicPartition

TP = TopicPartition("orders", 0)
KEYS = PropertyKeys("chsink-orders", "control")
SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))
Open = Callable[[], Catalog]


@pytest.fixture
def table(open_catalog: Open) -> MirrorTable:
    open_catalog().create_table("shop.orders", SCHEMA)
    return MirrorTable(open_catalog(), "shop.orders", KEYS)


def read(table: MirrorTable) -> TableRead:
    found = table.read()
    assert found is not None
    return found


def chain_of(table: MirrorTable) -> Reading:
    return read_chain(read(table).view)


def files(found: TableRead, *ids: int) -> list[DataFile]:
    rows = pa.table({"id": ids, "name": [str(n) for n in ids]}, schema=found.table.schema().as_arrow())
    written = DataFiles(found.table.metadata, found.table.io, uuid4())
    written.write(rows)
    return [data_file(entry_of(file, 0)) for file in written.close()]


def held(table: MirrorTable) -> list[int]:
    return sorted(read(table).table.scan().to_arrow().column("id").to_pylist())


BEGUN = with_origin(Chain(), TP, "id", 5)


def until(chain: Chain, offset: int) -> Chain:
    return replace(chain, links={TP: replace(chain.links[TP], until=offset)}, control_id="c", control={0: 7, 1: 3})


def appended(table: MirrorTable, offset: int, *ids: int) -> None:
    now = read(table)
    chain = read_chain(now.view).chain or BEGUN
    assert table.append(now, files(now, *ids), until(chain, offset), uuid4(), None).outcome is Outcome.APPLIED


def test_a_table_that_is_not_there(open_catalog: Open) -> None:
    assert MirrorTable(open_catalog(), "shop.nothing", KEYS).read() is None


def test_an_append_is_one_snapshot_with_its_chain_in_both_places(table: MirrorTable) -> None:
    """K-1, K-3, K-4."""
    before = read(table)
    done = table.append(before, [*files(before, 1, 2), *files(before, 3)], until(BEGUN, 9), UUID(int=7), 1234)
    assert done.outcome is Outcome.APPLIED
    after = read(table)
    snapshot: Any = after.table.current_snapshot()
    assert len(after.table.snapshots()) == 1 and snapshot.snapshot_id == done.snapshot_id
    assert snapshot.summary.operation.value == "append"
    assert snapshot.summary[COMMIT_ID] == str(UUID(int=7)) and snapshot.summary[VALID_THROUGH] == "1234"
    assert json.loads(snapshot.summary["kafka.connect.offsets.control.chsink-orders"]) == {"0": 7, "1": 3}
    found = chain_of(table)
    assert found.because == "CURRENT" and found.chain is not None
    assert found.chain.links == {TP: Link("id", 5, 9)} and found.chain.snapshot_id == done.snapshot_id
    assert found.chain.commit_id == str(UUID(int=7)) and held(table) == [1, 2, 3]


def test_how_many_rows_may_be_of_others(table: MirrorTable) -> None:
    """⚑ Only those from before the mirror counted: a backfill landed the others twice."""
    rows = pa.table({"id": [7, 8], "name": ["x", "y"]}, schema=read(table).table.schema().as_arrow())

    def others() -> int | None:
        return table.foreign_rows(read(table))

    assert others() == 0
    appended(table, 6, 1, 2, 3)
    assert others() == 0
    read(table).table.append(rows)
    appended(table, 7, 4)
    assert others() == 2
    read(table).table.delete("id < 8")
    assert others() == 1, "no more than there are"
    now = read(table).table
    now.maintenance.expire_snapshots().by_ids([now.snapshots()[0].snapshot_id]).commit()
    assert others() is None


def test_rows_of_others_that_came_in_place_of_the_mirrors(table: MirrorTable) -> None:
    """⚑ Found by a reviewer: an INSERT OVERWRITE of fewer rows than it removed counted for nothing."""
    appended(table, 6, 1, 2, 3)
    now = read(table).table
    rows = pa.table({"id": [7, 8], "name": ["x", "y"]}, schema=now.schema().as_arrow())
    old = [task.file for task in now.scan().plan_files()]
    with now.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        for file in old:
            overwrite.delete_data_file(file)
        for file in _dataframe_to_data_files(now.metadata, rows, now.io):
            overwrite.append_data_file(file)
    assert table.foreign_rows(read(table)) == 2


def test_a_move_makes_no_snapshot(table: MirrorTable) -> None:
    """⚑ K-2, D20."""
    appended(table, 9, 1)
    now = read(table)
    chain = chain_of(table).chain
    assert chain is not None
    assert table.move(now, until(chain, 12), uuid4()).outcome is Outcome.APPLIED
    found = chain_of(table)
    assert found.because == "CURRENT" and found.chain is not None and found.chain.links[TP].until == 12
    assert len(read(table).table.snapshots()) == 1


def test_an_origin_is_stored_before_the_first_snapshot(table: MirrorTable) -> None:
    assert chain_of(table) == Reading("NEW", None)
    assert table.move(read(table), BEGUN, uuid4()).outcome is Outcome.APPLIED
    assert chain_of(table).chain == replace(BEGUN, commit_id=chain_of(table).chain.commit_id)  # type: ignore[union-attr]
    appended(table, 6, 1)
    assert chain_of(table).because == "CURRENT"


def test_a_late_commit_of_the_property_takes_no_topic_partition_away(table: MirrorTable) -> None:
    """⚑ It requires a head that did not change.  Without its origin, the table would halt: CHAIN_MISSING."""
    other = TopicPartition("or.ders", 1)
    stale = read(table)
    assert table.begin(stale, BEGUN, [TP]).outcome is Outcome.APPLIED
    assert table.begin(read(table), with_origin(BEGUN, other, "id2", 3), [other]).outcome is Outcome.APPLIED
    assert table.move(stale, BEGUN, uuid4()).outcome is Outcome.APPLIED
    chain = chain_of(table).chain
    assert chain is not None and chain.links == {TP: Link("id", 5, 5), other: Link("id2", 3, 3)}
    now = read(table)
    assert len(table.keys.origins(now.table.properties)) == 2
    landed = replace(chain, links={**chain.links, TP: Link("id", 5, 6)})
    assert table.append(now, files(now, 1), landed, uuid4(), None).outcome is Outcome.APPLIED
    assert table.keys.origins(read(table).table.properties) == {}
    later = chain_of(table).chain
    assert later is not None and later.links == {TP: Link("id", 5, 6), other: Link("id2", 3, 3)}


def test_a_late_commit_and_a_later_one_do_not_both_land(table: MirrorTable) -> None:
    """⚑ Whichever of two appends, or of an append and a property, comes second requires a head that is gone."""
    assert table.begin(read(table), BEGUN, [TP]).outcome is Outcome.APPLIED
    stale = read(table)
    moved = until(BEGUN, 7)
    appended(table, 6, 1)
    assert table.append(stale, files(stale, 1), until(BEGUN, 6), uuid4(), None).outcome is Outcome.REFUSED
    assert table.move(stale, moved, uuid4()).outcome is Outcome.REFUSED
    assert table.decide(stale, moved, uuid4()).outcome is Outcome.REFUSED
    assert table.begin(stale, BEGUN, [TP]).outcome is Outcome.REFUSED
    assert held(table) == [1]


def test_a_late_append_replaces_a_property_with_a_chain_that_is_its_content(table: MirrorTable) -> None:
    """⚑ A commit of the property alone does not change the head.  What it moved past has no files: it is read again."""
    other = TopicPartition("orders", 1)
    both = with_origin(BEGUN, other, "id", 0)
    assert table.begin(read(table), both, [TP, other]).outcome is Outcome.APPLIED
    stale = read(table)
    moved = replace(both, links={**both.links, other: Link("id", 0, 3)})
    assert table.move(stale, moved, uuid4()).outcome is Outcome.APPLIED
    assert table.append(stale, files(stale, 1), until(both, 6), uuid4(), None).outcome is Outcome.APPLIED
    found = chain_of(table)
    assert found.because == "CURRENT" and found.chain is not None
    assert found.chain.links == {TP: Link("id", 5, 6), other: Link("id", 0, 0)} and held(table) == [1]


def test_a_damaged_origin_is_named(table: MirrorTable) -> None:
    with table.catalog.load_table(table.identifier).transaction() as changed:
        changed.set_properties({table.keys.origin(TP): "5"})
    with pytest.raises(DamagedChain, match="origin of orders-0"):
        table.read()


def test_a_share_that_is_stored_late_leaves_those_of_other_partitions(table: MirrorTable) -> None:
    """Seed 357 of the simulator: one property for a whole topic lost what another commit had stored meanwhile."""
    other, gone, both = TopicPartition("orders", 1), Sharing(), Sharing("both", frozenset({"shop.orders", "shop.rest"}))
    begun = with_origin(BEGUN, other, "id", 0)
    late = read(table)
    assert table.begin(late, begun, [TP, other], {other: StoredShare(both, 4, 2)}).outcome is Outcome.APPLIED
    assert table.begin(late, BEGUN, [TP], {TP: StoredShare(gone, 0, 0)}).outcome is Outcome.APPLIED

    assert read(table).view.shared == {TP: StoredShare(gone, 0, 0), other: StoredShare(both, 4, 2)}


@pytest.mark.parametrize(("name", "value"), [("share", "5"), ("share", '["never stored", 0, 0]'), ("choice", "5")])
def test_a_damaged_share_is_named(table: MirrorTable, name: str, value: str) -> None:
    table.begin(read(table), BEGUN, [TP], {TP: StoredShare(Sharing("a", frozenset({"shop.orders"})), 0, 0)})
    with table.catalog.load_table(table.identifier).transaction() as changed:
        changed.set_properties({table.keys.share(TP) if name == "share" else table.keys.choice("a"): value})
    with pytest.raises(DamagedChain, match="damaged") as found:
        table.read()
    assert isinstance(found.value, DamagedProperty) and found.value.name == table.keys.share(TP)


def test_a_stale_commit_is_refused_whatever_the_table_says(table: MirrorTable) -> None:
    """⚑ K-8, Z-5: with ``commit.retry.num-retries``, pyiceberg's own commit would land on the new head."""
    table.catalog.load_table("shop.orders").transaction().set_properties(
        {"commit.retry.num-retries": "9"}
    ).commit_transaction()
    stale = read(table)
    appended(table, 9, 1)
    done = table.append(stale, files(stale, 2), until(BEGUN, 9), uuid4(), None)
    assert done.outcome is Outcome.REFUSED and "main" in done.reason
    assert table.move(stale, BEGUN, uuid4()).outcome is Outcome.REFUSED
    assert held(table) == [1]


def test_a_commit_after_the_spec_changed_keeps_the_files_spec(table: MirrorTable) -> None:
    """⚑ K-7: in a manifest of the new spec, a filter would not find their rows."""
    stale = read(table)
    with table.catalog.load_table("shop.orders").update_spec() as change:
        change.add_field("id", BucketTransform(4), "bucket")
    assert table.append(stale, files(stale, 1), until(BEGUN, 9), uuid4(), None).outcome is Outcome.APPLIED
    now = read(table)
    assert now.table.inspect.files().column("spec_id").to_pylist() == [0] and now.table.spec().spec_id == 1
    assert now.table.scan(row_filter="id = 1").to_arrow().num_rows == 1


def test_a_commit_to_a_table_that_was_made_again_is_refused(table: MirrorTable) -> None:
    stale = read(table)
    table.catalog.drop_table("shop.orders")
    table.catalog.create_table("shop.orders", SCHEMA)
    assert table.move(stale, BEGUN, uuid4()).outcome is Outcome.REFUSED


def test_a_lost_answer_is_unknown_and_the_chain_tells(table: MirrorTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ K-9: applied, answer lost: one snapshot."""
    commit = type(table.catalog).commit_table

    def unanswered(*arguments: Any) -> None:
        commit(*arguments)
        raise CommitStateUnknownException("502")

    now = read(table)
    with monkeypatch.context() as patch:
        patch.setattr(type(table.catalog), "commit_table", unanswered)
        done = table.append(now, files(now, 1), until(BEGUN, 9), UUID(int=3), None)
    assert done.outcome is Outcome.UNKNOWN
    found = chain_of(table).chain
    assert found is not None and found.commit_id == str(UUID(int=3)) and found.links[TP].until == 9


def test_a_commit_that_cannot_be_written_is_refused(table: MirrorTable, monkeypatch: pytest.MonkeyPatch) -> None:
    now = read(table)
    written = files(now, 1)
    monkeypatch.setattr(MirrorTable, "_appended", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    assert table.append(now, written, until(BEGUN, 9), uuid4(), None).outcome is Outcome.REFUSED


def test_other_writers_do_not_hide_the_chain(table: MirrorTable) -> None:
    """K-5, R-9."""
    appended(table, 9, 1)
    foreign = table.catalog.load_table("shop.orders")
    foreign.append(pa.table({"id": [100], "name": ["x"]}, schema=foreign.schema().as_arrow()))
    assert chain_of(table).because == "CURRENT"
    foreign.maintenance.expire_snapshots().by_id(foreign.snapshots()[0].snapshot_id).commit()
    found = chain_of(table)
    assert found.because == "EXPIRED" and found.chain is not None and found.chain.links[TP].until == 9
    appended(table, 11, 2)
    assert chain_of(table).because == "CURRENT" and held(table) == [1, 2, 100]


def test_a_replaced_head_is_noticed(table: MirrorTable) -> None:
    """⚑ A head without parents while the named snapshot is still there: the table's content was replaced."""
    appended(table, 9, 1)
    first = read(table).view.head
    foreign = table.catalog.load_table("shop.orders")
    foreign.manage_snapshots().remove_branch("main").commit()
    foreign.append(pa.table({"id": [100], "name": ["x"]}, schema=foreign.schema().as_arrow()))
    now = read(table)
    assert [s.snapshot_id for s in now.view.lineage] != [first] and not now.view.cut
    assert chain_of(table).halt is CommitHalt.ROLLED_BACK


def test_a_lost_property_is_read_from_the_snapshot(table: MirrorTable) -> None:
    appended(table, 9, 1)
    before = chain_of(table).chain
    table.catalog.load_table("shop.orders").transaction().remove_properties(KEYS.chain).commit_transaction()
    assert chain_of(table) == Reading("PROPERTY_LOST", before)


def test_a_rollback_is_noticed(table: MirrorTable) -> None:
    """⚑ R-6: properties survive it."""
    appended(table, 9, 1)
    first = read(table).view.head
    appended(table, 11, 2)
    assert first is not None
    table.catalog.load_table("shop.orders").manage_snapshots().rollback_to_snapshot(first).commit()
    assert read(table).view.head == first
    assert chain_of(table).halt is CommitHalt.ROLLED_BACK


@pytest.mark.parametrize("rolled_back", [True, False])
def test_a_rollback_is_noticed_after_compaction_and_expiry(table: MirrorTable, *, rolled_back: bool) -> None:
    """⚑ The rows of the last commit were gone without a word."""
    appended(table, 9, 1)
    first = read(table).view.head
    appended(table, 11, 2)
    assert first is not None
    if rolled_back:
        table.catalog.load_table("shop.orders").manage_snapshots().rollback_to_snapshot(first).commit()
    foreign = table.catalog.load_table("shop.orders")
    old = [snapshot.snapshot_id for snapshot in foreign.snapshots()]
    foreign.append(pa.table({"id": [100], "name": ["x"]}, schema=foreign.schema().as_arrow()))
    foreign.maintenance.expire_snapshots().by_ids(old).commit()
    found = chain_of(table)
    assert found.because == ("ROWS_GONE" if rolled_back else "EXPIRED")
    assert found.halt is (CommitHalt.ROWS_GONE if rolled_back else None)


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_old_metadata_files_are_deleted_if_the_table_says_so(table: MirrorTable, enabled: str) -> None:
    """Pyiceberg obeys these properties in its own commit only.  One file is the present one, the others are listed."""
    settings = {"write.metadata.delete-after-commit.enabled": enabled, "write.metadata.previous-versions-max": "3"}
    table.catalog.load_table("shop.orders").transaction().set_properties(settings).commit_transaction()
    for number in range(6):
        appended(table, 6 + number, number)
    now = read(table).table
    assert len(now.metadata.metadata_log) == 3
    files = [*Path(urlparse(now.location()).path).rglob("*.metadata.json")]
    assert len(files) == (4 if enabled == "true" else 8)
    names = {file.name for file in files}
    assert all(log.metadata_file.rpartition("/")[2] in names for log in now.metadata.metadata_log)
    assert held(table) == [*range(6)]


def test_two_sinks_share_a_table_without_seeing_each_other(table: MirrorTable) -> None:
    appended(table, 9, 1)
    other = MirrorTable(table.catalog, "shop.orders", PropertyKeys("chsink-other", "control"))
    assert chain_of(other) == Reading("NEW", None)


def test_five_commits_of_three_files_are_five_snapshots(table: MirrorTable) -> None:
    for number in range(5):
        now = read(table)
        chain = read_chain(now.view).chain or BEGUN
        three = [*files(now, number), *files(now, 10 + number), *files(now, 20 + number)]
        assert table.append(now, three, until(chain, 6 + number), uuid4(), None).outcome is Outcome.APPLIED
    assert len(read(table).table.snapshots()) == 5 and len(held(table)) == 15


def test_a_commit_of_two_thousand_files_is_one_manifest(table: MirrorTable) -> None:
    """O-2: and one snapshot.  ``make bench`` measures ten thousand."""
    now = read(table)
    [file] = files(now, 1)
    names = [f"{file.file_path}-{number}" for number in range(2000)]
    many = [data_file({**entry_of(file, 0), "file_path": name}) for name in names]
    assert table.append(now, many, until(BEGUN, 6), uuid4(), None).outcome is Outcome.APPLIED
    after = read(table).table
    head = after.current_snapshot()
    assert head is not None
    [manifest] = head.manifests(after.io)
    assert sorted(e.data_file.file_path for e in manifest.fetch_manifest_entry(after.io)) == sorted(names)
    assert len(after.snapshots()) == 1


def test_a_table_that_was_created_again_with_the_earlier_ones_properties(
    table: MirrorTable, open_catalog: Open
) -> None:
    """⚑ As from SHOW CREATE TABLE: the chain in them speaks of rows that this table does not hold."""
    appended(table, 9, 1, 2)
    properties = read(table).table.properties
    open_catalog().drop_table("shop.orders")
    open_catalog().create_table("shop.orders", SCHEMA, properties=properties)
    assert chain_of(table) == Reading("ROLLED_BACK", None, CommitHalt.ROLLED_BACK)
