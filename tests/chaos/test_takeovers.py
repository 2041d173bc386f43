"""Zombies: a driver or its tasks sleep through a takeover, wake, and go on as if nothing had been."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chaos.letters import send_bad
from tests.chaos.world import TINY_WINDOW, World, overflow
from tests.support.child import Child
from tests.support.job import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def job(world: World, tmp_path: Path) -> Job:
    """A sink with three pieces in one partition and one in the other, and dead letters of both in a topic."""
    job = world.job(tmp_path, letters="topic")
    for partition, count in ((0, 24), (1, 6)):
        job.send(partition, count)
        send_bad(job, partition)
    return job


def take_over(job: Job, spark: SparkSession) -> None:
    """A second driver of the same sink, with a checkpoint of its own, to the end."""
    job.drain(spark, {"sink.checkpoint": str(job.folder / "second-checkpoint")})


def test_zombie_driver_wakes_after_a_takeover(world: World, job: Job, spark: SparkSession) -> None:
    """All processes of the job are stopped right after BEFORE; woken, it sends all it has, and nothing is kept."""
    with Child(job, traps="driver.after_before=stop") as zombie:
        zombie.await_fired("driver.after_before")
        world.tally.fired("zombie driver (SIGSTOP)", zombie.tell_all(signal.SIGSTOP))
        take_over(job, spark)
        world.judge(job)
        sent, landed = world.gates[0].sent(job.topic), job.landed()
        zombie.tell_all(signal.SIGCONT)
        assert zombie.end() == 4, zombie.said[-3000:]
        assert f"pid {os.getpid()}" in zombie.said, "the loser names the winner"
    assert (world.gates[0].sent(job.topic) - sent).keys() == sent.keys(), "it sent the same pieces again"
    assert job.landed() == landed
    world.judge(job)


def test_zombie_tasks_wake_after_a_takeover(world: World, job: Job, spark: SparkSession) -> None:
    """Python workers are stopped with their pieces in hand; the driver waits, and another takes over meanwhile."""
    with Child(job, traps="task.before_insert=stop@1") as zombie:
        workers = zombie.await_fired("task.before_insert", 2)
        take_over(job, spark)
        world.judge(job)
        landed = job.landed()
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
        assert zombie.end() == 4, zombie.said[-3000:]
    world.tally.fired("zombie task (SIGSTOP)", len(workers))
    assert max(world.gates[0].sent(job.topic).values()) == 2, "the zombie did send"
    assert job.landed() == landed
    world.judge(job)


def test_zombie_tasks_wake_when_their_tokens_are_forgotten(world: World, tmp_path: Path, spark: SparkSession) -> None:
    """The window overflows while they sleep: who takes over probes at once, and they must not send any more."""
    timeouts = {"clickhouse.insert_timeout_s": 4, "clickhouse.connect_timeout_s": 3}
    job = world.job(tmp_path, engine=TINY_WINDOW, settings=timeouts)
    job.send(0, 25)
    job.send(1, 7)
    with Child(job, traps="task.before_insert=stop@1") as zombie:
        workers = zombie.await_fired("task.before_insert", 2)
        overflow(world, job)
        take_over(job, spark)
        world.judge(job)
        overflow(world, job)
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
        assert zombie.end() in (4, 5), zombie.said[-3000:]
    world.tally.fired("zombie task whose tokens are forgotten", len(workers))
    world.judge(job)
