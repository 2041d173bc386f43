"""The job crashes at each step of a batch that fills a Replicated table: the crashes of ``tests/integration``, in turn.

A task also dies while it settles the range that another death left.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.integration.job.faults import Failpoints
from tests.integration.job.test_crash_points import STEPS, crash, job
from tests.support.job import Job

pytestmark = pytest.mark.slow
__all__ = ["job"]


@pytest.mark.soak
def test_crash_at_each_step(job: Job, spark: SparkSession, failpoints: Failpoints) -> None:
    for step in STEPS:
        crash(job, spark, failpoints, step)
        if step.startswith("driver."):
            job.drain(spark)
        job.send(0, 25)
        job.send(1, 12)
    job.drain(spark)
    job.check()
