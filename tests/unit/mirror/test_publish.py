"""A branch of the mirror's own, and main that moves to it: on real tables, and for every shape of a history."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.config import load
from chsink.errors import PreflightError
from chsink.findings import Severity
from chsink.mirror import checks
from chsink.mirror.expiry import expired
from chsink.mirror.opening import open_mirror
from chsink.mirror.publish import publish
from chsink.mirror.tables import MirrorTable, MissingBranch, PropertyKeys
from chsink.ports import Outcome
from chsink.statemachine.commit.chain import Link, Sharing, StoredShare, read_chain
from chsink.statemachine.commit.publish import BranchView, Publish, decide_publish
from chsink.statemachine.commit.resolve import Log, TableVerdict, resolved
from chsink.statemachine.commit.rules import CommitHalt
from tests.support.told import named_in, says
from tests.unit.mirror.test_tables import BEGUN, SCHEMA, TP, appended, chain_of, files, read, until

Open = Callable[[], Catalog]
AUDIT = PropertyKeys("chsink-orders", "control", "audit")


@pytest.fixture
def table(open_catalog: Open) -> MirrorTable:
    """The mirror's, which commits to its own branch."""
    open_catalog().create_table("shop.orders", SCHEMA)
    return MirrorTable(open_catalog(), "shop.orders", AUDIT)


@pytest.fixture
def begun(table: MirrorTable) -> MirrorTable:
    """With a branch that has no rows."""
    assert table._branched(read(table)).outcome is Outcome.APPLIED
    return table


def rows(table: MirrorTable, branch: str) -> list[int]:
    """What a reader of a branch sees."""
    there = table.catalog.load_table(table.identifier)
    snapshot = there.metadata.snapshot_by_name(branch)
    if snapshot is None:
        return []
    return sorted(there.scan(snapshot_id=snapshot.snapshot_id).to_arrow().column("id").to_pylist())


def foreign(table: MirrorTable, number: int) -> None:
    """Somebody commits to main."""
    there = table.catalog.load_table(table.identifier)
    there.append(pa.table({"id": [number], "name": ["x"]}, schema=there.schema().as_arrow()))


def recreate(table: MirrorTable) -> None:
    """The branch begins anew from main."""
    there = table.catalog.load_table(table.identifier)
    main = there.metadata.snapshot_by_name("main")
    assert main is not None
    there.manage_snapshots().remove_branch("audit").commit()
    table.catalog.load_table(table.identifier).manage_snapshots().create_branch(main.snapshot_id, "audit").commit()


def test_readers_see_what_was_published(table: MirrorTable) -> None:
    """⚑ K-10.  In a new table, the branch is made with the first commit."""
    assert table.begin(read(table), BEGUN, [TP]).outcome is Outcome.APPLIED
    now = read(table)
    assert table.append(now, files(now, 1), until(BEGUN, 6), uuid4(), None).outcome is Outcome.REFUSED
    appended(table, 6, 1)
    appended(table, 7, 2)
    assert rows(table, "audit") == [1, 2] and rows(table, "main") == []
    assert publish(table).snapshots == 2 and rows(table, "main") == [1, 2]
    appended(table, 8, 3)
    audited = read(table).view.head
    appended(table, 9, 4)
    assert rows(table, "main") == [1, 2]
    assert publish(table, audited).snapshots == 1 and rows(table, "main") == [1, 2, 3]
    assert publish(table, audited).snapshots == 0
    assert publish(table).snapshots == 1 and rows(table, "main") == [1, 2, 3, 4]
    assert publish(table).snapshots == 0
    assert chain_of(table).because == "CURRENT"


def test_nothing_to_publish(table: MirrorTable) -> None:
    done = publish(table)
    assert (done.before, done.after, done.snapshots) == (None, None, 0)


def test_a_branch_that_is_missing(table: MirrorTable) -> None:
    """⚑ K-10: a branch that began without main's snapshots could never be published."""
    foreign(table, 100)
    with pytest.raises(MissingBranch):
        table.read()
    there = table.catalog.load_table(table.identifier)
    head = there.metadata.snapshot_by_name("main")
    assert head is not None
    there.manage_snapshots().create_tag(head.snapshot_id, "audit").commit()
    with pytest.raises(MissingBranch):
        table.read()
    there = table.catalog.load_table(table.identifier)
    there.manage_snapshots().remove_tag("audit").create_branch(head.snapshot_id, "audit").commit()
    appended(table, 6, 1)
    publish(table)
    assert rows(table, "main") == [1, 100]


def test_main_that_moved_is_not_overrun(begun: MirrorTable) -> None:
    """⚑ Its rows would be gone for its readers."""
    appended(begun, 6, 1)
    publish(begun)
    foreign(begun, 100)
    appended(begun, 7, 2)
    with pytest.raises(PreflightError, match="CHS-353.*not an ancestor of it, as far as"):
        publish(begun)
    assert rows(begun, "main") == [1, 100]


def test_main_that_moves_meanwhile_is_not_overrun(begun: MirrorTable) -> None:
    """⚑ The catalog refuses: main is not where it was read."""
    appended(begun, 6, 1)
    publish(begun)
    appended(begun, 7, 2)
    stale = read(begun)
    foreign(begun, 100)
    assert stale.view.head is not None
    assert begun.publish(stale, stale.view.head, None).outcome is Outcome.REFUSED
    assert rows(begun, "main") == [1, 100]


def test_the_mirror_commits_while_main_moves(begun: MirrorTable) -> None:
    """Each requires its own branch alone."""
    appended(begun, 6, 1)
    before = read(begun)
    publish(begun)
    assert begun.append(before, files(before, 2), until(BEGUN, 7), uuid4(), None).outcome is Outcome.APPLIED
    assert rows(begun, "audit") == [1, 2] and rows(begun, "main") == [1]


@pytest.mark.exit_of("MIRROR_SNAPSHOT_NOT_THERE")
def test_a_snapshot_of_another_branch_is_not_published(begun: MirrorTable) -> None:
    appended(begun, 6, 1)
    publish(begun)
    there = begun.catalog.load_table(begun.identifier)
    main = there.metadata.snapshot_by_name("main")
    assert main is not None
    there.manage_snapshots().create_branch(main.snapshot_id, "another").commit()
    there.append(pa.table({"id": [100], "name": ["x"]}, schema=there.schema().as_arrow()), branch="another")
    head = there.metadata.snapshot_by_name("another")
    assert head is not None
    with pytest.raises(PreflightError, match="CHS-353.*has no snapshot") as refused:
        publish(begun, head.snapshot_id)
    says(refused.value, "name a snapshot of the branch: the table's metadata table `refs` has its newest one")
    appended(begun, 7, 2)
    refs = begun.catalog.load_table(begun.identifier).inspect.refs().to_pylist()
    publish(begun, next(ref["snapshot_id"] for ref in refs if ref["name"] == "audit"))
    assert rows(begun, "main") == [1, 2]


def test_the_way_out_after_others_committed(begun: MirrorTable) -> None:
    """What CHS-353 says: the branch's rows were brought to main by hand, and the branch begins anew from there."""
    appended(begun, 6, 1)
    publish(begun)
    foreign(begun, 100)
    appended(begun, 7, 2)
    foreign(begun, 2)  # stands for Spark's cherrypick_snapshot: the same rows, in a snapshot without a chain
    recreate(begun)
    assert chain_of(begun).halt is CommitHalt.ROLLED_BACK
    now = read(begun)
    log = Log("id", 0, 9, 7)
    assert resolved(now.view, {TP: log}, TableVerdict.REREAD) is None
    decided = resolved(now.view, {TP: log}, TableVerdict.SKIP)
    assert decided is not None and decided.chain.links[TP].until == 7
    assert begun.decide(now, decided.chain, uuid4()).outcome is Outcome.APPLIED
    appended(begun, 8, 3)
    publish(begun)
    assert rows(begun, "main") == [1, 2, 3, 100]


def test_what_is_not_published_may_be_thrown_away(begun: MirrorTable) -> None:
    """⚑ The branch begins anew from main: the records land again, or not, as a person decides."""
    appended(begun, 6, 1)
    publish(begun)
    appended(begun, 7, 2)
    recreate(begun)
    assert chain_of(begun).halt is CommitHalt.ROLLED_BACK
    again = resolved(read(begun).view, {TP: Log("id", 0, 9, 7)}, TableVerdict.REREAD)
    assert again is not None and again.chain.links[TP] == Link("id", 5, 6)


def test_the_mirror_changes_its_branch(table: MirrorTable) -> None:
    """⚑ A snapshot's own chain tells what it holds, whichever branch has it: nothing lands twice, nothing is left out."""
    on_main = replace(table, keys=replace(AUDIT, branch="main"))
    appended(on_main, 6, 1)
    there = table.catalog.load_table(table.identifier)
    head = there.metadata.snapshot_by_name("main")
    assert head is not None
    there.manage_snapshots().create_branch(head.snapshot_id, "audit").commit()
    found = chain_of(table)
    assert found.because == "PROPERTY_LOST" and found.chain is not None and found.chain.links[TP].until == 6
    appended(table, 7, 2)
    appended(table, 8, 3)
    publish(table)
    back = chain_of(on_main)
    assert back.because == "CURRENT" and back.chain is not None and back.chain.links[TP].until == 8


def test_what_is_not_published_does_not_expire(begun: MirrorTable) -> None:
    """⚑ Else nobody could see whether main may move forward."""
    appended(begun, 6, 1)
    publish(begun)
    for number in range(4):
        appended(begun, 7 + number, number)
    now, later = read(begun), 4_102_444_800_000
    chain = read_chain(now.view).chain
    assert chain is not None
    assert expired(now.table.metadata, chain.snapshot_id, later, "audit") == (now.table.snapshots()[0].snapshot_id,)
    assert len(expired(now.table.metadata, chain.snapshot_id, later)) == 4, "as a branch that nobody publishes"
    publish(begun)
    now = read(begun)
    assert len(expired(now.table.metadata, chain.snapshot_id, later, "audit")) == 5


@pytest.mark.exit_of("MIRROR_MAIN_UNSEEN")
def test_history_that_expired(begun: MirrorTable) -> None:
    appended(begun, 6, 1)
    publish(begun)
    for number in range(3):
        appended(begun, 7 + number, number)
    now = read(begun)
    middle = now.table.snapshots()[2].snapshot_id
    assert begun.expire(now, [middle]).outcome is Outcome.APPLIED
    with pytest.raises(PreflightError, match="CHS-353.*cannot tell") as refused:
        publish(begun)
    says(refused.value, "with Spark's procedure set_current_snapshot")
    snapshot = int(named_in(refused.value, "move main to"))
    there = begun.catalog.load_table(begun.identifier)
    there.manage_snapshots().set_current_snapshot(snapshot).commit()
    assert rows(begun, "main") == rows(begun, "audit") == [0, 1, 1, 2]
    appended(begun, 10, 9)
    publish(begun)
    assert rows(begun, "main") == [0, 1, 1, 2, 9]


def test_history_that_expired_after_others_committed_to_main(begun: MirrorTable) -> None:
    """⚑ Where the mirror alone committed, main was to be moved: that took the others' rows from its readers."""
    for number in range(2):
        appended(begun, 6 + number, number)
    assert begun.expire(read(begun), [read(begun).table.snapshots()[1].snapshot_id]).outcome is Outcome.APPLIED
    with pytest.raises(PreflightError, match="CHS-353.*cannot tell") as refused:
        publish(begun)
    snapshot = int(named_in(refused.value, "move main to"))
    begun.catalog.load_table(begun.identifier).manage_snapshots().set_current_snapshot(snapshot).commit()
    foreign(begun, 100)
    for number in range(2, 4):
        appended(begun, 6 + number, number)
    now = read(begun)
    heads = {ref.snapshot_id for ref in now.table.metadata.refs.values()}
    older = [one.snapshot_id for one in now.table.snapshots() if one.snapshot_id not in heads]
    assert begun.expire(now, older).outcome is Outcome.APPLIED
    with pytest.raises(PreflightError, match="CHS-353") as refused:
        publish(begun)
    says(refused.value, "if some of them have expired", "insert into main the rows that only the branch has instead")
    assert rows(begun, "main") == [0, 1, 100] and rows(begun, "audit") == [0, 1, 2, 3]


def test_the_mirror_goes_on_with_main(begun: MirrorTable) -> None:
    """⚑ What it keeps besides snapshots was left on the branch: CHS-352 for tables that share a topic, though table_by
    had not changed.  What it stored only after a published snapshot is not main's.
    """
    on_main, both = replace(begun, keys=replace(AUDIT, branch="main")), frozenset({"shop.orders", "shop.of_{value}"})
    began = StoredShare(Sharing("c", both), 5, 0)
    assert begun.begin(read(begun), BEGUN, [TP], {TP: began}).outcome is Outcome.APPLIED
    assert begun.name_tables(read(begun), {"shop.of_a": "its uuid"}).outcome is Outcome.APPLIED
    appended(begun, 6, 1)
    chain = chain_of(begun).chain
    assert chain is not None and begun.move(read(begun), until(chain, 9), uuid4()).outcome is Outcome.APPLIED
    publish(begun)
    found = read(on_main)
    assert read_chain(found.view).chain == chain_of(begun).chain and found.view.shared == {TP: began}
    assert on_main.keys.names(found.table.properties) == {"shop.of_a": "its uuid"}

    appended(begun, 10, 2)
    audited = read(begun).view.head
    appended(begun, 11, 3)
    chain = chain_of(begun).chain
    assert chain is not None
    later = StoredShare(Sharing("d", both), 11, chain.sequence)
    assert begun.begin(read(begun), chain, [], {TP: later}).outcome is Outcome.APPLIED
    publish(begun, audited)
    assert read(on_main).view.shared == {TP: began}
    publish(begun)
    assert read(on_main).view.shared == {TP: later}


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[int, int | None], int | None, int, int]:
    """Parents by snapshot; the heads of main and of the branch, and the snapshot to publish."""
    parents: dict[int, int | None] = {}
    for number in range(draw(st.integers(1, 8))):
        parents[number] = draw(st.sampled_from([None, *parents])) if number else None
    heads = draw(st.tuples(st.sampled_from([None, *parents]), st.sampled_from([*parents]), st.sampled_from([*parents])))
    return parents, *heads


@given(histories())
def test_main_only_moves_forward(history: tuple[dict[int, int | None], int | None, int, int]) -> None:
    """⚑ Whatever the history: where main moves, it keeps each snapshot that it had, and gets only the branch's own."""
    parents, main, branch, target = history

    def lineage(at: int | None) -> tuple[int, ...]:
        return () if at is None else (at, *lineage(parents[at]))

    on_branch = target in lineage(branch)
    view = BranchView(lineage(target), lineage(main), on_branch)
    verdict = decide_publish(view).verdict
    if verdict is Publish.MOVE:
        assert set(lineage(main)) < set(lineage(target)) <= set(lineage(branch))
    if set(lineage(main)) < set(lineage(target)) and on_branch:
        assert verdict is Publish.MOVE


def job(folder: Path, branch: str) -> Path:
    """The same mirror, as a user writes it."""
    file = folder / "job.toml"
    catalog = f'type = "sql", uri = "sqlite:///{folder}/catalog.db", warehouse = "file://{folder}/warehouse"'
    file.write_text(
        f'[sink]\nname = "orders"\n[kafka]\nbootstrap = "localhost:1"\n[mirror]\nenabled = true\nbranch = "{branch}"\n'
        f'catalog = {{ name = "lake", {catalog} }}\n[[mirror.route]]\ntopic = "orders"\ntable = "shop.orders"\n',
        encoding="utf-8",
    )
    return file


def test_doctor_names_a_missing_branch(table: MirrorTable, tmp_path: Path) -> None:
    foreign(table, 100)
    mirror = open_mirror(load(job(tmp_path, "audit")), cast("Any", SimpleNamespace(topics=list)))
    [finding] = checks._table(mirror, mirror.targets["shop.orders"])
    assert (finding.severity, finding.id) == (Severity.ERROR, "CHS-262")


def test_the_command(begun: MirrorTable, tmp_path: Path) -> None:
    """It asks nothing of Kafka."""
    appended(begun, 6, 1)
    run = CliRunner()
    said = run.invoke(app, ["mirror", "publish", "-c", str(job(tmp_path, "audit")), "--json"])
    [done] = json.loads(said.stdout)["tables"]
    assert (said.exit_code, done["snapshots"], done["after"]) == (0, 1, read(begun).view.head)
    again = run.invoke(app, ["mirror", "publish", "shop.orders", "-c", str(job(tmp_path, "audit"))])
    assert again.exit_code == 0 and again.stdout.splitlines()[1].split()[-1] == "0"
    foreign(begun, 100)
    appended(begun, 7, 2)
    refused = run.invoke(app, ["mirror", "publish", "-c", str(job(tmp_path, "audit"))])
    assert refused.exit_code == 2 and "CHS-353" in refused.stderr and "cherrypick_snapshot" in refused.stderr
    missing = run.invoke(app, ["mirror", "publish", "-c", str(job(tmp_path, "other"))])
    assert missing.exit_code == 2 and "CHS-262" in missing.stderr
    main = run.invoke(app, ["mirror", "publish", "-c", str(job(tmp_path, "main"))])
    assert main.exit_code == 2 and "mirror.branch is main" in main.stderr
