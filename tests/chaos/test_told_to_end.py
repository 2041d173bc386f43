"""The job as a process of its own: a clean stop, and a stop of Spark alone."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chaos.world import World
from tests.support.child import Child, session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OFTEN = {"trigger.mode": "processing_time", "trigger.interval": "200 milliseconds"}


def java_of(child: Child) -> int:
    """The JVM that the driver started."""
    (pid,) = [p for p in session_of(child.pid) if Path(f"/proc/{p}/comm").read_text().strip() == "java"]
    return pid


@pytest.mark.parametrize("blow", ["all", pytest.param("java", marks=pytest.mark.long)])
def test_told_to_end_in_a_batch(blow: str, world: World, tmp_path: Path, spark: SparkSession) -> None:
    """SIGTERM to all of its processes, as supervisors do: exit 0, and the batch at hand is confirmed (to the driver
    alone: ``test_kills``).  Spark killed under it: exit 5, and the batch is settled by the next start.
    """
    job = world.job(tmp_path)
    job.send(0, 25)
    job.send(1, 7)
    with Child(job, traps="driver.before_after=sleep:2@2", settings=OFTEN) as child:
        child.await_that("first batch", lambda: job.verdict().exactly_once and not job.in_doubt())
        job.send(0, 12)
        child.await_fired("driver.before_after")
        assert job.in_doubt() == {0}
        if blow == "all":
            child.tell_all(signal.SIGTERM)
        else:
            os.kill(java_of(child), signal.SIGKILL)
        assert child.end() == (5 if blow == "java" else 0), child.said[-3000:]
        assert ("CHS-708" in child.said) == (blow == "java")
        assert "chsink/spark/job.py" not in child.said, "no trace of the driver's"
    assert job.in_doubt() == ({0} if blow == "java" else set())
    world.tally.fired("SIGTERM to all processes in a batch" if blow == "all" else "Spark killed in a batch")
    job.send(0, 5)
    job.send(1, 5)
    job.drain(spark)
    world.judge(job)
