"""``chsink mirror resolve --skip``: nothing lands twice, and nothing is given up that need not be."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from chsink.errors import ChsinkError, HaltError
from chsink.mirror.opening import OpenMirror
from chsink.mirror.resolve import carry_out, decide
from chsink.mirror.stop_reasons import Halted
from chsink.mirror.task import Share
from chsink.statemachine.commit.resolve import TableVerdict
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.ranges import OffsetRange
from tests.integration.mirror.bench import SCHEMA, Bench
from tests.integration.mirror.commands import follow
from tests.integration.mirror.conftest import MakeBench
from tests.integration.mirror.test_recover import chsink, lose, lost_and_rewritten, recovered
from tests.integration.mirror.test_table_by import job_of, mirror_of, offsets, running, send
from tests.support.job import eventually

pytestmark = [pytest.mark.slow, pytest.mark.soak]


def test_a_table_that_lost_its_chain(make_bench: MakeBench) -> None:
    """⚑ What was handed over of a partition without a row, and had not landed yet, was given up without a word."""
    bench = make_bench(partitions=3)
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2, 3]))
    bench.round(first)
    bench.catalog().load_table("shop.orders").delete("id = 2")
    lose(bench, tables=["orders"])
    bench.hand_over(*bench.produce([4]))
    bench.hand_over(*bench.produce([5], 1), 1)
    done = chsink(bench, "resolve", "shop.orders", "--skip", "--yes", "--json")
    assert done.exit_code == 0, done.output
    keys = ("partition", "continues_at", "because", "given_up")
    assert [tuple(one[key] for key in keys) for one in json.loads(done.stdout)["changes"]] == [
        (0, 3, "its last row", "[1, 2)"),
        (1, 0, "it holds no row", None),
        (2, 0, "it holds no row", None),
    ]
    bench.rounds(bench.coordinator(), 2)
    assert sorted(n for _, _, n in bench.landed().elements()) == [1, 3, 4, 5]
    assert "no records" in chsink(bench, "backfill", "shop.orders").stdout


def test_a_chain_that_lacks_one_topic_partition(make_bench: MakeBench) -> None:
    """⚑ Its rows were not asked for: ``--reread`` landed them again, and so did ``--skip`` if the group was below."""
    bench = make_bench(partitions=2)
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1]))
    bench.hand_over(*bench.produce([2, 3], 1), 1)
    bench.round(first)
    first.close()
    bench.coordinators.clear()
    table = bench.targets()["shop.orders"].table
    read = table.read()
    assert read is not None and read.view.stored is not None
    links = read.view.stored.links
    table.move(read, replace(read.view.stored, links={bench.tp(): links[bench.tp()]}), uuid.uuid4())
    refused = chsink(bench, "resolve", "shop.orders", "--reread", "--yes")
    assert refused.exit_code == 2 and "CHS-348" in refused.stderr
    bench.delete_groups(bench.group)
    shown = chsink(bench, "resolve", "shop.orders", "--skip", "--yes")
    assert "its last row" in shown.stdout and "the table's chain" in shown.stdout, shown.output
    later = bench.coordinator()
    bench.hand_over(*bench.produce([4], 1), 1)
    bench.round(later)
    assert bench.landed() == bench.sent()


def test_a_table_whose_chain_was_set_back_and_that_was_set_to_a_snapshot_beside_its_history(
    make_bench: MakeBench,
) -> None:
    """⚑ ``--skip`` continued where the chain ended, and the rows behind that landed again."""
    bench = make_bench()
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2, 3]))
    bench.round(first)
    lose(bench)
    table = bench.catalog().load_table("shop.orders")
    whole = table.current_snapshot()
    assert whole is not None
    table.delete("id = 3")
    assert recovered(bench)[0]["continues_at"] == 2
    set_to(bench, whole.snapshot_id)
    refused = chsink(bench, "resolve", "shop.orders", "--reread", "--yes")
    assert refused.exit_code == 2 and "CHS-348" in refused.output
    shown = chsink(bench, "resolve", "shop.orders", "--skip", "--yes", "--json")
    [change] = json.loads(shown.stdout)["changes"]
    assert (change["held_until"], change["continues_at"], change["because"]) == (2, 3, "its last row")
    lands_from(bench, 2)


def test_a_table_that_is_set_to_a_newer_snapshot_after_reread(make_bench: MakeBench) -> None:
    """⚑ The snapshot was newer than the one that the chain named, and the one between had expired: nobody noticed, and
    the records that it held landed again.
    """
    bench = make_bench()
    first = bench.coordinator()
    for some in ([1, 2], [3]):
        bench.hand_over(*bench.produce(some))
        bench.round(first)
    stop(bench)
    table = bench.catalog().load_table("shop.orders")
    table.overwrite(table.scan().to_arrow())
    older, between, *_, compacted = (snapshot.snapshot_id for snapshot in table.snapshots())
    set_to(bench, older)
    bench.resolve(TableVerdict.REREAD)
    table.refresh().maintenance.expire_snapshots().by_ids([between]).commit()
    set_to(bench, compacted)
    is_rolled_back(bench)
    bench.resolve(TableVerdict.SKIP)
    lands_from(bench, 2)


def test_a_table_that_is_rolled_back_after_skip(make_bench: MakeBench) -> None:
    """⚑ The chain that was stored named no snapshot, so nobody noticed that records were gone."""
    bench = make_bench()
    fewer, whole = lost_and_rewritten(bench)
    recovered(bench)
    for snapshot in (whole, fewer):
        set_to(bench, snapshot)
        is_rolled_back(bench)
        decision = bench.resolve(TableVerdict.SKIP)
    assert [change.as_dict()["given_up"] for change in decision.changes] == ["[2, 3)"]


def stop(bench: Bench) -> None:
    for coordinator in bench.coordinators:
        coordinator.close()
    bench.coordinators.clear()


def set_to(bench: Bench, snapshot: int) -> None:
    """As engines do: to any snapshot."""
    bench.catalog().load_table("shop.orders").manage_snapshots().set_current_snapshot(snapshot).commit()


def is_rolled_back(bench: Bench) -> None:
    with pytest.raises(Halted) as halted:
        bench.coordinator()
    assert halted.value.why is CommitHalt.ROLLED_BACK
    stop(bench)


def lands_from(bench: Bench, start: int) -> None:
    """The mirror reads from there on, and every record is in the table once."""
    later = bench.coordinator()
    bench.hand_over(start, bench.produce([100])[1])
    bench.rounds(later, 2)
    assert bench.landed() == bench.sent()


def test_a_table_that_lost_its_chain_and_whose_rows_do_not_tell(make_bench: MakeBench) -> None:
    """⚑ A backfill landed what it held a second time: nobody saw its rows."""
    plain = Schema(NestedField(1, "id", LongType(), required=True))
    bench = make_bench(schemas={"orders": plain})
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2]))
    bench.round(first)
    lose(bench, tables=["orders"])
    shown = chsink(bench, "resolve", "shop.orders", "--skip", "--yes").stdout
    assert "nothing tells what it holds" in shown and "[0, 2)" in shown
    assert "no records" in chsink(bench, "backfill", "shop.orders", "--apply").stdout


def test_a_row_that_tells_nothing_beside_others_that_do(make_bench: MakeBench) -> None:
    """⚑ With one such row, the others counted for nothing: where the group was below them, they landed again."""
    bench = make_bench()
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2, 3]))
    bench.round(first)
    rows = bench.catalog().load_table("shop.orders").scan().to_arrow().slice(0, 1)
    for name in ("_kafka_partition", "_kafka_offset"):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), pa.nulls(1, rows.schema.field(at).type))
    bench.catalog().load_table("shop.orders").append(rows)
    lose(bench)
    with bench.names.sender(bench.names.worker_id(bench.tp()), bench.group) as worker:
        worker.send("t", [], {bench.tp(): 1})
    refused = chsink(bench, "resolve", "shop.orders", "--reread", "--yes")
    assert refused.exit_code == 2 and "CHS-348" in refused.output
    assert chsink(bench, "resolve", "shop.orders", "--skip", "--yes").exit_code == 0
    later = bench.coordinator()
    bench.hand_over(1, bench.produce([4])[1])
    bench.rounds(later, 2)
    assert sorted(n for _, _, n in bench.landed().elements()) == [1, 1, 2, 3, 4], "two of them: the row without a place"


def test_a_table_that_is_new_for_its_topic_gets_new_records(make_bench: MakeBench) -> None:
    bench = make_bench()
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2]))
    bench.round(first)
    bench.catalog().create_table("shop.later", SCHEMA)
    bench.tables = ("orders", "later")
    shown = chsink(bench, "resolve", "shop.later", "--skip", "--yes")
    assert "it is new for the topic" in shown.stdout and "[0, 2)" in shown.stdout, shown.output
    later = bench.coordinator()
    bench.hand_over(*bench.produce([3]))
    bench.round(later)
    assert sorted(n for _, _, n in bench.landed("later")) == [3]


MAP = {"x": "a", "y": "b"}


def skip(mirror: OpenMirror, tables: Sequence[str]) -> dict[str, object]:
    decision = decide(mirror.names, mirror.targets, tables, mirror.kafka, TableVerdict.SKIP)
    carry_out(mirror.names, decision)
    return {change.table: change.as_dict()["continues_at"] for change in decision.changes}


@pytest.mark.exit_of("MIRROR_SHARED_APART")
def test_tables_that_share_a_topic_lost_their_chains(make_bench: MakeBench) -> None:
    """⚑ Each continued behind its own rows, and the next start halted (CHS-352)."""
    bench = make_bench(tables=("a", "b"))
    with running(bench, mirror_of(bench, MAP)) as hand_over:
        hand_over(*send(bench, "xyxyx"))
    waiting = send(bench, "yx")
    with running(bench, mirror_of(bench, MAP)) as hand_over:
        pass
    lose(bench, tables=["a", "b"])
    mirror = mirror_of(bench, MAP)
    with pytest.raises(ChsinkError, match="CHS-348") as refused:
        skip(mirror, ["shop.b"])
    follow(bench, refused.value, "shop.a", "shop.b", "--skip", job=job_of(bench, MAP))
    with running(bench, mirror_of(bench, MAP)) as hand_over:
        hand_over(*waiting)
        hand_over(*send(bench, "xy"))
    assert offsets(bench, "a", "b") == {"a": [0, 2, 4, 6, 7], "b": [1, 3, 5, 8]}


def test_one_of_the_tables_that_share_a_topic_lost_its_chain(make_bench: MakeBench) -> None:
    """⚑ The other one says which map is in force: what was handed over meanwhile is divided by it."""
    bench = make_bench(tables=("a", "b"))
    with running(bench, mirror_of(bench, MAP)) as hand_over:
        hand_over(*send(bench, "xyxyx"))
    lose(bench, tables=["b"])
    assert skip(mirror_of(bench, MAP), ["shop.b"]) == {"shop.b": 4}
    with running(bench, mirror_of(bench, MAP)) as hand_over:
        hand_over(*send(bench, "yx"))
        eventually("all", lambda: offsets(bench, "a", "b") == {"a": [0, 2, 4, 6], "b": [1, 3, 5]})


def test_one_of_them_was_created_again(make_bench: MakeBench) -> None:
    """⚑ ``--reread`` ended in CHS-352, too."""
    bench = make_bench(tables=("a", "b"))
    with running(bench, mirror_of(bench, MAP)) as hand_over:
        hand_over(*send(bench, "xyx"))
    bench.catalog().drop_table("shop.b")
    bench.catalog().create_table("shop.b", SCHEMA)
    mirror = mirror_of(bench, MAP)
    carry_out(mirror.names, decide(mirror.names, mirror.targets, ["shop.b"], mirror.kafka, TableVerdict.REREAD))
    with running(bench, mirror_of(bench, MAP)) as hand_over:
        hand_over(*send(bench, "yx"))
        eventually("all", lambda: offsets(bench, "a", "b") == {"a": [0, 2, 4], "b": [1, 3]})


def test_a_map_whose_earlier_one_is_lost(make_bench: MakeBench) -> None:
    """⚑ Records are missing, and nobody can tell whose they were: the command gives them up, as it says."""
    bench = make_bench(tables=("a", "b"))
    with running(bench, mirror_of(bench, MAP)):
        pass
    feeds = mirror_of(bench, MAP).feeds()
    planned = OffsetRange(*send(bench, "xyxy"))
    feeds.hand_over(Share(bench.tp(), planned), bench.records()(planned))
    for file in (bench.folder / "lake").rglob("a/data/*.parquet"):
        file.unlink()
    other = {"x": "b", "y": "a"}
    with pytest.raises(HaltError, match="CHS-352"), running(bench, mirror_of(bench, other)):
        pass
    with pytest.raises(ChsinkError, match="CHS-348"):
        skip(mirror_of(bench, other), ["shop.b"])
    assert skip(mirror_of(bench, other), ["shop.a", "shop.b"]) == {"shop.a": 4, "shop.b": 4}
    with running(bench, mirror_of(bench, other)) as hand_over:
        hand_over(*send(bench, "xy"))
    assert offsets(bench, "a", "b") == {"a": [5], "b": [1, 3, 4]}
