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
from tests.support.told import says, statements_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]
MakeBench = Callable[..., Bench]


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
    table = bench.catalog().load_table("shop.orders")
    main = table.metadata.snapshot_by_name("main")
    assert main is not None
    table.manage_snapshots().remove_branch("audit").commit()
    bench.catalog().load_table("shop.orders").manage_snapshots().create_branch(main.snapshot_id, "audit").commit()
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
    others = bench.catalog().load_table("shop.orders")
    row = {"id": [100], "name": ["x"], "_kafka_partition": [9], "_kafka_offset": [0]}
    others.append(pa.table(row, schema=others.schema().as_arrow()))
    land(bench, 2, 3)
    bench.hand_over(*bench.produce([4]))
    refused = run(bench, ["mirror", "publish"])
    assert refused.exit_code == 2 and "CHS-353" in refused.stderr, refused.output

    says(refused, "cherry-pick those snapshots of the branch that main does not contain, oldest first")
    [statement] = statements_of(refused, "ALTER TABLE")
    named = re.fullmatch(r"ALTER TABLE (\S+) CREATE OR REPLACE BRANCH `(\S+)`", statement)
    assert named, statement
    table = bench.catalog().load_table(named[1])
    mine = table.scan("id in (2, 3)").use_ref(named[2]).to_arrow()
    table.append(mine)  # as Spark's cherrypick_snapshot: the same rows, in a snapshot without a chain
    main = table.metadata.snapshot_by_name("main")
    assert main is not None
    table.manage_snapshots().remove_branch(named[2]).commit()
    bench.catalog().load_table(named[1]).manage_snapshots().create_branch(main.snapshot_id, named[2]).commit()
    follow(bench, refused, "--skip")

    land(bench, 5)
    assert run(bench, ["mirror", "publish"]).exit_code == 0
    assert bench.landed() - bench.sent() == {(9, 0, 100): 1} and not bench.sent() - bench.landed()


def test_the_branch_changes(make_bench: MakeBench) -> None:
    """⚑ From main to a branch that was made of it, and back: nothing twice, nothing left out."""
    bench = make_bench()
    land(bench, 1, 2)
    table = bench.catalog().load_table("shop.orders")
    head = table.metadata.snapshot_by_name("main")
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "audit").commit()
    bench.branch = "audit"
    land(bench, 3)
    publish_all(bench)
    bench.branch = "main"
    land(bench, 4)
    assert bench.landed() == bench.sent()
