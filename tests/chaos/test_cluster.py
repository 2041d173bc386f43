"""A cluster of two workers: a task that runs twice, an executor that is killed, a worker that is lost."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.chaos.world import World
from tests.support.child import Child
from tests.support.cluster import SETTINGS, cluster, send_until
from tests.support.job import Job

pytestmark = pytest.mark.slow


@pytest.fixture
def job(world: World, tmp_path: Path) -> Job:
    """A sink with four partitions, so that both executors get tasks."""
    return world.job(tmp_path, partitions=4, settings=SETTINGS)


def test_speculation_then_executor_killed_then_worker_lost(world: World, job: Job, tmp_path: Path) -> None:
    def copies() -> int:
        return sum(times - 1 for times in world.gates[0].sent(job.topic).values())

    with cluster(tmp_path / "cluster") as spark, Child(job, settings={"spark.master": spark.url}) as child:

        def next_asleep() -> int:
            before = len(spark.asleep)
            send_until("sleeping task", lambda: len(spark.asleep) > before, child)
            return spark.asleep[-1]

        def sleeper() -> int:
            """The executor of a task that sleeps.  Spark ends one whose copy was faster: then another is waited for."""
            while True:
                with suppress(FileNotFoundError):
                    return spark.executor_of(next_asleep())

        def await_landed() -> None:
            child.await_that("all records", lambda: job.verdict().exactly_once and not job.in_doubt())
            world.judge(job)

        send_until("speculative copy", lambda: copies() > 0, child)
        await_landed()
        world.tally.fired("speculative copy of a task sent its pieces too", copies())

        os.kill(sleeper(), signal.SIGKILL)
        world.tally.killed("Spark executor")
        await_landed()

        executor = sleeper()
        spark.workers[0].kill()
        os.kill(executor, signal.SIGKILL)
        world.tally.killed("Spark worker and its executor")
        await_landed()
        assert child.running
