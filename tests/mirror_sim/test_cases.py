"""Single schedules of the mirror that once failed, or that chance seldom finds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile

from chsink.mirror import control
from chsink.mirror.control import ControlUnanswered
from chsink.mirror.worker import Worker
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.mirror_sim import oracle
from tests.mirror_sim.broker import GROUP, Broker, names_of
from tests.mirror_sim.campaign import RUNS
from tests.mirror_sim.events import change_map
from tests.mirror_sim.spark import SimFiles
from tests.mirror_sim.world import World
from tests.sim.checkpoint import Checkpoint
from tests.sim.hub import Group, Hub


def quiet(seed: int, happens: Callable[[World], None]) -> World:
    """A world without faults: it lands some records, something happens, and it goes on until a halt or rest."""
    world = World(seed, frozenset())
    with world.watched():
        for tp in world.kafka.all():
            world.kafka.append(tp, 7)
        world.start_driver()
        steps(world, 2_000)
        assert oracle.at_rest(world) == ""
        happens(world)
        steps(world, 3_000)
    return world


def steps(world: World, count: int) -> None:
    for _ in range(count):
        if world.over is not None:
            return
        if not world.hub.step():
            world.start_driver()


def test_a_world_without_faults_comes_to_rest() -> None:
    world = quiet(1, lambda w: w.kafka.append(w.kafka.all()[0], 3))
    assert world.over is None and oracle.at_rest(world) == ""
    assert not world.hub.fired and world.starts == 1


def test_a_topic_that_comes_back_with_more_partitions_halts() -> None:
    """⚑ The new partition began, under another id of its topic than the others: no chain could hold both."""

    def happens(world: World) -> None:
        topic = world.kafka.all()[0].topic
        world.recreate(topic)
        world.kafka.add_partition(topic)

    assert quiet(1, happens).over == "MIRROR_TOPIC_RECREATED"


def test_an_empty_range_moves_no_offset_while_the_brokers_are_away() -> None:
    """T-7: there is nothing to report, and the broker has to answer all the same."""
    hub, tp = Hub(1, frozenset()), TopicPartition("t", 0)
    broker = Broker(hub, 1)
    worker = Worker(names_of(broker), tp, "id", ())

    def away(_: OffsetRange) -> Iterable[pa.RecordBatch]:
        broker.away_until = hub.now + 60_000
        return ()

    def body() -> None:
        with worker.names.sender("settles", GROUP) as sender:
            sender.send("key", [], {tp: 3})
            assert sender.committed([tp]) == {tp: 3}
        with pytest.raises(ControlUnanswered):
            worker.run(OffsetRange(3, 9), away)
        hub.sleep(120)
        assert broker.groups[GROUP] == {tp: 3}
        assert worker.run(OffsetRange(3, 9), lambda _: ()).decision.because == "NEXT"

    actor = hub.spawn(Group("test"), body)
    while actor in hub.actors:
        assert hub.step()


def test_a_transaction_that_hangs_holds_others_up_until_it_times_out() -> None:
    """T-8: somebody's producer opened one on every partition of the control topic, and was never heard of again."""
    began, held = list[int](), list[int]()

    def happens(world: World) -> None:
        broker = world.broker
        broker.fence("hangs")
        transaction = broker.begin("hangs")
        for log in broker.logs:
            log.entries.append((b"", transaction))
            transaction.unmarked.append(log)
        began.append(world.hub.now)
        world.kafka.append(world.kafka.all()[0], 5)
        while oracle.at_rest(world):
            held.append(world.hub.now)
            steps(world, 1)

    world = quiet(1, happens)
    assert world.over is None and oracle.at_rest(world) == ""
    waited = held[-1] - began[0]
    assert control.TRANSACTION_MS < waited < control.TRANSACTION_MS + 3 * world.pace.interval_ms


@pytest.mark.soak
def test_a_group_that_is_set_beyond_the_end_of_the_log_loses_nothing() -> None:
    """⚑ The range up to it was read when half of it was not written yet, and counted as read."""

    def happens(world: World) -> None:
        tp = world.kafka.all()[0]
        world.broker.groups[GROUP][tp] = world.kafka.log(tp).end + 5
        world.reasons.add("group set forward")
        for _ in range(40):
            world.kafka.append(tp, 1)
            steps(world, 40)

    world = quiet(1, happens)
    assert world.over is None and oracle.at_rest(world) == ""


def test_a_group_that_is_set_back_below_what_kafka_deleted_halts_nothing() -> None:
    """⚑ Seed 777000238: the next batch halted for records "deleted before they landed", and both tables held them."""

    def happens(world: World) -> None:
        tp = world.kafka.all()[0]
        world.broker.groups[GROUP][tp] = 0
        world.reasons.add("group set back")
        world.kafka.expire(tp, 5, lossy=False)
        world.kafka.append(tp, 3)

    world = quiet(1, happens)
    assert world.over is None and oracle.at_rest(world) == "" and world.starts == 2
    assert world.hub.counts["outcome MIRROR_NOT_HANDED_OVER"] == 1


@pytest.mark.parametrize("running", [False, True])
def test_records_that_kafka_deletes_before_a_checkpoint_that_begins_behind_them_halt(
    monkeypatch: pytest.MonkeyPatch, *, running: bool
) -> None:
    """⚑ Seed 512000104: no plan had them, nothing more came to the partition, and nobody said that they were lost."""

    def happens(world: World) -> None:
        tp = world.kafka.all()[0]
        world.kill(world.drivers[0])
        world.kafka.append(tp, 1)
        world.checkpoint = Checkpoint()
        ends = {tp: world.kafka.log(tp).end for tp in world.kafka.all()}
        by_topic = {t: {str(tp.partition): at for tp, at in ends.items() if tp.topic == t} for t in world.routes.whole}
        monkeypatch.setattr(world, "starting", lambda: json.dumps(by_topic))
        if running:
            steps(world, 2_000)
            assert world.over is None and world.drivers
        world.kafka.expire(tp, ends[tp], lossy=True)
        world.reasons.add("records lost")

    assert quiet(1, happens).over == "MIRROR_RECORDS_GONE"


def test_records_that_kafka_deletes_after_a_worker_has_read_them_land(monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ A round that began meanwhile would have fenced the worker: its records would have been lost for good."""
    close, deleted = SimFiles.close, list[int]()

    def slowly(files: SimFiles) -> list[DataFile]:
        world = files.world
        tp = world.kafka.all()[0]
        if world.reasons and not deleted:
            deleted.append(world.kafka.log(tp).end)
            world.kafka.expire(tp, deleted[0], lossy=True)
            world.hub.sleep(3 * world.pace.interval_ms / 1000)
        return close(files)

    def happens(world: World) -> None:
        monkeypatch.setattr(SimFiles, "close", slowly)
        world.reasons.add("records lost")
        world.kafka.append(world.kafka.all()[0], 3)

    world = quiet(1, happens)
    assert deleted and world.over is None and oracle.at_rest(world) == "" and world.starts == 1


def test_a_table_that_lost_its_chain_and_the_group_halts() -> None:
    """⚑ Every record landed again."""

    def happens(world: World) -> None:
        for name, table in world.catalog.tables.items():
            world.catalog.tables[name] = replace(table, properties={})
            world.catalog.foreign_append(name)
            world.catalog.expire(name, forget=False)
        world.broker.groups.clear()
        world.broker.recreate()
        world.reasons.add("chain lost")
        world.kill(world.drivers[0])

    assert quiet(1, happens).over == "MIRROR_ROWS_FOUND"


def test_a_table_that_is_made_again_while_the_mirror_runs_halts() -> None:
    """⚑ What the table had is gone; the coordinator would commit to the new one as if it were the old one."""

    def happens(world: World) -> None:
        world.catalog.recreate(next(iter(world.catalog.tables)))
        world.reasons.add("table recreated")
        world.kafka.append(world.kafka.all()[0], 3)

    assert quiet(1, happens).over == "MIRROR_TABLE_RECREATED"


def test_a_log_that_lost_records_halts_once_they_are_missed() -> None:
    """⚑ New records took offsets that the tables held, and never landed."""

    def happens(world: World) -> None:
        tp = world.kafka.all()[0]
        world.kafka.shrink(tp, 4, unwatched=False)
        world.reasons.add("log shrank")

    assert quiet(1, happens).over == "MIRROR_LOG_SHRANK"


def test_a_driver_that_was_frozen_in_its_start_does_not_halt_for_rows_of_its_successor() -> None:
    """It had read an empty group and an empty table; the rows that it then found were its successor's."""
    _, failure = RUNS.run_world(910000299, 346, (10, 139, 188))
    assert failure is None


def test_a_file_that_is_gone_does_not_keep_a_halt_from_being_said() -> None:
    """Kafka deleted records of one partition, and somebody a file of the other: each start failed in its last commit."""
    keep = (2, 3, 10, 80, 127, 145, 200, 202, 233, 296, 339, 342, 354, 361, 386, 420, 426, 462, 484, 501, 502, 563, 574)
    _, failure = RUNS.run_world(273, 1500, keep)
    assert failure is None


@pytest.mark.parametrize("seed", [pytest.param(7, marks=pytest.mark.soak), 35])
def test_two_changes_of_table_by_are_undone_and_made_one_by_one(seed: int) -> None:
    """No start took the first: the only table of the second is as new as if both were one change."""
    changes: list[tuple[str, ...]] = [("db.s0", "db.s1") * 2, ("db.s1",) * 4]

    def happens(world: World) -> None:
        before, tp = world.routes.maps["t0"], world.kafka.all()[0]
        world.kafka.append(tp, 3)
        while world.broker.groups[GROUP][tp] < world.kafka.log(tp).end:
            world.hub.step()
        assert oracle.at_rest(world) != "", "they were committed, too"
        world.kill(world.drivers[0])
        for table_of in changes:
            change_map(world, "t0", table_of)
        steps(world, 500)
        assert world.over == "MIRROR_CHAIN_MISSING" and "db.s1" not in before
        for table_of in (before, *changes):
            world.over = None
            for driver in list(world.drivers):
                world.kill(driver)
            change_map(world, "t0", table_of)
            world.kafka.append(tp, 7)
            steps(world, 1_000)
            assert oracle.at_rest(world) == ""

    assert quiet(seed, happens).over is None
