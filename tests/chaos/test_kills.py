"""The real job dies at every step of a batch; each next run settles what the last one left, and dies further on.

One sink, one checkpoint, one process after the other; new records come before every run.  Some are bad, and become dead
letters in a topic.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chaos.letters import send_bad
from tests.chaos.world import INSERT, World
from tests.support.child import Child
from tests.support.job import Job, eventually
from tests.support.proxies import HttpFault

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

OUTAGE_S = 60


def send(job: Job) -> None:
    """New records in both partitions: several chunks in one, a part of one in the other; a bad one in each."""
    job.send(0, 14)
    send_bad(job, 0)
    job.send(0, 11)
    send_bad(job, 1)
    job.send(1, 7)


def by_failpoint(name: str, *, doubtful: bool) -> Callable[[World, Job], None]:
    """Run until the driver dies by its own hand at a step."""

    def blow(world: World, job: Job) -> None:
        with Child(job, traps=f"{name}=kill") as child:
            assert child.end() == -signal.SIGKILL, child.said[-3000:]
            assert [f[0] for f in child.fired] == [name]
        world.tally.killed(f"driver at {name}")
        assert bool(job.in_doubt()) is doubtful

    blow.__name__ = name
    return blow


def worker_after_insert(world: World, job: Job) -> None:
    """A Python worker dies with its piece inserted and nothing acknowledged; local Spark gives the query up."""
    with Child(job, traps="task.after_insert=kill") as child:
        assert child.end() == 5, child.said[-3000:]
        assert {f[0] for f in child.fired} == {"task.after_insert"}
        world.tally.kills["worker at task.after_insert"] += len(child.fired)
    assert job.in_doubt()


def worker_in_dead_letters(world: World, job: Job) -> None:
    """A Python worker dies with its transaction of dead letters open."""
    with Child(job, traps="task.in_dead_letters=kill") as child:
        assert child.end() == 5, child.said[-3000:]
        world.tally.kills["worker at task.in_dead_letters"] += len(child.fired)
        assert child.fired
    assert job.in_doubt()


def broker_in_dead_letters(world: World, job: Job) -> None:
    """The broker is killed in a transaction of dead letters, and comes back.  A job that waits long for it dies, too."""
    with Child(job, traps="task.in_dead_letters=sleep:3@1") as child:
        child.await_fired("task.in_dead_letters")
        world.kafka.kill()
        world.kafka.start()
        child.end_or_kill(OUTAGE_S, (0, 5))
    world.tally.killed("broker in a transaction of dead letters")


def mid_body(world: World, job: Job) -> None:
    """Every insert's body is cut in half on its way, and while the job sends it again, all its processes die."""
    cuts = world.fault(HttpFault.CUT_REQUEST, INSERT, times=1000)
    with Child(job) as child:
        child.await_that("cut insert", lambda: cuts() > 1)
        assert child.kill() > 1
    world.heal()
    world.tally.fired("insert body cut half-way", cuts())
    world.tally.killed("all processes, mid-body")
    assert job.in_doubt() == {0, 1}


def lands_after_death(world: World, job: Job) -> None:
    """Inserts are on their way when all processes die, and land after that."""
    late = world.fault(HttpFault.DELAY, INSERT, times=1000, delay_s=1.5)
    before = world.rows(job)
    with Child(job) as child:
        child.await_that("insert on its way", lambda: late() > 0)
        child.kill()
    assert world.rows(job) == before
    world.heal()
    world.tally.fired("insert lands after its sender's death", late())
    world.tally.killed("all processes, insert on its way")
    eventually("late insert", lambda: world.rows(job) > before)


def before_spark_commits(world: World, job: Job) -> None:
    """All is landed and confirmed, and Spark does not know it."""
    by_failpoint("driver.after_after", doubtful=False)(world, job)
    offsets, commits = (max(map(int, files(job, log))) for log in ("offsets", "commits"))
    assert offsets == commits + 1


def files(job: Job, log: str) -> list[str]:
    """The batches in a log of the checkpoint."""
    return [file.name for file in (job.checkpoint / log).iterdir() if file.name.isdigit()]


def sigterm(world: World, job: Job) -> None:
    """A clean stop in the midst of a batch: it is finished first, exit 0, nothing is in doubt."""
    late = world.fault(HttpFault.DELAY, INSERT, times=1000, delay_s=1)
    with Child(job, settings={"trigger.mode": "processing_time", "trigger.interval": "1 second"}) as child:
        child.await_that("insert on its way", lambda: late() > 0)
        child.tell(signal.SIGTERM)
        assert child.end() == 0, child.said[-3000:]
        assert "stopping" in child.said
    assert not job.in_doubt()
    world.heal()
    world.tally.fired("SIGTERM in a batch")


BLOWS = [
    sigterm,  # first: a job that settles when it comes does not finish its batch
    mid_body,
    lands_after_death,
    broker_in_dead_letters,
    worker_in_dead_letters,
    by_failpoint("driver.after_settle_inserts", doubtful=True),  # what the one before left in doubt is being settled
]
MORE_BLOWS = [
    by_failpoint("driver.before_before", doubtful=False),
    by_failpoint("driver.after_before", doubtful=True),
    worker_after_insert,
    by_failpoint("driver.before_after", doubtful=True),
    before_spark_commits,
]


@pytest.mark.parametrize(
    "blows", [pytest.param(BLOWS, id="blows"), pytest.param(MORE_BLOWS, id="more", marks=pytest.mark.long)]
)
def test_chain_of_deaths_on_one_sink(
    blows: list[Callable[[World, Job], None]], world: World, tmp_path: Path, spark: SparkSession
) -> None:
    job = world.job(tmp_path, letters="topic")
    for blow in blows:
        send(job)
        blow(world, job)
        world.judge_not_wrong(job)
    send(job)
    job.drain(spark)
    world.judge(job)
