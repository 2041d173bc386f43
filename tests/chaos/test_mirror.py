"""The mirror beside ClickHouse's side of the same job: what kills, freezes or cuts off one of its parts.

Each test ends with Kafka's records against the rows of both sides.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException

from tests.chaos.lake import Lake, judge, judge_not_wrong, mirrored
from tests.chaos.world import World
from tests.support.child import Child
from tests.support.job import Job, eventually
from tests.support.kafka import end_offset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

CHANCE = random.Random(int(os.environ.get("SEED", "0")) or None)
LIVING = {"trigger.mode": "processing_time", "trigger.interval": "200 milliseconds", "mirror.timeout_s": 10}
ENDED = (0, 5)
WORKERS_DIE_S, OUTAGE_S = 6, 40


@dataclass(frozen=True, slots=True)
class Storm:
    """A job that lives through all faults of its tests."""

    world: World
    job: Job
    lake: Lake
    child: Child

    def send(self) -> None:
        """Records in both partitions."""
        self.job.send(0, 20)
        self.job.send(1, 20)

    def pass_over(self) -> None:
        """All that was sent is on both sides, exactly once, by the same process."""
        total = sum(self.job.sent.values())
        self.child.await_that("calm", lambda: self.job.status()["lag"] == self.job.status()["in_doubt"] == 0)
        for table in self.lake.tables:
            self.child.await_that(f"all rows of {table}", lambda t=table: self.lake.rows(t) >= total)  # type: ignore[misc]
        judge(self.world, self.job, self.lake)
        assert self.child.running


@pytest.fixture(scope="module")
def _storm(_world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storm]:
    job, lake = mirrored(_world, tmp_path_factory.mktemp("mirror-storm"), LIVING)
    job.send(0, 1)
    with Child(job) as child:
        child.await_that("first commit", lambda: "committed" in child.said)
        yield Storm(_world, job, lake, child)


@pytest.fixture
def storm(_storm: Storm, world: World) -> Storm:
    """The living job under no fault."""
    assert _storm.child.running, _storm.child.said[-3000:]
    return _storm


def test_catalog_is_locked(storm: Storm) -> None:
    """A reading times out, round after round; ClickHouse's side goes on meanwhile."""
    before = storm.child.said.count("database is locked")
    with storm.lake.locked():
        storm.send()
        storm.child.await_that("locked catalog", lambda: storm.child.said.count("database is locked") > before)
        storm.child.await_that("ClickHouse's side", lambda: storm.job.status()["lag"] == 0)
    storm.pass_over()
    storm.world.tally.fired("mirror: catalog locked", storm.child.said.count("database is locked") - before)


def test_catalog_refuses_writes(storm: Storm) -> None:
    """It is read, and no commit is applied."""
    before = storm.child.said.count("refused here")
    with storm.lake.refusing():
        storm.send()
        storm.child.await_that("refused commit", lambda: storm.child.said.count("refused here") > before + 1)
    storm.pass_over()
    storm.world.tally.fired("mirror: commit refused", storm.child.said.count("refused here") - before)


def test_broker_freezes(storm: Storm) -> None:
    """Kafka's process is stopped with hand-overs on their way."""
    storm.send()
    os.kill(storm.world.kafka.pid, signal.SIGSTOP)
    try:
        time.sleep(4)
    finally:
        os.kill(storm.world.kafka.pid, signal.SIGCONT)
    storm.send()
    storm.pass_over()
    storm.world.tally.fired("mirror: broker frozen (SIGSTOP)")


def _has_leader(job: Job) -> bool:
    """A broker that has just started answers for a moment that it is not the leader."""
    try:
        end_offset(job.bootstrap, job.topic, 0)
    except KafkaException:
        return False
    return True


def test_broker_is_killed(storm: Storm) -> None:
    """Found by a newcomer: the coordinator of an idle mirror waited in Kafka's client for good, and nothing said so."""
    storm.world.kafka.kill()
    storm.world.kafka.start()
    eventually("a leader of the topic", lambda: _has_leader(storm.job))
    storm.send()
    storm.pass_over()
    storm.send()
    storm.pass_over()
    storm.world.tally.killed("mirror: broker while the coordinator idles")


def test_two_drivers(storm: Storm, spark: SparkSession) -> None:
    """Last of the living job: a second driver of the same sink, with checkpoints of its own, ends it."""
    settings = {"sink.checkpoint": str(storm.job.folder / "second-checkpoint")}
    storm.job.settings = {key: value for key, value in storm.job.settings.items() if key not in LIVING}
    storm.send()
    storm.job.drain(spark, settings)
    storm.send()
    assert storm.child.end() == 4, storm.child.said[-3000:]
    storm.job.drain(spark, settings)
    judge(storm.world, storm.job, storm.lake)
    storm.world.tally.fired("mirror: second driver")


# --- deaths -----------------------------------------------------------------------------------------------------------


def at_step(name: str, *codes: int) -> Callable[[World, Job, Lake], None]:
    """A process dies by its own hand at a step: a driver, or a Python worker, whose query then ends."""

    def blow(world: World, job: Job, _: Lake) -> None:
        with Child(job, traps=f"{name}=kill@1") as child:
            assert child.end() in codes, child.said[-3000:]
            assert {f[0] for f in child.fired} == {name}, child.said[-3000:]
        world.tally.kills[f"mirror: at {name}"] += len(child.fired)

    blow.__name__ = name
    return blow


def at_random(world: World, job: Job, _: Lake) -> None:
    """All processes, at any moment after the mirror's first claim."""
    with Child(job, settings=LIVING) as child:
        child.await_that("coordinator", lambda: "coordinating" in child.said)
        until = time.monotonic() + CHANCE.uniform(0, 4)
        while time.monotonic() < until:
            job.send(0, 3)
        assert child.kill() > 1
    world.tally.killed("mirror: all processes at a random moment")


def workers_at_random(world: World, job: Job, _: Lake) -> None:
    """Python workers alone die at any moment, of both sides: local Spark tries no task again, so queries end."""
    killed = 0
    with Child(job, settings=LIVING) as child:
        child.await_that("workers", lambda: bool(child.workers()))
        until = time.monotonic() + WORKERS_DIE_S
        while child.running and time.monotonic() < until:
            job.send(0, 3)
            time.sleep(CHANCE.uniform(0, 0.3))
            killed += child.kill_workers()
        if child.running:
            child.kill()
        else:
            assert child.end() in ENDED, child.said[-3000:]
    assert killed
    world.tally.kills["mirror: Python worker at a random moment"] += killed


def broker_in_a_transaction(world: World, job: Job, _: Lake) -> None:
    """The broker is killed while workers hold open transactions, and comes back.  A job that waits long for it dies too."""
    with Child(job, traps="worker.in_transaction=sleep:3@1") as child:
        child.await_fired("worker.in_transaction")
        world.kafka.kill()
        world.kafka.start()
        child.end_or_kill(OUTAGE_S, ENDED)
    world.tally.killed("mirror: broker in a transaction")


def catalog_away(world: World, job: Job, lake: Lake) -> None:
    """A start without its catalog: ClickHouse's side does its work, and the exit code tells."""
    with lake.away(), Child(job) as child:
        assert child.end() in (2, 3, 5), child.said[-3000:]
        assert job.status()["lag"] == 0
    world.tally.fired("mirror: catalog away")


def control_topic_deleted(world: World, job: Job, lake: Lake) -> None:
    """What was handed over and not committed is in no event any more: it is read again."""
    before = lake.rows(lake.tables[0])
    with Child(job, traps="coordinator.in_transaction=sleep:3600@1,worker.after_transaction=sleep:0") as child:
        child.await_fired("coordinator.in_transaction")
        child.await_fired("worker.after_transaction", 2)
        child.kill()
    assert lake.rows(lake.tables[0]) == before
    world.kafka.delete_topic(f"{job.topic}-control")
    world.tally.fired("mirror: control topic deleted")


BLOWS = [
    at_step("coordinator.between_tables", -signal.SIGKILL),
    broker_in_a_transaction,
    at_random,
    control_topic_deleted,
]
MORE_BLOWS = [at_step("worker.in_transaction", 5), catalog_away, workers_at_random]


@pytest.mark.parametrize(
    "blows", [pytest.param(BLOWS, id="blows"), pytest.param(MORE_BLOWS, id="more", marks=pytest.mark.long)]
)
def test_chain_of_deaths_with_a_mirror(
    blows: list[Callable[[World, Job, Lake], None]], world: World, tmp_path: Path, spark: SparkSession
) -> None:
    job, lake = mirrored(world, tmp_path)
    for blow in blows:
        job.send(0, 25)
        job.send(1, 7)
        blow(world, job, lake)
        judge_not_wrong(lake, job)
    job.send(0, 25)
    job.drain(spark)
    judge(world, job, lake)


def test_frozen_worker_wakes_after_its_successor(world: World, tmp_path: Path, spark: SparkSession) -> None:
    """Workers are stopped in their transactions; another driver hands the same ranges over; then they wake."""
    step = "worker.in_transaction"
    job, lake = mirrored(world, tmp_path)
    job.send(0, 25)
    job.send(1, 7)
    with Child(job, traps=f"{step}=stop@1") as zombie:
        workers = zombie.await_fired(step)
        job.drain(spark, {"sink.checkpoint": str(job.folder / "second-checkpoint")})
        judge(world, job, lake)
        landed = {table: lake.landed(table) for table in lake.tables}
        eventually("end", lambda: not (zombie.running and zombie.tell_all(signal.SIGCONT)), limit_s=120)
        assert zombie.end() == 4, zombie.said[-3000:]
    job.drain(spark, {"sink.checkpoint": str(job.folder / "second-checkpoint")})
    assert {table: lake.landed(table) for table in lake.tables} == landed
    judge(world, job, lake)
    world.tally.fired("mirror: frozen worker (SIGSTOP)", len(workers))
