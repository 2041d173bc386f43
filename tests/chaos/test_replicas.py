"""One shard with three replicas, a quorum of two: a replica dies or lags, or ZooKeeper is away, and the job goes on.

A job that stops with exit code 5 is started again, as its supervisor would.  Each test ends with all replicas compared
with Kafka.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.chaos.world import World, open_replicas
from tests.support.child import Child
from tests.support.job import Job, command, select
from tests.support.replicas.engine import why_not

pytestmark = pytest.mark.slow

SETTINGS = {
    "trigger.mode": "processing_time",
    "trigger.interval": "200 milliseconds",
    "clickhouse.insert_timeout_s": 5,
    "clickhouse.connect_timeout_s": 3,
    "clickhouse.retry_for_s": 40,
    "state.timeout_s": 20,
}
AWAY_S, BEHIND_S = 45, 15
LIMIT_S = 120
"""Of each wait."""


@pytest.fixture(scope="module")
def _replicas(_world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    if reason := why_not():
        pytest.skip(reason)
    with open_replicas(tmp_path_factory.mktemp("replicas"), _world) as world:
        yield world


@pytest.fixture
def world(_replicas: World) -> Iterator[World]:
    """Three replicas under no fault."""
    _replicas.heal()
    yield _replicas
    _replicas.heal()


class Supervised:
    """The job as a supervisor runs it: it is started again whenever it ends with exit code 5."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._child = Child(job)

    def until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait until ``is_so()``."""
        deadline = time.monotonic() + LIMIT_S
        while not is_so():
            assert time.monotonic() < deadline, f"no {what} within {LIMIT_S} s:\n{self._child.said[-3000:]}"
            if not self._child.running:
                assert self._child.end() == 5, self._child.said[-3000:]
                self._child = Child(self.job)
            time.sleep(0.2)

    def until_landed(self) -> None:
        """Wait until all records have landed, as the last replica shows."""
        last = [self.job.replicas[-1]]
        self.until("end", lambda: self.job.verdict(servers=last).exactly_once)

    def until_settled(self) -> None:
        """Wait until nothing is in doubt, either."""
        self.until_landed()
        self.until("end of doubt", lambda: not self.job.in_doubt())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()


def send(job: Job, count: int = 25) -> None:
    """New records in both partitions."""
    for partition in (0, 1):
        job.send(partition, count)


def inserting(job: Job) -> bool:
    """Whether the first replica is in an insert into the job's table."""
    _, _, name = job.tables[job.topic].partition(".")
    sql = f"SELECT count() FROM system.processes WHERE query LIKE 'INSERT INTO%{name}%'"
    return int(select(job.shards[0], sql)) > 0


def test_replica_is_killed_in_an_insert(world: World, tmp_path: Path) -> None:
    """Nobody else has its rows yet.  Another replica takes over, before and after the dead one is back."""
    job = world.job(tmp_path, settings=SETTINGS)
    table = job.tables[job.topic]
    send(job)
    with Supervised(job) as running:
        running.until_landed()
        for url in job.replicas:
            command(url, f"SYSTEM STOP FETCHES {table}")
        send(job)
        running.until("insert", lambda: inserting(job))
        world.servers[0].kill()
        world.gates[0].leave()
        world.tally.killed("replica in an insert")
        for url in job.replicas:
            command(url, f"SYSTEM START FETCHES {table}")
        send(job)
        running.until_landed()
        world.servers[0].start()
        world.heal()
        send(job)
        running.until_settled()
    world.judge(job)


def test_zookeeper_is_away(world: World, tmp_path: Path) -> None:
    """For tables and state alike."""
    job = world.job(tmp_path, settings=SETTINGS)
    send(job)
    with Supervised(job) as running:
        running.until_landed()
        send(job, 50)
        world.zookeeper.kill()
        back = time.monotonic() + AWAY_S
        send(job)
        running.until("end of the outage", lambda: time.monotonic() > back)
        world.zookeeper.start()
        world.tally.fired(f"ZooKeeper away for {AWAY_S} s")
        running.until_settled()
    world.judge(job)


@pytest.mark.long
def test_replica_stops_fetching(world: World, tmp_path: Path) -> None:
    """It lacks rows that landed through another replica while it was out of reach; then the job, new, asks it first, also
    about a range in doubt.
    """
    job = world.job(tmp_path, settings=SETTINGS)
    first, table = job.shards[0], job.tables[job.topic]
    send(job)
    with Supervised(job) as running:
        running.until_landed()
        command(first, f"SYSTEM STOP FETCHES {table}")
        world.gates[0].leave()
        send(job)
        running.until_landed()
    assert world.rows(job) == 50
    world.tally.fired("replica behind")
    world.heal()
    send(job)
    with Child(job, traps="driver.before_after=kill") as child:
        assert child.end() == -signal.SIGKILL, child.said[-3000:]
    assert job.in_doubt()
    with Supervised(job) as running:
        fetches = time.monotonic() + BEHIND_S
        running.until("while", lambda: time.monotonic() > fetches)
        command(first, f"SYSTEM START FETCHES {table}")
        send(job)
        running.until_settled()
    world.judge(job)
