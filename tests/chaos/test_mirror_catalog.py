"""A REST catalog of tables on S3 that fails while the mirror commits: answers are lost, others commit, the server dies.

One job lives through all of it.  Each test ends with Kafka's records against the rows of both sides.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from chsink.mirror.rest import ANSWER_S
from tests.chaos.lake import RestLake, judge, mirrored
from tests.chaos.world import World
from tests.support.child import Child
from tests.support.http_proxy import HttpFault
from tests.support.iceberg_rest import CatalogGate, IcebergRest
from tests.support.job import Job
from tests.support.s3 import S3Server

pytestmark = pytest.mark.slow

LIVING = {"trigger.mode": "processing_time", "trigger.interval": "200 milliseconds"}
COMMIT = "add-snapshot"
"""Part of every commit that has files."""
TAKEN_UP = 2
"""Rounds that a person waits for before it is clear that the mirror goes on."""


@dataclass(frozen=True, slots=True)
class Storm:
    """The job and its catalog."""

    world: World
    job: Job
    lake: RestLake
    child: Child

    def send(self) -> None:
        """Records in both partitions."""
        self.job.send(0, 20)
        self.job.send(1, 20)

    def commits_under(self, fault: HttpFault, times: int = 2, delay_s: float = 0) -> None:
        """The next commits meet the fault; then all that was sent is on both sides, once, by the same process."""
        gate = self.lake.gate
        before = gate.fired[fault]
        gate.inject(fault, match=COMMIT, times=times, delay_s=delay_s)
        self.send()
        self.child.await_that(fault, lambda: gate.fired[fault] == before + times)
        self.pass_over(f"mirror: commit, {fault}", times)

    def holds(self, table: str, total: int) -> bool:
        """Does the table hold that many rows of ours?  Its files are read only once its snapshot counts that many of anybody."""
        return self.lake.rows(table) >= total and self.lake.landed(table).total() >= total

    def pass_over(self, what: str, times: int = 1) -> None:
        """All that was sent is on both sides, exactly once, by the same process."""
        total = sum(self.job.sent.values())
        self.child.await_that("calm", lambda: self.job.status()["lag"] == self.job.status()["in_doubt"] == 0)
        for table in self.lake.tables:
            self.child.await_that(f"all rows of {table}", lambda t=table: self.holds(t, total))  # type: ignore[misc]
        judge(self.world, self.job, self.lake)
        assert self.child.running
        self.world.tally.fired(what, times)


@pytest.fixture(scope="module")
def _storm(_world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storm]:
    folder = tmp_path_factory.mktemp("catalog-storm")
    with ExitStack() as stack:
        s3 = stack.enter_context(S3Server(folder / "s3"))
        server = stack.enter_context(IcebergRest(folder / "rest", s3.of_a_catalog, ["s3"]))
        gate = stack.enter_context(CatalogGate(server.url))
        lake = RestLake(folder, server=server, gate=gate, s3=s3)
        job, _ = mirrored(_world, folder, LIVING, lake)
        job.send(0, 1)
        with Child(job) as child:
            child.await_that("first commit", lambda: "committed" in child.said)
            yield Storm(_world, job, lake, child)


@pytest.fixture
def storm(_storm: Storm, world: World) -> Storm:
    """The living job under no fault."""
    assert _storm.child.running, _storm.child.said[-3000:]
    _storm.lake.gate.heal()
    return _storm


@pytest.mark.parametrize(
    "fault",
    [
        HttpFault.DROP_REQUEST,
        HttpFault.DROP_ANSWER,
        HttpFault.CUT_ANSWER,
        HttpFault.TWICE,
        HttpFault.STATUS_429,
        HttpFault.STATUS_503,
        HttpFault.LATE_500,
        *(pytest.param(fault, marks=pytest.mark.long) for fault in (HttpFault.LATE_502, HttpFault.LATE_503)),
        HttpFault.LATE_504,
    ],
    ids=str,
)
def test_answer(storm: Storm, fault: HttpFault) -> None:
    """⚑ Delivered twice, the second copy is refused: its answer says 409 for a commit that was applied."""
    storm.commits_under(fault)


def test_answer_does_not_come(storm: Storm) -> None:
    """⚑ The commit was applied; pyiceberg by itself would wait for ever."""
    storm.commits_under(HttpFault.DELAY_ANSWER, 1, delay_s=ANSWER_S + 10)


@pytest.mark.parametrize("fault", [HttpFault.DELAY, HttpFault.DROP_ANSWER], ids=["before", "after"])
def test_catalog_dies_in_a_commit(storm: Storm, fault: HttpFault) -> None:
    gate = storm.lake.gate
    before = gate.fired[fault]
    gate.inject(fault, match=COMMIT, delay_s=2)
    storm.send()
    storm.child.await_that("commit", lambda: gate.fired[fault] > before)
    storm.lake.server.kill()
    time.sleep(2)
    storm.lake.server.start()
    storm.pass_over(f"mirror: catalog killed {'before' if fault is HttpFault.DELAY else 'after'} a commit")


def test_catalog_is_away(storm: Storm) -> None:
    """Some rounds fail; ClickHouse's side goes on."""
    before = storm.child.said.count("cannot be read")
    storm.lake.gate.leave()
    try:
        storm.send()
        storm.child.await_that(
            "rounds without it", lambda: storm.child.said.count("cannot be read") > before + TAKEN_UP
        )
        storm.child.await_that("ClickHouse's side", lambda: storm.job.status()["lag"] == 0)
    finally:
        storm.lake.gate.heal()
    storm.pass_over("mirror: catalog away", storm.child.said.count("cannot be read") - before)


def test_token_expires(storm: Storm) -> None:
    """Another one is fetched."""
    before = storm.lake.gate.logins
    storm.lake.gate.expire()
    storm.send()
    storm.child.await_that("another login", lambda: storm.lake.gate.logins > before)
    storm.pass_over("mirror: token expired")


def test_others_commit_all_the_time(storm: Storm) -> None:
    """K-8: both make progress.  Last: a count of rows does not tell ours from theirs."""
    table = storm.lake.tables[0]
    with storm.lake.foreign(table) as made:
        for _ in range(5):
            storm.send()
            time.sleep(1)
        storm.pass_over("mirror: others commit all the time")
    assert len(made) > 1
