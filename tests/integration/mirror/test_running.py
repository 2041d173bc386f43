"""The mirror as a user runs it: beside ClickHouse and alone, killed, halted, replaced by a newer driver."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.embedded.stack import Stack
from chsink.mirror.opening import names_of
from chsink.spark.mirror import MirrorRun
from chsink.statemachine.ranges import TopicPartition
from tests.integration.mirror.mirrored import Mirrored, make_mirrored
from tests.integration.mirror.test_coordination import coordinating
from tests.support.child import Child
from tests.support.job import eventually
from tests.support.kafka import add_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
MakeJob = Callable[..., Mirrored]
RUNNING = {"trigger.mode": "processing_time", "trigger.interval": "500 milliseconds"}


@pytest.fixture
def make_job(stack: Stack, tmp_path: Path) -> MakeJob:
    """``make_job({"mirror.interval_s": "300"})``."""
    return lambda settings=None: make_mirrored(stack, tmp_path, settings or {})


def status(job: Mirrored) -> dict[str, Any]:
    """What ``chsink mirror status --json`` prints."""
    sets = [part for key, value in job.settings.items() for part in ("--set", f"{key}={value}")]
    done = CliRunner().invoke(app, ["mirror", "status", "--json", "-c", str(job.file()), *sets], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_both_sides_drain_and_status_says_so(make_job: MakeJob, spark: SparkSession) -> None:
    """``available_now``: the mirror ends when all that it handed over is committed.  An idle start makes no snapshot."""
    job = make_job({"mirror.interval_s": "3600"})
    job.send(0, 30)
    job.send(1, 20)
    before = status(job)
    assert before["owner"] is None
    assert (before["tables"][0]["lag"], before["tables"][0]["snapshot"]) == (50, None)
    assert any(status(job)["tables"][0]["lag_s"] > 0 for _ in range(20)), "whole seconds since the first record"
    job.drain(spark)
    job.check_both()
    [table] = status(job)["tables"]
    assert (table["lag"], table["lag_s"], table["pending"], table["pending_units"]) == (0, 0.0, 0, 0)
    assert table["last_commit"] and table["snapshot"] and not table["problem"]
    job.drain(spark)
    assert job.snapshots() == 1
    assert status(job)["owner"]["epoch"] == 2


def test_a_signal_commits_what_was_handed_over(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job({**RUNNING, "mirror.interval_s": "3600"})
    job.send(0, 10)

    class Stop:
        """Arrives once records were handed over and none is committed."""

        times = 0
        arrived = ""

        @property
        def received(self) -> str:
            if not self.arrived:
                [table] = status(job)["tables"]
                assert table["snapshot"] is None
                self.arrived = "SIGTERM" if table["pending"] == 10 and table["pending_units"] >= 1 else ""
            return self.arrived

    with MirrorRun(job.config(), spark, structlog.get_logger("mirror")) as run:
        run.run(Stop())
    assert len(job.mirrored()) == 10


@pytest.mark.soak
def test_the_mirrors_own_trigger(make_job: MakeJob, spark: SparkSession) -> None:
    """The first batch is handed over at once; what comes later waits in Kafka for the next one, for an hour.  A signal
    ends the mirror meanwhile, and the next start goes on from there.
    """
    job = make_job({"mirror.interval_s": "1"})
    running = job.config({**RUNNING, "mirror.trigger_interval": "1 hour"})
    job.send(0, 10)

    class Stop:
        """Arrives when several batches of ``trigger.interval`` would have been handed over."""

        times = 0
        more_since = 0.0

        @property
        def received(self) -> str:
            if not self.more_since and job.snapshots():
                job.send(0, 20)
                self.more_since = time.monotonic()
            return "SIGTERM" if self.more_since and time.monotonic() > self.more_since + 3 else ""

    with MirrorRun(running, spark, structlog.get_logger("mirror")) as run:
        run.run(Stop())
    [table] = status(job)["tables"]
    assert (len(job.mirrored()), table["lag"], table["pending"]) == (10, 20, 0)
    job.drain(spark)
    job.check_both()
    assert len(job.mirrored()) == 30


def test_commits_go_on_while_a_batch_runs(make_job: MakeJob, spark: SparkSession) -> None:
    """A batch holds the loop's lock for as long as it takes: here, until a commit was seen.  On a busy machine, a commit
    may come before anybody sees what waits for it: then more records are sent.
    """
    job = make_job({**RUNNING, "mirror.interval_s": "2"})
    job.send(0, 10)
    with MirrorRun(job.config(), spark, structlog.get_logger("mirror")) as run:

        class Stop:
            """Arrives after the commit."""

            times = 0
            arrived = ""

            @property
            def received(self) -> str:
                if self.arrived:
                    return self.arrived
                with run._loop._lock:
                    before, [table] = job.snapshots(), status(job)["tables"]
                    if table["pending"] == table["lag"] > 0:
                        eventually("commit", lambda: job.snapshots() > before)
                        self.arrived = "SIGTERM"
                if not table["lag"]:
                    job.send(0, 10)
                return self.arrived

        run.run(Stop())
    assert len(job.mirrored()) == job.sent[job.topic, 0]


@pytest.mark.soak
def test_killed_and_started_again_with_a_partition_more(make_job: MakeJob, stack: Stack, spark: SparkSession) -> None:
    """⚑ SIGKILL of the whole job, and a partition that is added while it runs."""
    job = make_job()
    job.send(0, 30)
    with Child(job, settings=RUNNING) as child:
        child.await_that("rows on both sides", lambda: len(job.mirrored()) == 30 == len(job.landed()))
        add_partitions(stack.kafka.bootstrap, job.topic, 3)
        job.send(2, 10)
        child.await_that("rows of the new partition", lambda: len(job.mirrored()) == 40)
        assert status(job)["owner"]["epoch"] == 1
        job.send(1, 200)
        assert child.kill() > 1
    job.drain(spark)
    job.check_both()


@pytest.mark.soak
def test_a_halted_mirror_leaves_clickhouse_running(make_job: MakeJob) -> None:
    """⚑ A record that only ClickHouse takes halts the mirror; the exit code says so at the end."""
    job = make_job(RUNNING)
    job.send(0, 5)
    job.send_values(0, [{"id": 2**63, "text": "for ClickHouse only"}])
    with Child(job) as child:
        child.await_that("halt", lambda: "the mirror halted" in child.said)
        assert "chsink mirror status" in child.said
        job.send(1, 5)
        child.await_that("rows in ClickHouse", lambda: len(job.landed()) == 11)
        child.tell(signal.SIGTERM)
        assert child.end() == 3, child.said
    assert "CHS-511" in child.said
    job.check()
    assert job.mirrored() == []


@pytest.mark.soak
def test_an_older_driver_that_wakes_up_does_not_end_the_newest(make_job: MakeJob) -> None:
    """⚑ It wrote a batch to the checkpoint that both use, and opened their workers' producers: the newest ended with exit
    code 5, the older one with 4, and nobody ran.
    """
    job = make_job(RUNNING)
    job.send(0, 5)
    with Child(job, command=("mirror", "run")) as child:
        child.await_that("rows", lambda: len(job.mirrored()) == 5)
        config = job.config()
        names, tp = names_of(config), TopicPartition(job.topic, 0)
        stops = 0
        while "the mirror starts again" not in child.said and stops < 20:
            offsets = Path(config.mirror_checkpoint()) / "offsets"
            newest = max((f for f in offsets.iterdir() if f.name.isdecimal()), key=lambda f: int(f.name))
            shutil.copy(newest, offsets / str(int(newest.name) + 1))
            with names.sender(names.worker_id(tp), names.group):
                job.send(0, 5)
            stops += 1
            time.sleep(1)
        child.await_that("all rows", lambda: len(job.mirrored()) == job.sent[job.topic, 0])
        child.tell(signal.SIGTERM)
        assert child.end() == 0, child.said
    assert "the mirror starts again" in child.said


@pytest.mark.soak
def test_a_newer_driver_ends_the_mirror_that_runs_alone(make_job: MakeJob) -> None:
    job = make_job(RUNNING)
    job.send(0, 5)
    with Child(job, command=("mirror", "run")) as child:
        child.await_that("rows", lambda: len(job.mirrored()) == 5)
        assert job.landed() == []
        with coordinating(job.config(), lambda _: None) as newer:
            assert child.end() == 4, child.said
            assert newer.failure is None
    assert "CHS-803" in child.said
    eventually("owner", lambda: status(job)["owner"]["epoch"] == 2)
