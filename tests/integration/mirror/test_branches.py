"""A mirror that commits to a branch of its own: what readers of main see, and what becomes of what they never see."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

from chsink.mirror.publish import publish
from chsink.mirror.stop_reasons import Halted
from chsink.statemachine.commit.resolve import TableVerdict
from tests.integration.mirror.bench import Bench
from tests.integration.mirror.commands import follow, run
from tests.support.told import Said, says, statements_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]
MakeBench = Callable[..., Bench]
THEIRS = Counter({(9, 0, 100): 1})
"""A row of another program."""


def land(bench: Bench, *ids: int) -> None:
    """By a driver that starts now."""
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce(ids))
    bench.rounds(coordinator, 2)


def publish_all(bench: Bench) -> None:
    for target in bench.targets().values():
        publish(target.table)


def test_readers_see_what_was_published(make_bench: MakeBench) -> None:
    """⚑ K-10: each record once, over restarts; the tables were new."""
    bench = make_bench(tables=("orders", "archive"), branch="audit")
    land(bench, 1, 2, 3)
    for name in bench.tables:
        assert bench.landed(name, "audit") == bench.sent() and bench.landed(name) == Counter()
    publish_all(bench)
    before = bench.sent()
    land(bench, 4, 5)
    for name in bench.tables:
        assert bench.landed(name, "audit") == bench.sent() and bench.landed(name) == before
    publish_all(bench)
    for name in bench.tables:
        assert bench.landed(name) == bench.sent()


@pytest.mark.parametrize("choice", [TableVerdict.REREAD, TableVerdict.SKIP])
def test_what_was_not_published_is_thrown_away(make_bench: MakeBench, choice: TableVerdict) -> None:
    """⚑ The branch begins anew from main, and a person decides what becomes of the records."""
    bench = make_bench(branch="audit")
    land(bench, 1, 2, 3)
    publish_all(bench)
    published = bench.sent()
    land(bench, 4, 5)
    bench.catalog().load_table("shop.orders").manage_snapshots().remove_branch("audit").commit()
    begin_branch(bench, "audit")
    with pytest.raises(Halted):
        bench.coordinator()
    thrown_away = bench.sent() - published
    bench.resolve(choice)
    land(bench, 6)
    publish_all(bench)
    left_out = Counter() if choice is TableVerdict.REREAD else thrown_away
    assert bench.landed() == bench.sent() - left_out


@pytest.mark.exit_of("MIRROR_MAIN_MOVED")
def test_others_committed_to_main(make_bench: MakeBench) -> None:
    """⚑ What waits for a commit meanwhile lands as well."""
    bench = make_bench(branch="audit")
    land(bench, 1)
    publish_all(bench)
    add_row(bench)
    land(bench, 2, 3)
    bench.hand_over(*bench.produce([4]))
    refused = run(bench, ["mirror", "publish"])
    assert refused.exit_code == 2 and "CHS-353" in refused.stderr, refused.output

    says(refused, "cherry-pick those snapshots of the branch that main does not contain, oldest first")
    bring_to_main(bench, refused, 2, 3)  # as Spark's cherrypick_snapshot: the same rows, in a snapshot without a chain
    follow(bench, refused, "--skip")

    land(bench, 5)
    assert run(bench, ["mirror", "publish"]).exit_code == 0
    assert bench.landed() == bench.sent() + THEIRS


def test_the_branch_was_rolled_back_behind_main(make_bench: MakeBench) -> None:
    """⚑ CHS-353 let its snapshots be cherry-picked, with rows that main had."""
    bench = make_bench(branch="audit")
    land(bench, 1)
    older = bench.catalog().load_table("shop.orders").metadata.snapshot_by_name("audit")
    land(bench, 2, 3)
    publish_all(bench)
    table = bench.catalog().load_table("shop.orders")
    table.manage_snapshots().remove_branch("audit").commit()
    assert older is not None
    table.manage_snapshots().create_branch(older.snapshot_id, "audit").commit()
    with pytest.raises(Halted):
        bench.coordinator()
    bench.resolve(TableVerdict.REREAD)
    land(bench, 4)
    refused = run(bench, ["mirror", "publish"])
    says(refused, "or rolled back (`resolve --reread` then lands rows that main may have)")
    bring_to_main(bench, refused, 4)
    follow(bench, refused, "--skip")
    land(bench, 5)
    publish_all(bench)
    assert bench.landed() == bench.sent()


def add_row(bench: Bench) -> None:
    """Others commit to main."""
    table = bench.catalog().load_table("shop.orders")
    row = {"id": [100], "name": ["x"], "_kafka_partition": [9], "_kafka_offset": [0]}
    table.append(pa.table(row, schema=table.schema().as_arrow()))


def bring_to_main(bench: Bench, said: Said, *ids: int) -> None:
    """The rows of the branch with these ids; then the branch begins anew, by the statement of the message."""
    [statement] = statements_of(said, "ALTER TABLE")
    named = re.fullmatch(r"ALTER TABLE (\S+) CREATE OR REPLACE BRANCH `(\S+)`", statement)
    assert named, statement
    table = bench.catalog().load_table(named[1])
    table.append(table.scan(" or ".join(f"id = {number}" for number in ids)).use_ref(named[2]).to_arrow())
    table.manage_snapshots().remove_branch(named[2]).commit()
    begin_branch(bench, named[2])


def begin_branch(bench: Bench, name: str) -> None:
    """From main."""
    table = bench.catalog().load_table("shop.orders")
    main = table.metadata.snapshot_by_name("main")
    assert main is not None
    table.manage_snapshots().create_branch(main.snapshot_id, name).commit()


@pytest.mark.exit_of("MIRROR_MAIN_UNSEEN")
@pytest.mark.parametrize("others", ["append", "delete"])
def test_others_committed_to_main_and_snapshots_expired(make_bench: MakeBench, others: str) -> None:
    """⚑ Main's head does not show it: it is the mirror's, which went on there for a while, or has no row.  What others
    deleted came back with the rows that only the branch had.
    """
    bench = make_bench(branch="main" if others == "append" else "audit")
    land(bench, 1)
    if others == "append":
        begin_branch(bench, "audit")
        add_row(bench)
        land(bench, 2)
        bench.branch = "audit"
    else:
        publish_all(bench)
        bench.catalog().load_table("shop.orders").delete("id = 1")
        land(bench, 2)
    land(bench, 3)
    bench.hand_over(*bench.produce([4]))
    table = bench.catalog().load_table("shop.orders")
    heads = {ref.snapshot_id for ref in table.metadata.refs.values()}
    older = [one.snapshot_id for one in table.snapshots() if one.snapshot_id not in heads]
    table.maintenance.expire_snapshots().by_ids(older).commit()
    refused = run(bench, ["mirror", "publish"])
    assert refused.exit_code == 2 and "CHS-353" in refused.stderr, refused.output

    says(refused, "if nobody else has committed to main, move main", "otherwise stop the mirror")
    says(refused, "insert into main the rows that only the branch has, without those that others deleted from main")
    deleted = Counter({(0, 0, 1): 1}) if others == "delete" else Counter()
    only = bench.landed("orders", "audit") - bench.landed() - deleted
    bring_to_main(bench, refused, *(number for _, _, number in only))
    follow(bench, refused, "--skip")

    says(refused, "and start the mirror again")
    land(bench, 5)
    assert run(bench, ["mirror", "publish"]).exit_code == 0
    assert bench.landed() == bench.sent() + (THEIRS if others == "append" else Counter()) - deleted


def test_the_branch_changes(make_bench: MakeBench) -> None:
    """⚑ From main to a branch that was made of it, and back: nothing twice, nothing left out."""
    bench = make_bench()
    land(bench, 1, 2)
    begin_branch(bench, "audit")
    bench.branch = "audit"
    land(bench, 3)
    publish_all(bench)
    bench.branch = "main"
    land(bench, 4)
    assert bench.landed() == bench.sent()
