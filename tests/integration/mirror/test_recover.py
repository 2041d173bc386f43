"""``chsink mirror recover``: the mirror's own record was lost, and the rows of its tables say where it continues."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType
from typer.testing import CliRunner, Result

from chsink.cli.main import app
from chsink.errors import ChsinkError
from chsink.kafka.exact import open_exact_reader
from chsink.mirror.recover import carry_out, survey
from chsink.mirror.stop_reasons import Halted
from chsink.mirror.task import Share
from chsink.statemachine.commit.resolve import TableVerdict
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.ranges import OffsetRange
from tests.integration.mirror.bench import SCHEMA, Bench
from tests.integration.mirror.commands import follow, name_an_empty_table
from tests.integration.mirror.test_table_by import mirror_of, offsets, running, send
from tests.support.job import eventually
from tests.support.kafka import produce
from tests.support.told import Said

pytestmark = pytest.mark.slow
MakeBench = Callable[..., Bench]


def chsink(bench: Bench, *words: str) -> Result:
    return CliRunner().invoke(app, ["mirror", *words, "-c", str(bench.job_file())])


def recovered(bench: Bench, *options: str) -> list[dict[str, object]]:
    done = chsink(bench, "recover", "--yes", "--json", *options)
    assert done.exit_code == 0, done.output
    found: list[dict[str, object]] = json.loads(done.output)["recovered"]
    return found


def refused(bench: Bench, id_: str) -> str:
    """What the command says; it has changed nothing."""
    before = [bench.catalog().load_table(f"shop.{name}").metadata_location for name in bench.tables]
    done = chsink(bench, "recover", "--yes")
    assert done.exit_code == 2 and f"error {id_}" in done.stderr, done.output
    assert before == [bench.catalog().load_table(f"shop.{name}").metadata_location for name in bench.tables]
    return done.stderr


def lose(bench: Bench, *, control: bool = True, tables: Sequence[str] = ()) -> None:
    """The mirror's properties, snapshots and groups; with ``control``, the control topic too."""
    for coordinator in bench.coordinators:
        coordinator.close()
    bench.coordinators.clear()
    for name in tables or bench.tables:
        table = bench.catalog().load_table(f"shop.{name}")
        with table.transaction() as change:
            change.remove_properties(*(key for key in table.properties if key.startswith("chsink.")))
        if table.current_snapshot() is not None:
            table.overwrite(table.scan().to_arrow())
            head = table.current_snapshot()
            assert head is not None
            older = [s.snapshot_id for s in table.snapshots() if s.snapshot_id != head.snapshot_id]
            table.maintenance.expire_snapshots().by_ids(older).commit()
    if tables:
        return
    bench.delete_groups(bench.group, f"{bench.group}/control")
    if control:
        bench.kafka.delete_topic(bench.control_topic)
        bench.kafka.create_topic(bench.control_topic, 2)


def lost_and_rewritten(bench: Bench) -> tuple[int, int]:
    """Three records land; then all but their rows is lost, and another program deletes the last row and appends it
    again.  Its two snapshots: the one without that row, and the one with all.
    """
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2, 3]))
    bench.round(first)
    lose(bench)
    table = bench.catalog().load_table("shop.orders")
    last = table.scan(row_filter="id = 3").to_arrow()
    table.delete("id = 3")
    fewer = table.metadata.current_snapshot_id
    table.append(last)
    whole = table.metadata.current_snapshot_id
    assert fewer is not None and whole is not None
    return fewer, whole


def lands_on(bench: Bench) -> None:
    """The mirror runs, and every record is in every table once."""
    start, end = bench.produce([100])
    later = bench.coordinator()
    bench.hand_over(start, end)
    bench.rounds(later, 3)
    for name in bench.tables:
        assert bench.landed(name) == bench.sent(), name


@pytest.mark.soak
@pytest.mark.parametrize("control", [True, False])
def test_the_mirror_goes_on_behind_the_last_rows(make_bench: MakeBench, control: bool) -> None:
    """P-3, P-7.  ⚑ Compacted files, markers and aborted records between rows, a partition without rows, a unit that
    waits, and two tables of which one lags.
    """
    bench = make_bench(partitions=3, tables=("orders", "archive"))
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2, 3], 1), 1)
    for n, abort in ((4, False), (5, True), (6, False)):
        produce(bench.kafka.bootstrap, bench.topic, 0, [{"id": n}], transactional=f"{bench.topic}-{n}", abort=abort)
    bench.hand_over(0, 6)
    bench.round(first)
    bench.hand_over(*bench.produce([7], 1), 1)
    first.tables.targets = {"shop.orders": first.targets["shop.orders"]}
    bench.round(first)  # the archive lacks the last record
    bench.hand_over(*bench.produce([8], 2), 2)
    lose(bench, control=control)
    shown = chsink(bench, "recover")
    assert shown.exit_code == 1 and "Let the mirror continue there?" in shown.stdout  # nobody answered
    ends = {(one["table"], one["partition"]): one["continues_at"] for one in recovered(bench)}
    archive = {("shop.archive", 0): 5, ("shop.archive", 1): 3, ("shop.archive", 2): 0}
    assert ends == {("shop.orders", 0): 5, ("shop.orders", 1): 4, ("shop.orders", 2): 0, **archive}
    assert chsink(bench, "recover").stdout == "nothing to recover: each table says what it holds\n"
    assert bench.group_at(0) is None
    later = bench.coordinator()
    bench.hand_over(0, 1, 2)
    bench.rounds(later, 2)
    lands_on(bench)


@pytest.mark.soak
def test_one_table_of_two_lost_its_record(make_bench: MakeBench) -> None:
    """⚑ What the other one holds is not asked of the rows, and the group stays where it is."""
    bench = make_bench(tables=("orders", "archive"))
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2]))
    bench.round(first)
    bench.hand_over(*bench.produce([3]))  # waits for a commit
    lose(bench, tables=["archive"])
    assert [(one["table"], one["continues_at"]) for one in recovered(bench)] == [("shop.archive", 2)]
    assert bench.group_at() == 3
    lands_on(bench)


def test_records_that_the_job_skips_are_no_hole(make_bench: MakeBench) -> None:
    bench = make_bench()
    first = bench.coordinator()
    produce(bench.kafka.bootstrap, bench.topic, 0, [{"id": 1}, b"bad", None, {"id": 2}])
    bench.worker(halt_on_bad_value=False).run(OffsetRange(0, 4), bench.records())
    bench.round(first)
    lose(bench)
    assert "at offset 1," in refused(bench, "CHS-355")
    skip = ("--set", "errors.on_bad_value=skip")
    [one] = recovered(bench, *skip)
    assert (one["skipped"], one["continues_at"]) == (2, 4)
    assert sorted(n for _, _, n in bench.landed()) == [1, 2]


@pytest.mark.soak
def test_tables_that_share_a_topic_reach_equally_far(make_bench: MakeBench) -> None:
    """⚑ The last row of one says nothing by itself: what follows may be rows of the other, also by another map."""
    bench, map_ = make_bench(tables=("a", "b")), {"x": "a", "y": "b"}
    with running(bench, mirror_of(bench, map_)) as hand_over:
        hand_over(*send(bench, "xyxyx"))
    lose(bench)
    mirror = mirror_of(bench, map_)
    with closing(open_exact_reader(mirror.config, lambda tp: bench.admin.log_starts([tp])[tp])) as reader:
        rows = survey(mirror, reader)
        assert {(one.table, one.link.until) for one in rows.found} == {("shop.a", 5), ("shop.b", 5)}
        table = bench.catalog().load_table("shop.b")
        kept = table.current_snapshot()
        assert kept is not None
        table.delete("id = 1")
        with pytest.raises(ChsinkError, match=r"shop.a shop.b has no row for the record of \S+ at offset 1,"):
            survey(mirror, reader)
        with pytest.raises(ChsinkError, match="CHS-717"):  # the table has changed since it was read
            carry_out(mirror.names, rows)
        table.manage_snapshots().set_current_snapshot(kept.snapshot_id).commit()
        carry_out(mirror.names, survey(mirror, reader))
    with running(bench, mirror_of(bench, {"x": "b", "y": "a"})) as hand_over:
        hand_over(*send(bench, "xy"))
    assert offsets(bench, "a", "b") == {"a": [0, 2, 4, 6], "b": [1, 3, 5]}


@pytest.mark.parametrize("how", ["recover", pytest.param("skip", marks=pytest.mark.soak)])
def test_a_table_that_is_rolled_back_afterwards(make_bench: MakeBench, how: str) -> None:
    """⚑ To a snapshot of another program, with fewer rows: nobody noticed that records were gone."""
    bench = make_bench()
    fewer, _ = lost_and_rewritten(bench)
    if how == "recover":
        assert recovered(bench)[0]["continues_at"] == 3
    else:
        bench.resolve(TableVerdict.SKIP)
    bench.catalog().load_table("shop.orders").manage_snapshots().set_current_snapshot(fewer).commit()
    with pytest.raises(Halted) as halted:
        bench.coordinator()
    assert halted.value.why is CommitHalt.ROLLED_BACK
    decision = bench.resolve(TableVerdict.SKIP)
    assert [change.as_dict()["given_up"] for change in decision.changes] == ["[2, 3)"]
    later = bench.coordinator()
    bench.hand_over(*bench.produce([4]))
    bench.round(later)
    assert sorted(n for _, _, n in bench.landed()) == [1, 2, 4]


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_ROWS_LACK")
def test_a_row_that_was_deleted(make_bench: MakeBench) -> None:
    """P-4.  ⚑ It may as well be a record that was lost."""
    bench = make_bench()
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2, 3]))
    bench.round(first)
    bench.catalog().load_table("shop.orders").delete("id = 2")
    lose(bench)
    said = refused(bench, "CHS-355")
    assert "at offset 1, although it has one for offset 2" in said
    follow(bench, said, "shop.orders", "--skip")
    later = bench.coordinator()
    bench.hand_over(*bench.produce([4]))
    bench.round(later)
    assert sorted(n for _, _, n in bench.landed()) == [1, 3, 4]


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_ROWS_BEYOND_LOG")
def test_a_topic_that_is_shorter_than_the_rows(make_bench: MakeBench) -> None:
    bench = make_bench()
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2, 3]))
    bench.round(first)
    before = bench.landed()
    bench.kafka.delete_topic(bench.topic)
    bench.kafka.create_topic(bench.topic, 1)
    bench.produce([10])
    lose(bench)
    said = refused(bench, "CHS-355")
    assert "log ends at 1" in said
    follow(bench, said, "shop.orders", "--skip")
    later = bench.coordinator()
    bench.hand_over(*bench.produce([11]))
    bench.round(later)
    assert bench.landed() - before == Counter({(0, 1, 11): 1})


def from_the_start(bench: Bench, said: Said, schema: Schema, end: int) -> None:
    """As messages say: name an empty table, and let it land all that Kafka holds."""
    name_an_empty_table(bench, said, schema)
    later = bench.coordinator()
    bench.hand_over(0, end)
    bench.rounds(later, 2)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_ROWS_OF_OTHERS")
def test_a_topic_that_was_made_again_since(make_bench: MakeBench) -> None:
    """⚑ Rows of the earlier topic hide that records of the new one never landed; their timestamps tell."""
    timed = Schema(*SCHEMA.fields, NestedField(5, "_kafka_timestamp", TimestamptzType()))
    bench = make_bench(schemas={"orders": timed})
    first = bench.coordinator()
    bench.hand_over(*bench.produce([0, 1, 2]))
    bench.round(first)
    bench.catalog().load_table("shop.orders").delete("id = 0")
    lose(bench)
    [one] = recovered(bench, "--set", "kafka.starting_offsets=latest")
    assert (one["first_row"], one["compared_from"], one["continues_at"]) == (1, 1, 3)
    lose(bench, tables=["orders"])
    bench.kafka.delete_topic(bench.topic)
    bench.kafka.create_topic(bench.topic, 1)
    bench.produce([3, 4, 5, 6])
    said = refused(bench, "CHS-355")
    assert f"for offset 1 of {bench.tp()} whose _kafka_timestamp is not that" in said
    from_the_start(bench, said, timed, 4)
    assert sorted(n for _, _, n in bench.landed("anew")) == [3, 4, 5, 6]


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_ROWS_TELL_NOTHING")
def test_rows_without_offsets(make_bench: MakeBench) -> None:
    plain = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))
    bench = make_bench(schemas={"orders": plain})
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2]))
    bench.round(first)
    lose(bench)
    from_the_start(bench, refused(bench, "CHS-356"), SCHEMA, 2)
    assert bench.landed("anew") == bench.sent()


@pytest.mark.soak
def test_rows_that_are_older_than_the_columns(make_bench: MakeBench) -> None:
    """⚑ Partition 1 seemed to have no row, and landed again."""
    plain = Schema(*SCHEMA.fields[:2])
    bench = make_bench(partitions=2, schemas={"orders": plain})
    first = bench.coordinator()
    bench.hand_over(*bench.produce([11, 12], 1), 1)
    bench.round(first)
    with bench.catalog().load_table("shop.orders").update_schema() as change:
        for field in SCHEMA.fields[2:]:
            change.add_column(field.name, field.field_type)
    lose(bench)
    with pytest.raises(Halted, match="some rows do not say which records they are"):
        bench.coordinator()
    bench.close()
    assert "do not say which records" in refused(bench, "CHS-356")
    shown = chsink(bench, "resolve", "shop.orders", "--skip", "--yes")
    assert shown.output.count("nothing tells what it holds") == 2, shown.output
    later = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2]))
    bench.hand_over(*bench.produce([13], 1), 1)
    bench.rounds(later, 2)
    rows = bench.catalog().load_table("shop.orders").scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == [1, 2, 11, 12, 13]


@pytest.mark.soak
def test_the_group_is_ahead_of_tables_that_share_a_topic(make_bench: MakeBench) -> None:
    """⚑ What was handed over and had not landed yet is divided as before; the start halted (CHS-352)."""
    bench, map_ = make_bench(tables=("a", "b")), {"x": "a", "y": "b"}
    with running(bench, mirror_of(bench, map_)) as hand_over:
        hand_over(*send(bench, "xyx"))
    feeds, planned = mirror_of(bench, map_).feeds(), OffsetRange(*send(bench, "yx"))
    feeds.hand_over(Share(bench.tp(), planned), bench.records()(planned))
    lose(bench, tables=["a", "b"])
    mirror = mirror_of(bench, map_)
    with closing(open_exact_reader(mirror.config, lambda tp: bench.admin.log_starts([tp])[tp])) as reader:
        carry_out(mirror.names, survey(mirror, reader))
    bench.kafka.delete_topic(bench.control_topic)
    bench.kafka.create_topic(bench.control_topic, 2)
    with running(bench, mirror_of(bench, map_)):
        eventually("all", lambda: offsets(bench, "a", "b") == {"a": [0, 2, 4], "b": [1, 3]})
