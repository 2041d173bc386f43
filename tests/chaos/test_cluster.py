"""A cluster of two workers: a task that runs twice, an executor that is killed, a worker that is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.chaos.world import World
from tests.support.child import Child
from tests.support.cluster import SETTINGS, cluster
from tests.support.job import Job


@pytest.fixture
def job(world: World, tmp_path: Path) -> Job:
    """A sink with four partitions, so that both executors get tasks."""
    return world.job(tmp_path, partitions=4, settings=SETTINGS)


def send(job: Job) -> None:
    """Records in all partitions."""
    for partition in range(4):
        job.send(partition, 9)


def test_speculation_then_executor_killed_then_worker_lost(world: World, job: Job, tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster") as spark, Child(job, settings={"spark.master": spark.url}) as child:
        send(job)
        child.await_that("speculative copy", lambda: max([0, *world.gates[0].sent(job.topic).values()]) > 1)
        child.await_that("first batch", lambda: job.verdict().exactly_once and not job.in_doubt())
        world.judge(job)
        copies = sum(times - 1 for times in world.gates[0].sent(job.topic).values())
        world.tally.fired("speculative copy of a task sent its pieces too", copies)

        before = len(spark.asleep)
        send(job)
        child.await_that("sleeping task", lambda: len(spark.asleep) > before)
        os.kill(spark.executor_of(spark.asleep[-1]), signal.SIGKILL)
        world.tally.killed("Spark executor")
        child.await_that("second batch", lambda: job.verdict().exactly_once and not job.in_doubt())
        world.judge(job)

        before = len(spark.asleep)
        send(job)
        child.await_that("sleeping task", lambda: len(spark.asleep) > before)
        executor = spark.executor_of(spark.asleep[-1])
        spark.workers[0].kill()
        os.kill(executor, signal.SIGKILL)
        world.tally.killed("Spark worker and its executor")
        child.await_that("third batch", lambda: job.verdict().exactly_once and not job.in_doubt())
        world.judge(job)
        assert child.running
