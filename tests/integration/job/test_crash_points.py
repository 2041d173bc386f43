"""The job crashes at each step of a batch, by name; it starts again, and every record is there once."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from chsink.errors import HaltError, UnavailableError
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints
from tests.support.job import Job

pytestmark = pytest.mark.slow

STEPS = {
    "driver.before_before": "fail",
    "driver.after_before": "fail",
    "task.before_insert": "kill",
    "task.after_insert": "kill@2",
    "task.after_chunks": "kill",
    "driver.before_after": "fail",
    "driver.after_after": "fail",
}
ALIKE = {"driver.before_before", "task.before_insert", "task.after_chunks", "driver.before_after", "driver.after_after"}
"""A restart finds the same as after one of the other steps, or nothing in doubt."""
DOUBTFUL = [step for step in STEPS if step not in ("driver.before_before", "driver.after_after")]


@pytest.fixture
def job(make_job: MakeJob, spark: SparkSession) -> Job:
    """A sink that has landed one batch and has more to do."""
    job = make_job(partitions=2)
    job.send(0, 25)
    job.send(1, 12)
    job.drain(spark)
    job.send(0, 45)
    job.send(1, 33)
    return job


def crash(job: Job, spark: SparkSession, failpoints: Failpoints, step: str) -> None:
    """Run until the armed step ends the job."""
    failpoints.arm(f"{step}={STEPS[step]}")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.assert_fired(step)
    failpoints.disarm()
    assert job.in_doubt() == ({0, 1} if step in DOUBTFUL else set())


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=[pytest.mark.soak] if step in ALIKE else []) for step in STEPS]
)
def test_crash_then_restart_with_the_same_checkpoint(
    step: str, job: Job, spark: SparkSession, failpoints: Failpoints
) -> None:
    crash(job, spark, failpoints, step)
    job.drain(spark)
    job.check()


def test_negative_control_without_tokens_records_are_doubled(
    job: Job, spark: SparkSession, failpoints: Failpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge sees duplicates when there are any: with the server told not to deduplicate, settling doubles.  And so
    does the job, which looks for what it sent again.
    """
    monkeypatch.setattr("chsink.clickhouse.cluster.PINNED_WHERE_KNOWN", {"deduplicate_insert": "disable"})
    crash(job, spark, failpoints, "driver.before_after")
    with pytest.raises(HaltError, match="CHS-314.* was sent again"):
        job.drain(spark)
    assert job.verdict().surplus.total() > 0
    assert not job.verdict().lost


@pytest.mark.soak
def test_a_function_of_foreach_batch_settles_too(job: Job, spark: SparkSession, failpoints: Failpoints) -> None:
    crash(job, spark, failpoints, "driver.before_after")
    job.drain_foreach(spark)
    job.check()
