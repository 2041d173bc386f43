"""A planned batch of more chunks than its table remembers tokens lands in rounds, and goes on where it was killed."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from chsink.errors import UnavailableError
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints
from tests.support.job import command

pytestmark = pytest.mark.slow

SMALL = "ENGINE = MergeTree ORDER BY tuple() SETTINGS non_replicated_deduplication_window = 10"
"""Nine blocks are surely remembered, so a round has four chunks of ten offsets."""


@pytest.mark.soak
@pytest.mark.parametrize("step", ["driver.after_after=fail@2", "driver.before_after=fail@2"])
def test_a_batch_larger_than_the_window_lands_in_rounds(
    step: str, make_job: MakeJob, spark: SparkSession, failpoints: Failpoints
) -> None:
    job = make_job(partitions=2, engine=SMALL)
    job.send(0, 100)
    job.send(1, 55)
    failpoints.arm(step)
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.assert_fired(step.partition("=")[0])
    failpoints.disarm()
    doubtful = step.startswith("driver.before_after")
    phase = "BEFORE" if doubtful else "AFTER"
    assert job.phases() == {0: (phase, 20, 40), 1: (phase, 20, 40)}
    assert len(job.landed()) == 80

    job.drain(spark)

    job.check()
    assert {p: (phase, end) for p, (phase, _, end) in job.phases().items()} == {0: ("AFTER", 100), 1: ("AFTER", 55)}


@pytest.mark.parametrize("lowered", [pytest.param(False, marks=pytest.mark.soak), True])
def test_a_window_that_is_raised_while_a_range_is_in_doubt(
    lowered: bool, make_job: MakeJob, spark: SparkSession, failpoints: Failpoints
) -> None:
    """⚑ Fixes ask for it.  All rows are there, and ClickHouse has forgotten their tokens: a larger window brings none
    back, so the rows are looked for.  So they are if the window was lowered before, and is now what it was.
    """
    job = make_job(partitions=1, engine=SMALL)
    job.send(0, 20)
    failpoints.arm("driver.before_after=fail")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.disarm()
    if lowered:
        command(job.shards[0], f"ALTER TABLE {job.tables[job.topic]} MODIFY SETTING {job.window} = 1")
    for number in range(1 if lowered else 11):
        others = f"INSERT INTO {job.tables[job.topic]} (id, text, _kafka_topic, _kafka_partition, _kafka_offset)"
        command(job.shards[0], f"{others} VALUES ({1000 + number}, 'of another job', 'other', 0, {number})")
    command(
        job.shards[0], f"ALTER TABLE {job.tables[job.topic]} MODIFY SETTING {job.window} = {10 if lowered else 1000}"
    )
    job.send(0, 5)
    job.drain(spark)
    job.check()
