"""Records into Iceberg, each once, on a real broker and a real catalog: the quiet path, and every point of failure.

After each fault, the rows of the tables are compared with the records of the topic by partition, offset and id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.errors import BadValueError
from chsink.mirror.commit_now import ask
from chsink.mirror.control import ControlSender, Fenced
from chsink.mirror.coordinator import STUCK_AFTER, Coordinator
from chsink.mirror.events import CommitComplete, CommitToTable, DataComplete, DataWritten, StartCommit, decode
from chsink.mirror.known_tables import Hole
from chsink.mirror.stop_reasons import Halted, Stuck
from chsink.mirror.table_commits import Present
from chsink.mirror.tables import VALID_THROUGH
from chsink.mirror.task import Feeds, Share
from chsink.mirror.worker import BadValues
from chsink.statemachine.commit.plan import plan_commit
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.ranges import OffsetRange
from tests.integration.mirror.bench import Bench
from tests.support.kafka import produce, read_all
from tests.support.told import setting_of

pytestmark = pytest.mark.slow
MakeBench = Callable[..., Bench]


def events(bench: Bench) -> list[Any]:
    """The payloads on the control topic, as any reader of committed records sees them."""
    found = [decode(r.value or b"") for r in bench.control_records()]
    return [e.payload for e in found if e is not None and e.group_id == bench.group]


def exactly_once(bench: Bench) -> None:
    for name in bench.tables:
        assert bench.landed(name) == bench.sent(), name
        assert set(bench.landed(name).values()) <= {1}


# --- the quiet path --------------------------------------------------------------------------------------------------


def test_records_of_three_partitions_are_one_snapshot_a_commit(make_bench: MakeBench) -> None:
    """K-1, E-3, E-7, W-8, V-1: an idle partition answers too, and leaves valid-through unset."""
    bench = make_bench(partitions=3)
    coordinator = bench.coordinator()
    assert len(bench.catalog().load_table("shop.orders").metadata.metadata_log) == 1  # all three begin in one commit
    for number in range(3):
        for partition in (0, 1):
            bench.hand_over(*bench.produce(range(number * 10, number * 10 + 4), partition), partition)
        bench.round(coordinator)
    exactly_once(bench)
    assert bench.snapshots() == 3 == coordinator.commits
    assert VALID_THROUGH not in bench.summary()
    kinds = [type(e) for e in events(bench)]
    assert kinds.count(StartCommit) == 3 == kinds.count(CommitToTable) == kinds.count(CommitComplete)
    assert kinds.count(DataWritten) == 6
    complete = next(e for e in events(bench) if isinstance(e, DataComplete))
    assert {a.partition for a in complete.answers} == {0, 1, 2}
    assert [a.offset for a in complete.answers if a.partition == 2] == [None]


@pytest.mark.soak
def test_valid_through_is_the_least_of_the_largest_times(make_bench: MakeBench) -> None:
    bench = make_bench(partitions=2)
    coordinator = bench.coordinator()
    for partition in (0, 1):
        bench.hand_over(*bench.produce(range(3), partition), partition)
    bench.round(coordinator)
    newest = [
        max(r.timestamp for r in read_all(bench.kafka.bootstrap, bench.topic) if r.partition == p) for p in (0, 1)
    ]
    assert bench.summary()[VALID_THROUGH] == str(min(newest))
    told = [e for e in events(bench) if isinstance(e, CommitToTable | CommitComplete)]
    assert [e.valid_through and round(e.valid_through.timestamp() * 1000) for e in told] == [min(newest)] * 2


@pytest.mark.soak
def test_valid_through_is_no_promise_where_timestamps_go_back(make_bench: MakeBench) -> None:
    """V-3: the table "holds all records up to 12:00", and then one of 11:00 comes.  The time goes back with it."""
    bench = make_bench()
    coordinator = bench.coordinator()
    noon, earlier = 1_790_000_000_000, 1_789_996_400_000
    for sent_at in (noon, earlier):
        piece = OffsetRange(*bench.produce([sent_at]))
        bench.worker().run(piece, partial(at_time, bench, sent_at))
        bench.round(coordinator)
        assert bench.summary()[VALID_THROUGH] == str(sent_at)
    assert bench.landed() == bench.sent()


def at_time(bench: Bench, sent_at: int, piece: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The bench's records, as if they had been sent at this time in ms."""
    for batch in bench.records()(piece):
        times = pa.array([sent_at * 1000] * batch.num_rows, pa.timestamp("us", "UTC"))
        yield batch.set_column(batch.schema.get_field_index("timestamp"), "timestamp", times)


@pytest.mark.parametrize(("year_in_us", "shown"), [(2**60, "253402300799999"), (-(2**60), "-62135596800000")])
def test_a_timestamp_of_no_year_stops_nobody(make_bench: MakeBench, year_in_us: int, shown: str) -> None:
    """⚑ A producer may send microseconds for milliseconds: the coordinator would fail in every round."""
    bench = make_bench()
    coordinator = bench.coordinator()
    bench.worker().run(OffsetRange(*bench.produce([1])), partial(at_time, bench, year_in_us // 1000))
    bench.round(coordinator)
    assert bench.landed() == bench.sent()
    assert bench.summary()[VALID_THROUGH] == shown


@pytest.mark.soak
def test_an_idle_hour_makes_no_snapshot_and_a_later_record_lands(make_bench: MakeBench) -> None:
    """⚑ K-2, C-5, D20: offsets without records move the chain, or what follows would wait for ever."""
    bench = make_bench()
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce([1]))
    bench.round(coordinator)
    aborted = produce(bench.kafka.bootstrap, bench.topic, 0, [{"id": 9}], transactional="t", abort=True)
    bench.hand_over(*aborted)
    for _ in range(4):
        bench.round(coordinator)
    assert bench.snapshots() == 1
    later = bench.coordinator()
    bench.hand_over(*bench.produce([2]))
    bench.round(later)
    exactly_once(bench)
    assert bench.snapshots() == 2


def test_two_tables_of_one_topic_hold_every_record(make_bench: MakeBench) -> None:
    """F-1."""
    bench = make_bench(tables=("orders", "archive"))
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce(range(5)))
    bench.round(coordinator)
    exactly_once(bench)
    assert (bench.snapshots("orders"), bench.snapshots("archive")) == (1, 1)


def test_two_sinks_share_a_control_topic(make_bench: MakeBench) -> None:
    """E-2."""
    one = make_bench()
    other = make_bench(control_topic=one.control_topic)
    first, second = one.coordinator(), other.coordinator()
    one.hand_over(*one.produce(range(3)))
    other.hand_over(*other.produce(range(7)))
    one.round(first)
    other.round(second)
    exactly_once(one)
    exactly_once(other)


def test_the_control_group_equals_what_the_snapshot_says(make_bench: MakeBench) -> None:
    """K-4, C-9."""
    bench = make_bench()
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce(range(3)))
    bench.round(coordinator)
    said = json.loads(bench.summary()[f"kafka.connect.offsets.{bench.control_topic}.{bench.group}"])
    assert {int(p): at for p, at in said.items()} == coordinator.stored


def test_a_bad_value_hands_nothing_over(make_bench: MakeBench) -> None:
    bench = make_bench()
    coordinator = bench.coordinator()
    _, end = produce(bench.kafka.bootstrap, bench.topic, 0, [{"id": 1}, {"id": "x"}])
    with pytest.raises(BadValues):
        bench.hand_over(0, end)
    assert bench.group_at() == 0
    bench.round(coordinator)
    assert bench.snapshots() == 0
    report = bench.worker(halt_on_bad_value=False).run(OffsetRange(0, end), bench.records())
    assert (report.tables["shop.orders"].rows, report.tables["shop.orders"].skipped) == (1, 1)


def test_tombstones_halt_or_are_skipped(make_bench: MakeBench) -> None:
    """``on_tombstone`` as for ClickHouse: "skip" leaves null values out, and no others."""
    bench = make_bench()
    coordinator = bench.coordinator()
    _, end = produce(bench.kafka.bootstrap, bench.topic, 0, [{"id": 1}, None, {"id": 2}])
    with pytest.raises(BadValues, match="offset 1: value is null"):
        bench.hand_over(0, end)
    written = bench.worker(skip_tombstones=True).run(OffsetRange(0, end), bench.records()).tables["shop.orders"]
    assert (written.rows, written.skipped) == (2, 1) and "offset 1: value is null" in written.first_skipped
    bench.round(coordinator)
    assert bench.landed() == {(0, 0, 1): 1, (0, 2, 2): 1}
    _, later = produce(bench.kafka.bootstrap, bench.topic, 0, [None, {"id": "x"}])
    with pytest.raises(BadValues, match="offset 4: column 'id'") as stopped:
        bench.worker(skip_tombstones=True).run(OffsetRange(end, later), bench.records())
    assert stopped.value.count == 1


def test_what_was_skipped_is_counted_also_after_a_start(make_bench: MakeBench) -> None:
    """Each record once; also those of ranges without a row, whose commits make no snapshot."""
    bench = make_bench()
    for values in ([{"id": 1}, None, {"id": "x"}], [None, None], [{"id": 2}]):
        coordinator = bench.coordinator()
        planned = OffsetRange(*produce(bench.kafka.bootstrap, bench.topic, 0, values))
        bench.worker(halt_on_bad_value=False).run(planned, bench.records())
        bench.rounds(coordinator, 2)
        coordinator.close()
    assert bench.snapshots() == 2
    shown = CliRunner().invoke(app, ["mirror", "status", "--json", "-c", str(bench.job_file())])
    assert json.loads(shown.output)["tables"][0]["skipped"] == 4


@pytest.mark.exit_of("MIRROR_BAD_VALUE")
def test_a_bad_value_stops_a_task_until_it_may_be_skipped(make_bench: MakeBench) -> None:
    """The message does not hold the value."""
    bench = make_bench()
    coordinator = bench.coordinator()
    _, end = produce(bench.kafka.bootstrap, bench.topic, 0, [{"id": 1}, {"id": "secret"}])
    ids = {bench.topic: bench.admin.topic_ids([bench.topic])[bench.topic] or ""}
    tables = {bench.topic: (bench.work("orders"),)}
    share = Share(bench.tp(), OffsetRange(0, end))
    with pytest.raises(BadValueError, match="CHS-511") as stopped:
        Feeds(bench.names, ids, tables, bench.admin).hand_over(share, bench.records()(share.range))
    assert "secret" not in str(stopped.value)
    assert setting_of(stopped.value, "errors.on_bad_value") == {"errors.on_bad_value": "skip"}
    Feeds(bench.names, ids, tables, bench.admin, halt_on_bad_value=False).hand_over(share, bench.records()(share.range))
    bench.round(coordinator)
    assert bench.landed() == {(0, 0, 1): 1}


# --- workers ---------------------------------------------------------------------------------------------------------


def test_a_zombie_cannot_hand_over(make_bench: MakeBench) -> None:
    """⚑ Z-1: it woke after another attempt took over."""
    bench = make_bench()
    coordinator = bench.coordinator()
    start, end = bench.produce(range(4))
    zombie = ControlSender(bench.names, bench.names.worker_id(bench.tp()), bench.group)
    assert zombie.committed([bench.tp()]) == {bench.tp(): 0}
    bench.hand_over(start, end)
    written = bench.worker()._written(OffsetRange(start, end), bench.records(), [bench.work("orders")], {})
    with pytest.raises(Fenced):
        zombie.send("zombie", written, {bench.tp(): 2})
    zombie.close()
    assert bench.group_at() == end
    bench.round(coordinator)
    exactly_once(bench)


def test_a_worker_that_dies_inside_its_transaction_leaves_nothing(make_bench: MakeBench) -> None:
    """⚑ R-1, Z-3, T-5: its successor ends the open transaction at once, and takes the range."""
    bench = make_bench()
    coordinator = bench.coordinator()
    start, end = bench.produce(range(4))
    dead = ControlSender(bench.names, bench.names.worker_id(bench.tp()), bench.group)
    written = bench.worker()._written(OffsetRange(start, end), bench.records(), [bench.work("orders")], {})
    dead._producer.begin({"value": value, "key": "dead"} for value in written)
    assert bench.group_at() == 0
    bench.hand_over(start, end)
    bench.round(coordinator)
    exactly_once(bench)
    assert bench.snapshots() == 1
    dead.close()


@pytest.mark.parametrize("planned", [(0, 9), (3, 9), (6, 9)], ids=["old", "inside", "ahead"])
def test_plans_that_do_not_begin_at_the_group(make_bench: MakeBench, planned: tuple[int, int]) -> None:
    """⚑ T-2: a checkpoint that is lost, old or ahead."""
    bench = make_bench()
    coordinator = bench.coordinator()
    bench.produce(range(9))
    bench.hand_over(0, 4)
    bench.hand_over(*planned)
    assert bench.group_at() == 9
    bench.round(coordinator)
    exactly_once(bench)


def test_a_range_that_was_handed_over_is_not_handed_over_again(make_bench: MakeBench) -> None:
    bench = make_bench()
    coordinator = bench.coordinator()
    bench.produce(range(4))
    bench.hand_over(0, 4)
    assert bench.hand_over(0, 4).decision.because == "DONE"
    bench.round(coordinator)
    exactly_once(bench)


# --- coordinators ----------------------------------------------------------------------------------------------------


def test_what_was_handed_over_before_a_coordinator_existed_lands(make_bench: MakeBench) -> None:
    """⚑ C-12, D4, R-2: also what one that died had read."""
    bench = make_bench()
    first = bench.coordinator()
    bench.hand_over(*bench.produce(range(4)))
    for _ in range(5):
        first.tick(0.1)
    first.close()
    bench.coordinators.remove(first)
    bench.hand_over(*bench.produce(range(4, 8)))
    bench.round(bench.coordinator())
    exactly_once(bench)
    assert bench.snapshots() == 1


class Died(Exception):
    """The process ended here."""


def dies(*_: Any, **__: Any) -> None:
    raise Died


def test_a_coordinator_that_dies_after_a_commit_before_its_offsets(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ R-3: the chain tells its successor; no snapshot is added."""
    bench = make_bench()
    first = bench.coordinator()
    bench.hand_over(*bench.produce(range(4)))
    bench.ticks(first, lambda: first.buffer.files)
    bench.clock.ms += 1000
    first.tick(0.1)
    with monkeypatch.context() as patch:
        patch.setattr(first.sender, "send", dies)
        with pytest.raises(Died):
            bench.round(first)
    assert bench.snapshots() == 1
    later = bench.coordinator()
    bench.round(later)
    bench.round(later)
    exactly_once(bench)
    assert bench.snapshots() == 1


def test_a_coordinator_that_dies_between_two_tables(make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ R-4, I-1: one is retried, one is left alone."""
    bench = make_bench(tables=("orders", "archive"))
    first = bench.coordinator()
    bench.hand_over(*bench.produce(range(4)))
    with monkeypatch.context() as patch:
        patch.setattr(type(first.targets["shop.archive"].table), "append", _only("orders", dies))
        with pytest.raises(Died):
            bench.round(first)
    assert (bench.snapshots("orders"), bench.snapshots("archive")) == (1, 0)
    bench.round(bench.coordinator())
    exactly_once(bench)
    assert (bench.snapshots("orders"), bench.snapshots("archive")) == (1, 1)


def _only(allowed: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """``MirrorTable.append`` for one table."""
    from chsink.mirror.tables import MirrorTable

    append = MirrorTable.append

    def chosen(table: Any, *rest: Any) -> Any:
        return append(table, *rest) if table.identifier == f"shop.{allowed}" else otherwise(table, *rest)

    return chosen


def test_an_older_coordinator_is_fenced_and_its_commit_is_refused(make_bench: MakeBench) -> None:
    """⚑ Z-4, Z-5: both alive, both hold the same files."""
    bench = make_bench()
    older = bench.coordinator()
    bench.hand_over(*bench.produce(range(4)))
    bench.ticks(older, lambda: older.buffer.files)
    bench.clock.ms += 1000
    bench.ticks(older, lambda: older._open)
    opened, stale = older._open, older.tables.read("shop.orders")
    newer = bench.coordinator()
    bench.round(newer)
    assert opened is not None
    plan = plan_commit(stale[0].view, stale[1], older.buffer.units("shop.orders"))
    present = Present(opened.commit_id, {}, older.assigned, older.positions, older.control_id, whole=False)
    done = older.table_commits.offer("shop.orders", stale, plan, present, None)
    assert plan.taken and done.outcome.value == "refused"
    with pytest.raises(Fenced):
        older._commit_round(patience_s=None, whole=False, because="TIMEOUT")
    exactly_once(bench)
    assert bench.snapshots() == 1


def test_a_round_that_is_not_answered_commits_what_is_there(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-6, V-2, C-7: late files join the next commit."""
    bench = make_bench()
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce(range(4)))
    bench.ticks(coordinator, lambda: coordinator.buffer.files)
    monkeypatch.setattr(Coordinator, "_complete", lambda _: False)
    bench.clock.ms += 1000
    coordinator.tick(0.1)
    bench.hand_over(*bench.produce(range(4, 8)))
    bench.clock.ms += 400
    coordinator.tick(0.01)
    assert bench.snapshots() == 0
    bench.clock.ms += 100
    coordinator.tick(0.01)
    assert bench.snapshots() == 1 and VALID_THROUGH not in bench.summary()
    monkeypatch.undo()
    bench.round(coordinator)
    exactly_once(bench)


# --- catalogs --------------------------------------------------------------------------------------------------------


def test_an_answer_that_is_lost(make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ K-9: the commit was applied, and nobody said so."""
    bench = make_bench()
    coordinator = bench.coordinator()
    catalog = type(coordinator.targets["shop.orders"].table.catalog)
    commit, fired = catalog.commit_table, list[bool]()

    def unanswered(*arguments: Any) -> Any:
        answer = commit(*arguments)
        if not fired:
            fired.append(True)
            raise CommitStateUnknownException("504")
        return answer

    bench.hand_over(*bench.produce(range(4)))
    monkeypatch.setattr(catalog, "commit_table", unanswered)
    bench.round(coordinator)
    bench.round(coordinator)
    assert fired
    exactly_once(bench)
    assert bench.snapshots() == 1
    told = [e for e in events(bench) if isinstance(e, CommitToTable)]
    assert [e.snapshot_id for e in told] == [bench.catalog().load_table("shop.orders").current_snapshot().snapshot_id]  # type: ignore[union-attr]


def test_a_commit_that_is_applied_after_the_next_attempt_was_written(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ The first attempt times out and is applied late: its snapshot refers to what it wrote, only it lands, and it
    alone is announced.
    """
    bench = make_bench()
    coordinator = bench.coordinator()
    catalog = type(coordinator.targets["shop.orders"].table.catalog)
    commit, offered, refused = catalog.commit_table, list[Any](), list[Exception]()

    def late(*arguments: Any) -> Any:
        offered.append(arguments)
        if len(offered) == 1:
            raise CommitStateUnknownException("504")
        if len(offered) == 2:
            commit(*offered[0])
        try:
            return commit(*arguments)
        except CommitFailedException as error:
            refused.append(error)
            raise

    bench.hand_over(*bench.produce(range(4)))
    monkeypatch.setattr(catalog, "commit_table", late)
    bench.round(coordinator)
    bench.round(coordinator)
    assert len(offered) == 2 and len(refused) == 1
    table = bench.catalog().load_table("shop.orders")
    [snapshot] = table.snapshots()
    for manifest in snapshot.manifests(table.io):
        assert len(table.io.new_input(manifest.manifest_path)) == manifest.manifest_length
        entries = manifest.fetch_manifest_entry(table.io)
        assert {entry.snapshot_id for entry in entries} == {snapshot.snapshot_id}
    exactly_once(bench)
    told = [e.snapshot_id for e in events(bench) if isinstance(e, CommitToTable)]
    assert told == [snapshot.snapshot_id]


def test_a_table_whose_commits_fail_does_not_hold_up_another(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ R-5, C-9, C-10, D8: its files are kept, the low watermark stays, and after some rounds there is a named error."""
    bench = make_bench(tables=("orders", "archive"))
    coordinator = bench.coordinator()
    before = dict(coordinator.stored)

    def fails(*_: Any) -> Any:
        from chsink.mirror.tables import Committed
        from chsink.ports import Outcome

        return Committed(Outcome.REFUSED, reason="no")

    with monkeypatch.context() as patch:
        patch.setattr(type(coordinator.targets["shop.orders"].table), "append", _only("orders", fails))
        for number in range(2):
            bench.hand_over(*bench.produce(range(number * 4, number * 4 + 4)))
            bench.round(coordinator)
        assert (bench.snapshots("orders"), bench.snapshots("archive")) == (2, 0)
        assert coordinator.stored == before
        with pytest.raises(Stuck) as stuck:
            bench.rounds(coordinator, 9)
        assert stuck.value.table == "shop.archive" and stuck.value.rounds == STUCK_AFTER
    bench.round(bench.coordinator())
    exactly_once(bench)
    assert (bench.snapshots("orders"), bench.snapshots("archive")) == (2, 1)


def test_a_foreign_writer_between_reading_and_committing(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ K-8: refused once, decided again."""
    bench = make_bench()
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce(range(4)))
    plan, fired = plan_commit, list[bool]()

    def interrupted(*arguments: Any) -> Any:
        if not fired:
            fired.append(True)
            foreign = bench.catalog().load_table("shop.orders")
            row = {"id": [99], "name": ["x"], "_kafka_partition": [None], "_kafka_offset": [None]}
            foreign.append(pa.table(row, schema=foreign.schema().as_arrow()))
        return plan(*arguments)

    monkeypatch.setattr("chsink.mirror.table_commits.plan_commit", interrupted)
    bench.round(coordinator)
    assert fired and bench.snapshots() == 2
    assert bench.landed() - bench.sent() == {(None, None, 99): 1} and not bench.sent() - bench.landed()


def test_a_rollback_halts(make_bench: MakeBench) -> None:
    """⚑ R-6."""
    bench = make_bench()
    coordinator = bench.coordinator()
    for number in range(2):
        bench.hand_over(*bench.produce([number]))
        bench.round(coordinator)
    table = bench.catalog().load_table("shop.orders")
    table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
    bench.hand_over(*bench.produce([7]))
    with pytest.raises(Halted) as halted:
        bench.round(coordinator)
    assert halted.value.why is CommitHalt.ROLLED_BACK
    with pytest.raises(Halted):
        bench.coordinator()


def test_a_table_that_was_made_again_halts(make_bench: MakeBench) -> None:
    """R-10."""
    from tests.integration.mirror.bench import SCHEMA

    bench = make_bench()
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce([1]))
    bench.round(coordinator)
    bench.catalog().drop_table("shop.orders")
    bench.catalog().create_table("shop.orders", SCHEMA)
    with pytest.raises(Halted) as halted:
        bench.coordinator()
    assert halted.value.why is CommitHalt.CHAIN_MISSING


# --- Kafka -----------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_a_control_topic_that_was_made_again(make_bench: MakeBench) -> None:
    """⚑ R-7, I-2: the group passed what nobody can read any more; it is read again from the topic, exactly."""
    bench = make_bench(partitions=2)
    first = bench.coordinator()
    for partition in (0, 1):
        bench.hand_over(*bench.produce(range(4), partition), partition)
    bench.round(first)
    bench.hand_over(*bench.produce(range(4, 8)))
    bench.kafka.delete_topic(bench.control_topic)
    bench.kafka.create_topic(bench.control_topic, 2)
    later = bench.coordinator()
    for _ in range(2):
        bench.round(later)
    bench.hand_over(*bench.produce(range(8, 12)))
    bench.round(later)
    exactly_once(bench)


@pytest.mark.soak
def test_groups_that_expired(make_bench: MakeBench) -> None:
    """⚑ R-8, P-6: the tables are the floor, and what is pending lands once."""
    bench = make_bench(tables=("orders", "archive"))
    first = bench.coordinator()
    bench.hand_over(*bench.produce(range(4)))
    bench.round(first)
    bench.hand_over(*bench.produce(range(4, 8)))
    bench.delete_groups(bench.group, bench.names.control_group)
    assert bench.group_at() is None
    assert bench.hand_over(4, 8).decision.refused
    later = bench.coordinator()
    assert bench.group_at() == 4
    bench.hand_over(4, 6)
    bench.hand_over(6, 8)
    bench.hand_over(*bench.produce(range(8, 10)))
    for _ in range(3):
        bench.round(later)
    exactly_once(bench)


@pytest.mark.soak
def test_a_hole_is_read_in_pieces_that_take_no_longer_than_a_limit(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ A piece was a million offsets, however slowly they came; commits waited for its end."""
    monkeypatch.setattr("chsink.mirror.coordinator.FIRST_OFFSETS", 2)
    bench = make_bench()
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce(range(4)))
    bench.round(coordinator)
    with ControlSender(bench.names, bench.names.worker_id(bench.tp()), bench.group) as sender:
        sender.send("someone", [], {bench.tp(): bench.produce(range(4, 40))[1]})
    pieces, reread = list[int](), coordinator.reread

    def slowly(hole: Hole) -> None:
        reread(hole)
        pieces.append(hole.range.length)
        bench.clock.ms += hole.range.length * (3_000 if 1 < len(pieces) < 5 else 100)

    coordinator.reread = slowly
    while sum(pieces) < 36:
        bench.round(coordinator)
    assert pieces == [2, 20, 3, 3, 3, 5], "ten times as much at most; then what takes 10 s; the rest"
    bench.round(coordinator)
    exactly_once(bench)


def test_a_group_that_was_set_back(make_bench: MakeBench) -> None:
    """⚑ P-6, K-6: what is handed over again is a duplicate, or straddles and is read again."""
    bench = make_bench()
    coordinator = bench.coordinator()
    bench.produce(range(9))
    bench.hand_over(0, 4)
    bench.round(coordinator)
    with ControlSender(bench.names, bench.names.worker_id(bench.tp()), bench.group) as sender:
        sender.send("someone", [], {bench.tp(): 1})
    bench.hand_over(1, 7)
    for _ in range(3):
        bench.round(coordinator)
    bench.hand_over(7, 9)
    bench.round(coordinator)
    exactly_once(bench)


def test_the_raw_control_topic_holds_transactions_only(make_bench: MakeBench) -> None:
    """T-6: a marker follows whatever was sent.  ⚑ A request for a commit was in no transaction."""
    bench = make_bench()
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce(range(4)))
    bench.round(coordinator)
    ask(bench.names)
    read = bench.control_records()
    assert len(read) >= 6
    last = {record.partition: record.offset for record in read}
    assert {number: end for number, (_, end) in coordinator.reader.logs().items() if number in last} == {
        number: offset + 2 for number, offset in last.items()
    }


def test_a_request_and_its_answers_are_one_transaction(make_bench: MakeBench) -> None:
    """C-13: no coordinator dies between them, and nobody else has to read requests."""
    bench = make_bench()
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce(range(4)))
    bench.rounds(coordinator, 2)
    read = sorted(bench.control_records(), key=lambda r: (r.partition, r.offset))
    events = [(r.partition, r.offset, decode(r.value or b"")) for r in read]
    asked = [(p, o, e.payload) for p, o, e in events if e is not None and isinstance(e.payload, StartCommit)]
    answered = {(p, o): e.payload for p, o, e in events if e is not None and isinstance(e.payload, DataComplete)}
    assert len(asked) == 2
    for partition, offset, request in asked:  # a marker would lie between two transactions
        assert answered[partition, offset + 1].commit_id == request.commit_id


@pytest.mark.soak
def test_a_clock_that_is_set_back_does_not_delay_commits(make_bench: MakeBench) -> None:
    """⚑ The next commit waited until the clock had caught up: hours, if it was set back by hours."""
    bench = make_bench()
    coordinator = bench.coordinator()
    for number in range(2):
        bench.hand_over(*bench.produce([number]))
        bench.clock.ms -= 3_600_000
        coordinator.tick(0.1)
        bench.round(coordinator)
    assert bench.landed() == bench.sent()
