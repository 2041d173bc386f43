"""⚑ A topic was deleted and created again: what is left of the earlier one, rows and dead letters, proves nothing about
the records that Kafka holds now.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from chsink.embedded.stack import Stack
from chsink.errors import PreflightError
from tests.integration.exits.commands import recovered
from tests.integration.exits.test_last_copies import made_anew, refused
from tests.integration.job.conftest import MakeJob
from tests.integration.job.test_dead_letters import BAD, make_letters
from tests.integration.job.test_verify import run as verify
from tests.support.doubt import forget_state
from tests.support.job import Job, command, select

pytestmark = pytest.mark.slow
OLD = 5
"""The earlier topic's bad record lay at this offset."""


@pytest.fixture(params=["table", pytest.param("topic", marks=pytest.mark.soak)])
def anew(make_job: MakeJob, services: Stack, spark: SparkSession, request: pytest.FixtureRequest) -> Job:
    """The new topic has twenty good records, all of which landed; then the row at ``OLD`` was lost."""
    job = make_job(partitions=1)
    if request.param == "topic":
        place = f"{job.name}-dead"
        services.kafka.create_topic(place, 1, {"retention.ms": "-1"})
        job.settings = {"errors.on_bad_value": "dead_letter", "dead_letters.topic": place}
    else:
        job.settings = make_letters(job)[1]
    job.send_values(0, [BAD[0] if n == OLD else {"id": n, "text": "old"} for n in range(20)])
    job.drain(spark)
    made_anew(job, services)
    command(job.shards[0], f"TRUNCATE TABLE {job.tables[job.topic]}")
    job.lose_checkpoint()
    job.drain(spark)
    where = f"_kafka_offset = {OLD} SETTINGS lightweight_deletes_sync = 2"
    command(job.shards[0], f"DELETE FROM {job.tables[job.topic]} WHERE {where}")
    return job


def ids(job: Job) -> list[int]:
    found = select(job.shards[0], f"SELECT id - 1000 FROM {job.tables[job.topic]} ORDER BY id FORMAT TSV")
    return list(map(int, found.split()))


def test_a_dead_letter_of_the_earlier_topic_explains_no_missing_row(anew: Job) -> None:
    code, report = verify(anew)

    assert (code, report["partitions"][0]["missing"]["ranges"]) == (1, [[OLD, OLD + 1]])


def test_a_dead_letter_of_the_earlier_topic_is_no_sign_that_a_record_landed(anew: Job, spark: SparkSession) -> None:
    forget_state(anew)
    anew.lose_checkpoint()

    assert set(recovered(anew, refused(anew, spark, PreflightError, "CHS-229"))) <= {"--accept-removed"}

    anew.drain(spark)
    assert ids(anew) == list(range(20))
