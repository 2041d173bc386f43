"""Small topic-partitions that share Spark tasks: each is landed by itself, whatever becomes of the others in its task."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from chsink.errors import BadValueError, UnavailableError
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints
from tests.support.kafka import Record

PARTITIONS = 9
"""More than two tasks for each of the session's two cores."""
BAD = b"not json"


def rows_of(record: Record) -> list[tuple[int, str]]:
    """The row of a record, none of the one that does not fit."""
    value = record.value or b""
    return [] if value == BAD else [(json.loads(value)["id"], json.loads(value)["text"])]


@pytest.mark.soak
def test_ranges_in_one_task_end_apart(make_job: MakeJob, spark: SparkSession, failpoints: Failpoints) -> None:
    """⚑ One of them halts, and the others land.  A task that dies with some of its ranges sent sends them again."""
    job = make_job(partitions=PARTITIONS)
    for partition in range(PARTITIONS - 1):  # the last one is empty
        job.send(partition, 13)
    job.send_values(4, [BAD])

    with pytest.raises(BadValueError, match="CHS-501.*partition 4 offset 13"):
        job.drain(spark)
    assert job.in_doubt() == {4}
    assert {p for p, _, end in ((p, *at[1:]) for p, at in job.phases().items()) if end} == set(range(PARTITIONS - 1))

    job.settings = {"errors.on_bad_value": "skip"}
    for partition in range(PARTITIONS):
        job.send(partition, 12)
    failpoints.arm("task.after_insert=fail@3")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.assert_fired("task.after_insert")
    failpoints.disarm()
    job.drain(spark)
    job.check(rows_of=rows_of)
