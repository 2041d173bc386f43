"""C-14: a coordinator in a process of its own, beside drivers that only hand over: killed, replaced, and not there."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.clock import SystemClock
from chsink.embedded.stack import Stack
from chsink.embedded.topics import delete_records
from chsink.errors import FencedError, UnavailableError, services
from chsink.kafka.admin import open_admin
from chsink.mirror import apart
from chsink.mirror.control import Fenced
from chsink.mirror.opening import open_mirror
from chsink.mirror.owner import Claims
from chsink.mirror.task import Share
from chsink.statemachine.commit.handover import unsettled
from chsink.statemachine.ranges import OffsetRange
from tests.integration.mirror.commands import set_offset
from tests.integration.mirror.conftest import MakeBench
from tests.integration.mirror.mirrored import Mirrored, make_mirrored
from tests.integration.mirror.test_coordination import config_of
from tests.integration.mirror.test_table_by import mirror_of, offsets, send
from tests.support.child import Child
from tests.support.job import eventually
from tests.support.told import words_of

pytestmark = pytest.mark.slow
HANDS_OVER, COMMITS = ("mirror", "run"), ("mirror", "coordinator")
APART = {
    "mirror.coordinator": "apart",
    "trigger.mode": "processing_time",
    "trigger.interval": "200 milliseconds",
}


@pytest.fixture
def job(stack: Stack, tmp_path: Path) -> Mirrored:
    """Its driver and its coordinator need each other."""
    return make_mirrored(stack, tmp_path, APART)


def all_there(job: Mirrored) -> Callable[[], bool]:
    """Whether as many rows are there as were sent."""
    return lambda: len(job.mirrored()) >= sum(job.sent.values())


def exactly_once(job: Mirrored) -> None:
    """Each record is in the table once."""
    wanted = [(p, n, n, f"{p}:{n}") for (_, p), count in job.sent.items() for n in range(count)]
    assert job.mirrored() == sorted(wanted, key=repr)


@pytest.mark.soak
def test_killed_and_started_again(job: Mirrored, stack: Stack) -> None:
    """In any order; what was handed over meanwhile lands, and so does what no event speaks of any more."""
    job.send(0, 10)
    with Child(job, command=HANDS_OVER) as driver:
        driver.await_that("start", lambda: "handing over" in driver.said)
        with Child(job, command=COMMITS, traps="coordinator.in_transaction=kill@3") as first:
            assert first.end() == -signal.SIGKILL, first.said[-3000:]
        job.send(1, 10)
        with Child(job, command=COMMITS) as second:
            second.await_that("rows", all_there(job))
            second.kill()
        # nobody commits: the driver hands over all the same, and the events are lost before anybody has read them
        job.send(0, 5)
        driver.await_that("hand-over", lambda: pending(job) == 5)
        stack.kafka.delete_topic(f"{job.topic}-control")
        stack.kafka.create_topic(f"{job.topic}-control", 4)
        with Child(job, command=COMMITS) as third:
            third.await_that("rows", all_there(job))
            assert "reading a range again" in third.said
            handed_over = [int(rows) for rows in re.findall(r"handed over .*rows=(\d+)", third.said)]
            assert sum(handed_over) >= 5, "what was read again is counted"
            third.tell(signal.SIGTERM)
            assert third.end() == 0, third.said[-3000:]
        exactly_once(job)
        if driver.running:
            driver.tell(signal.SIGTERM)
        assert driver.end() in (0, 5), driver.said[-3000:]


def pending(job: Mirrored) -> int:
    """Offsets that the group has passed and the table lacks."""
    mirror = open_mirror(job.config(), open_admin(job.config()))
    offsets = mirror.names.offsets()
    try:
        group = offsets.committed(mirror.kafka.partitions([job.topic]))
    finally:
        offsets.close()
    return sum(at or 0 for at in group.values()) - len(job.mirrored())


@pytest.mark.soak
def test_the_newest_of_each_kind_stays(job: Mirrored) -> None:
    """Two coordinators, then a driver that commits by itself: nobody fences another one for ever."""
    job.send(0, 10)
    with Child(job, command=COMMITS) as older, Child(job, command=HANDS_OVER) as driver:
        driver.await_that("rows", all_there(job))
        with Child(job, command=COMMITS) as newer:
            assert older.end() == 4, older.said[-3000:]
            job.send(1, 10)
            driver.await_that("rows", all_there(job))
            own = {"mirror.coordinator": "driver", "mirror.checkpoint": str(job.folder / "own")}
            with Child(job, command=HANDS_OVER, settings=own) as alone:
                assert newer.end() == 4, newer.said[-3000:]
                assert driver.end() == 4, driver.said[-3000:]
                job.send(0, 10)
                alone.await_that("rows", all_there(job))
                alone.tell(signal.SIGTERM)
                assert alone.end() == 0, alone.said[-3000:]
    exactly_once(job)


@pytest.mark.soak
def test_two_drivers_hand_over(job: Mirrored) -> None:
    """The one that started last stays; both sides of a job use the coordinator."""
    job.send(0, 10)
    with Child(job, command=COMMITS) as coordinator, Child(job, command=HANDS_OVER) as older:
        older.await_that("rows", all_there(job))
        with Child(job, settings={"mirror.checkpoint": str(job.folder / "own")}) as both:
            assert older.end() == 4, older.said[-3000:]
            job.send(1, 10)
            both.await_that("rows", lambda: all_there(job)() and len(job.landed()) == 20)
            both.tell(signal.SIGTERM)
            assert both.end() == 0, both.said[-3000:]
        coordinator.tell(signal.SIGTERM)
        assert coordinator.end() == 0, coordinator.said[-3000:]
    exactly_once(job)
    job.check()


@pytest.mark.soak
def test_what_was_handed_over_is_committed_and_it_ends(make_bench: MakeBench) -> None:
    """With ``available_now``, and again with nothing to do; a hole below is read from Kafka."""
    bench = make_bench()
    bench.coordinator().close()
    start, end = bench.produce(range(20))
    with bench.names.sender(bench.names.worker_id(bench.tp()), bench.group) as sender:
        sender.send("an event that was lost", [], {bench.tp(): 7})
    bench.hand_over(7, end)
    settings = ["--set", "mirror.coordinator=apart", "--set", "trigger.mode=available_now"]
    for _ in range(2):
        ended = CliRunner().invoke(app, ["mirror", "coordinator", "-c", str(bench.job_file()), *settings])
        assert ended.exit_code == 0, ended.output
        assert start == 0 and bench.landed() == bench.sent()


@pytest.mark.exit_of("MIRROR_NO_COORDINATOR")
def test_a_driver_without_a_coordinator(make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench()
    mirror = open_mirror(config_of(bench), open_admin(config_of(bench)))
    monkeypatch.setattr(apart, "START_S", 1.0)
    driver = apart.CoordinatorElsewhere(mirror, SystemClock(), structlog.get_logger())
    with pytest.raises(UnavailableError) as error:
        driver.start()
    assert error.value.name == services.MIRROR_NO_COORDINATOR.name
    assert tuple(words_of(error.value)) == COMMITS
    driver.close()
    assert bench.group_at() is None

    coordinator = apart.CoordinatorApart(mirror, SystemClock(), structlog.get_logger())
    coordinator.start()
    again = apart.CoordinatorElsewhere(mirror, SystemClock(), structlog.get_logger())
    again.start()
    assert (again.failure, again.held_until(bench.tp())) == (None, 0)
    with mirror.names.sender(mirror.names.worker_id(bench.tp()), mirror.names.group) as sender:
        sender.note = unsettled("")  # a coordinator that was killed while it changed table_by
        sender.send("", [], {bench.tp(): 0})
    later = apart.CoordinatorElsewhere(mirror, SystemClock(), structlog.get_logger())
    with pytest.raises(UnavailableError, match=str(bench.tp())):
        later.start()
    for each in (again, later, coordinator):
        each.close()


@pytest.mark.soak
def test_an_offset_that_a_person_set(make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ Nothing told any more by which ``table_by`` records were divided: no driver started beside this coordinator.  One
    that another has replaced stores nothing.
    """
    bench, log = make_bench(tables=("a", "b")), structlog.get_logger()
    monkeypatch.setattr(apart, "ASK_S", 0.2)
    mirror, newer = (mirror_of(bench, tables) for tables in ({"x": "a", "y": "b"}, {"x": "b", "y": "a"}))
    coordinator, later = (apart.CoordinatorApart(each, SystemClock(), log) for each in (mirror, newer))
    coordinator.start()
    feeds, share = mirror.feeds(), Share(bench.tp(), OffsetRange(*send(bench, "xy")))
    set_offset(mirror.names, bench.group, bench.tp(), 0)
    with pytest.raises(UnavailableError, match="CHS-712"):
        feeds.hand_over(share, bench.records()(share.range))
    driver, works = apart.CoordinatorElsewhere(mirror, SystemClock(), log), coordinator._coordinator
    coordinator.begin()
    driver.start()
    feeds.hand_over(share, bench.records()(share.range))
    coordinator.finish(10)
    while not coordinator.join(1):
        pass
    assert offsets(bench, "a", "b") == {"a": [0], "b": [1]}

    later.start()
    assert works is not None
    with pytest.raises(Fenced):
        works._start_round(0)
    with closing(mirror.names.offsets()) as group:
        assert group.notes([bench.tp()]) == {bench.tp(): newer.feeds().choices[bench.topic]}
    for each in (driver, coordinator, later):
        each.close()


def test_what_kafka_deleted_may_be_in_a_workers_hands(make_bench: MakeBench) -> None:
    """It has ``mirror.timeout_s`` to hand it over; no coordinator can know."""
    bench = make_bench()
    bench.coordinator().close()
    bench.produce(range(20))
    config = config_of(bench, timeout_s=2)
    deleted = apart.Deleted(open_mirror(config, open_admin(config)))
    assert deleted() == []
    delete_records(bench.kafka.bootstrap, bench.topic, 0, 5)
    assert deleted() == [bench.tp()]
    eventually("patience", lambda: deleted() == [], limit_s=10)
    deleted.close()


def test_a_driver_that_commits_needs_no_coordinator(make_bench: MakeBench) -> None:
    ended = CliRunner().invoke(app, ["mirror", "coordinator", "-c", str(make_bench().job_file())])
    assert ended.exit_code == 2 and "CHS-111" in ended.output


def test_a_driver_whose_claim_expired_notices_a_newer_one(make_bench: MakeBench) -> None:
    """⚑ The newer one's claim was the first one again, and so not newer: both handed over."""
    bench = make_bench()
    names, log = bench.names, structlog.get_logger("mirror")
    place = (names.driver_id, names.driver_group)
    older, newer = (Claims(names, place, SystemClock(), log, what="handing over") for _ in range(2))
    older.claim()
    bench.delete_groups(names.driver_group)
    newer.claim()

    def replaced() -> bool:
        try:
            older.check()
        except FencedError:
            return True
        return False

    eventually("end of the older one", replaced, limit_s=10)
    newer.check()
    older.close()
    newer.close()
