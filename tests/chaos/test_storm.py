"""One living job (``chsink run``, two shards, a batch whenever there is something) in a storm of faults.

The job is one process for all tests of this file: it may stop for none of these faults.  Each test sends records into
the fault, asserts that it fired, and has the judge look before the next one comes.  Some records are bad, and become
dead letters in a table.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from chsink.errors import UnavailableError
from tests.chaos.letters import send_bad
from tests.chaos.world import INSERT, World
from tests.support.child import Child
from tests.support.job import Job, command, eventually, select
from tests.support.kafka import add_partitions
from tests.support.proxies import HttpFault, TcpFault

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SETTINGS = {
    "trigger.mode": "processing_time",
    "trigger.interval": "200 milliseconds",
    "clickhouse.insert_timeout_s": 3,
    "clickhouse.connect_timeout_s": 3,
    "clickhouse.retry_for_s": 40,
    "state.timeout_s": 30,
    "kafka.options.metadata.max.age.ms": 500,
}


@dataclass(frozen=True, slots=True)
class Storm:
    """The living job."""

    world: World
    job: Job
    child: Child

    def send(self, count: int = 25) -> None:
        """Records for both shards in both partitions, and a bad one in each."""
        for partition in (0, 1):
            self.job.send(partition, count)
            send_bad(self.job, partition)

    def pass_over(self) -> None:
        """All that was sent has landed, exactly once, by the same process; nothing is in doubt."""
        self.child.await_that("end of the storm", self._is_calm)
        assert self.child.running
        self.world.judge(self.job)

    def _is_calm(self) -> bool:
        try:
            status = self.job.status()
        except UnavailableError:  # the question met the fault, too
            return False
        return bool(status["lag"] == status["in_doubt"] == 0)


@pytest.fixture(scope="module")
def _storm(_world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storm]:
    job = _world.job(tmp_path_factory.mktemp("storm"), shards=2, letters="table", settings=SETTINGS)
    job.send(0, 1)
    with Child(job) as child:
        child.await_that("first batch", lambda: "landed" in child.said)
        yield Storm(_world, job, child)


@pytest.fixture
def storm(_storm: Storm, world: World) -> Storm:
    """The living job under no fault."""
    assert _storm.child.running, _storm.child.said[-3000:]
    return _storm


LIKE_500 = (HttpFault.LATE_502, HttpFault.LATE_503, HttpFault.LATE_504)
"""A gateway's answers to a request that was applied; to the client they are as good as ``LATE_500``."""


def marks(fault: HttpFault) -> Sequence[pytest.MarkDecorator]:
    """``make chaos`` does without those that are like another one."""
    return [pytest.mark.long] if fault in LIKE_500 else []


@pytest.mark.parametrize("fault", [pytest.param(fault, marks=marks(fault)) for fault in HttpFault])
def test_insert(storm: Storm, fault: HttpFault) -> None:
    before = storm.world.gates[0].sent(storm.job.topic)
    fired = storm.world.fault(fault, INSERT, times=2, delay_s=1)
    storm.send()
    storm.child.await_that(f"{fault} of an insert", lambda: fired() == 2)
    storm.pass_over()
    storm.world.tally.fired(f"insert: {fault}", fired())
    again = storm.world.gates[0].sent(storm.job.topic) - before
    waited_for = (HttpFault.DELAY, HttpFault.DELAY_ANSWER, HttpFault.TWICE)
    assert (max(again.values()) > 1) is (fault not in waited_for), "whether a piece was sent again"


def test_delay_beyond_the_deadline_of_a_send(storm: Storm) -> None:
    """The client gives up, sends again, and the first copy arrives after the second."""
    fired = storm.world.fault(HttpFault.DELAY, INSERT, delay_s=5)
    storm.send()
    storm.child.await_that("delay", lambda: fired() == 1)
    storm.pass_over()
    time.sleep(5)
    storm.pass_over()
    storm.world.tally.fired("insert: arrives after its copy", fired())


STATE_FAULTS = [
    *(
        pytest.param("BEFORE", fault, marks=marks(fault))
        for fault in HttpFault
        if fault not in (HttpFault.DELAY, HttpFault.STATUS_429)
    ),
    ("AFTER", HttpFault.DROP_REQUEST),
    ("AFTER", HttpFault.DROP_ANSWER),
]


@pytest.mark.parametrize(("phase", "fault"), STATE_FAULTS)
def test_state_write(storm: Storm, phase: str, fault: HttpFault) -> None:
    fired = storm.world.fault(fault, f'"phase":"{phase}"', delay_s=1)
    storm.send(5)
    storm.child.await_that(f"{fault} of {phase}", lambda: fired() == 1)
    storm.pass_over()
    storm.world.tally.fired(f"state write: {fault}", fired())


def test_keeper_applies_and_its_answer_is_lost(storm: Storm) -> None:
    before = storm.world.keeper.fired[TcpFault.DROP_ANSWER]
    storm.world.keeper.drop_answer(b"BEFORE")
    storm.send(5)
    storm.pass_over()
    storm.world.tally.fired("keeper: applied, answer lost", storm.world.keeper.fired[TcpFault.DROP_ANSWER] - before)


def test_keeper_session_expires(storm: Storm) -> None:
    sessions = _sessions(storm.world)
    before = storm.world.keeper.fired[TcpFault.PARTITION]
    storm.world.keeper.partition()
    storm.send(5)
    fired = storm.world.keeper.fired
    eventually("end", lambda: bool(sessions - _sessions(storm.world)) and fired[TcpFault.PARTITION] > before)
    storm.world.heal()
    storm.pass_over()
    storm.world.tally.fired("keeper: session expired", len(sessions - _sessions(storm.world)))
    storm.world.tally.fired("keeper: partition", fired[TcpFault.PARTITION] - before)


def test_keeper_connections_are_cut(storm: Storm) -> None:
    before = storm.world.keeper.fired[TcpFault.CUT]
    for _ in range(5):
        storm.send(2)
        storm.world.keeper.cut()
        time.sleep(0.2)
    storm.pass_over()
    storm.world.tally.fired("keeper: connection cut", storm.world.keeper.fired[TcpFault.CUT] - before)


def test_server_freezes(storm: Storm) -> None:
    """The server's process is stopped for longer than the bound of a send, with inserts in its socket."""
    pid, on_its_way = storm.world.servers[1].pid, storm.world.fault(HttpFault.DELAY, INSERT, gate=1, delay_s=0.5)
    storm.send()
    storm.child.await_that("insert on its way", lambda: on_its_way() == 1)
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(4)
        assert storm.job.in_doubt()
    finally:
        os.kill(pid, signal.SIGCONT)
    storm.pass_over()
    storm.world.tally.fired("server: frozen (SIGSTOP)")


def test_one_shard_is_down_while_the_other_works(storm: Storm) -> None:
    fired = storm.world.fault(HttpFault.DROP_REQUEST, INSERT, gate=1, times=10_000)
    before = [rows(storm, shard) for shard in (0, 1)]
    storm.send(50)
    eventually("rows on the shard that works", lambda: rows(storm, 0) > before[0] and fired() > 3)
    assert rows(storm, 1) == before[1]
    storm.world.heal()
    storm.pass_over()
    assert rows(storm, 1) > before[1]
    storm.world.tally.fired("shard down: request dropped", fired())


def rows(storm: Storm, shard: int) -> int:
    """Rows on one shard."""
    return int(select(storm.job.shards[shard], f"SELECT count() FROM {storm.job.tables[storm.job.topic]}"))


@pytest.mark.parametrize(
    ("error", "setting", "value"),
    [
        ("TOO_MANY_PARTS", "parts_to_throw_insert", 1),
        ("NOT_ENOUGH_SPACE", "min_free_disk_bytes_to_perform_insert", 10**18),
    ],
)
def test_server_at_its_limit(storm: Storm, error: str, setting: str, value: int) -> None:
    """The engine itself refuses, for as long as the limit lasts; the job backs off and comes back."""
    table, server = storm.job.tables[storm.job.topic], storm.job.shards[0]
    before = storm.world.errors(error)
    command(server, f"ALTER TABLE {table} MODIFY SETTING {setting} = {value}")
    storm.send()
    eventually(error, lambda: storm.world.errors(error) > before + 1)
    command(server, f"ALTER TABLE {table} RESET SETTING {setting}")
    storm.pass_over()
    storm.world.tally.fired(f"server: {error}", storm.world.errors(error) - before)


def test_transactions_markers_and_compaction(storm: Storm) -> None:
    """Offsets without records at the end of a range and within it."""
    storm.job.send(0, 7, transactional=f"{storm.job.name}-committed")
    storm.job.send(1, 5, transactional=f"{storm.job.name}-aborted", abort=True)
    storm.pass_over()
    storm.job.send(0, 4, transactional=f"{storm.job.name}-aborted", abort=True)
    storm.job.send(0, 3)
    storm.pass_over()
    storm.world.tally.fired("kafka: transaction marker", 3)


def test_partitions_are_added(storm: Storm) -> None:
    add_partitions(storm.job.bootstrap, storm.job.topic, 4)
    for partition in range(4):
        storm.job.send(partition, 15)
    storm.child.await_that("rows of the new partitions", lambda: set(storm.job.phases()) == {0, 1, 2, 3})
    storm.pass_over()
    assert set(storm.job.phases()) == {0, 1, 2, 3}
    storm.world.tally.fired("kafka: partition added", 2)


def test_second_driver_takes_over_and_the_first_is_told(storm: Storm, spark: SparkSession) -> None:
    """Last of this file: it ends the living job."""
    settings = {"sink.checkpoint": str(storm.job.folder / "second-checkpoint")}
    storm.job.settings = {key: value for key, value in storm.job.settings.items() if not key.startswith("trigger.")}
    storm.job.drain(spark, settings)
    storm.send()
    assert storm.child.end() == 4, storm.child.said[-3000:]
    assert "CHS-80" in storm.child.said
    assert f"pid {os.getpid()}" in storm.child.said, "the loser names the winner"
    storm.job.drain(spark, settings)
    storm.world.judge(storm.job)
    storm.world.tally.fired("second driver")


def _sessions(world: World) -> set[str]:
    """ZooKeeper's living sessions."""
    with socket.create_connection(("127.0.0.1", world.zookeeper.port), 5) as connection:
        connection.sendall(b"dump")
        text = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    return set(re.findall(r"0x[0-9a-f]+", text))
