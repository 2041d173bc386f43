"""⚑ A topic was deleted and created again: what is left of the earlier one, rows and dead letters, proves nothing about
the records that Kafka holds now.
"""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession

from chsink.embedded.stack import Stack
from chsink.errors import PreflightError
from tests.integration.exits.commands import command_of, recovered
from tests.integration.exits.test_last_copies import made_anew, refused
from tests.integration.job.conftest import MakeJob
from tests.integration.job.test_dead_letters import BAD, make_letters
from tests.integration.job.test_verify import run as verify
from tests.support.doubt import forget_state, insert, run
from tests.support.job import METADATA, Job, command, select

pytestmark = pytest.mark.slow
OLD = 5
"""The earlier topic's bad record lay at this offset."""


@pytest.fixture(params=["table", "topic"])
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


@pytest.mark.soak
def test_a_dead_letter_of_the_earlier_topic_explains_no_missing_row(anew: Job, spark: SparkSession) -> None:
    """`verify` names the row, and `recover` lands it."""
    code, report = verify(anew)
    assert (code, report["partitions"][0]["missing"]["ranges"]) == (1, [[OLD, OLD + 1]])
    forget_state(anew)
    anew.lose_checkpoint()

    assert set(recovered(anew, refused(anew, spark, PreflightError, "CHS-229"))) <= {"--accept-removed"}

    anew.drain(spark)
    assert ids(anew) == list(range(20))


CANNOT_CHECK = "chsink cannot check whether rows are of the records that Kafka holds now"


def plan_of(job: Job) -> str:
    """What the command shows before somebody answers no."""
    says = " ".join(run(job, "recover", "--senders-gone", stdin="n\n").stdout.split())
    assert "AFTER" not in says and f"{job.topic}-0: 15 rows over [0, 15)" in says
    return says


@pytest.mark.soak
def test_where_nothing_shows_it_the_command_says_that_it_cannot_check_it(make_job: MakeJob) -> None:
    job = make_job(partitions=1)
    job.send(0, 15)
    insert(job, 0, range(15))

    assert CANNOT_CHECK in plan_of(job)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["DateTime64(3)", "Nullable(DateTime64(9))"])
def test_rows_of_the_earlier_topic_are_no_rows_of_the_new_one(
    make_job: MakeJob, services: Stack, spark: SparkSession, kind: str
) -> None:
    job = make_job(partitions=1)
    job.make_table(job.topic, metadata=f"{METADATA}, _kafka_timestamp {kind}", suffix="_timed")
    job.send(0, 15)
    job.drain(spark)
    forget_state(job)
    job.lose_checkpoint()
    assert CANNOT_CHECK not in plan_of(job)
    made_anew(job, services)

    error = run(job, *command_of(refused(job, spark, PreflightError, "CHS-229")), "--yes")

    said = " ".join(error.stderr.split())
    assert error.exit_code == 2 and "CHS-331" in said and "(0-14, 15 in all)" in said, error.output
    [where] = re.findall(
        r"land it in another table: create the table, name it in the topic's \[\[route\]\], (.*); only", said
    )
    assert where.startswith('set kafka.starting_offsets = "earliest" and start with a new checkpoint')
    job.make_table(job.topic, suffix="_new")
    job.drain(spark)
    assert ids(job) == list(range(20))


@pytest.mark.soak
def test_a_transform_that_sets_the_timestamp(make_job: MakeJob, spark: SparkSession) -> None:
    """The option that the refusal names is enough, and nothing lands twice."""
    job = make_job(partitions=1)
    job.make_table(job.topic, metadata=f"{METADATA}, _kafka_timestamp DateTime64(3)", suffix="_timed")
    job.send(0, 15)
    job.drain(spark)
    moved = "UPDATE _kafka_timestamp = _kafka_timestamp + INTERVAL 1 DAY WHERE true SETTINGS mutations_sync = 2"
    command(job.shards[0], f"ALTER TABLE {job.tables[job.topic]} {moved}")
    forget_state(job)
    job.lose_checkpoint()
    error = run(job, "recover", "--senders-gone", "--yes")
    assert error.exit_code == 2 and "CHS-331" in error.stderr
    [option] = re.findall(r"transform sets the timestamp, add `(\S+)`", " ".join(error.stderr.split()))

    assert run(job, "recover", "--senders-gone", option, "--yes").exit_code == 0

    job.send(0, 15)
    job.drain(spark)
    assert ids(job) == list(range(-1000, -970))


def test_nobody_sends_while_the_state_is_rebuilt(make_job: MakeJob) -> None:
    """⚑ A task that still runs would send pieces under the lost tokens."""
    job = make_job(partitions=1)
    job.send(0, 15)
    insert(job, 0, range(15))

    refused = run(job, "recover", "--yes")

    assert refused.exit_code == 2
    assert "CHS-321" in refused.stderr and "--senders-gone" in refused.stderr


@pytest.mark.soak
def test_records_before_the_first_row_of_a_sink_that_started_at_the_newest(
    make_job: MakeJob, spark: SparkSession
) -> None:
    """⚑ The plan says that they are passed over; what it offers lands them."""
    job = make_job(partitions=1)
    job.send(0, 15)
    insert(job, 0, range(5, 15))
    latest = ("--senders-gone", "--set", "kafka.starting_offsets=latest")

    said = " ".join(run(job, "recover", *latest, stdin="n\n").stdout.split())
    assert f"{job.topic}-0: records before the first row, [0, 5), count as older than the first start" in said
    [option] = re.findall(r"add `--set (\S+)` to this command", said)
    assert run(job, "recover", *latest, "--set", option, "--yes").exit_code == 0

    job.drain(spark)
    job.check()
