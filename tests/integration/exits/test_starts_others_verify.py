"""Each refusal of ``chsink verify`` is met, and what its fix says leads on."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from chsink.embedded.stack import Stack
from chsink.embedded.topics import delete_records
from chsink.verify import without_offsets
from tests.integration.exits.looked import cli, done, refused
from tests.integration.job.conftest import MakeJob
from tests.support.doubt import announce
from tests.support.job import WINDOW, Job, command
from tests.support.told import left_out, option_of, says, words_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]
COMBINES = f"ENGINE = SummingMergeTree ORDER BY id SETTINGS {WINDOW}"


def beside(job: Job, services: Stack, *, metadata: str | None = None) -> str:
    """One more topic with ten records and a table."""
    topic = f"{job.topic}-beside"
    services.kafka.create_topic(topic)
    if metadata is None:
        job.make_table(topic)
    else:
        job.make_table(topic, metadata=metadata)
    job.send(0, 10, topic=topic)
    return topic


@pytest.mark.exit_of("VERIFY_ENGINE")
def test_a_table_that_combines_rows(make_job: MakeJob, spark: SparkSession, services: Stack) -> None:
    """The other topics are verified; and the same topic in a table of its own."""
    job = make_job(partitions=1, engine=COMBINES)
    other = beside(job, services)
    job.send(0, 10)
    job.drain(spark)
    said = refused("VERIFY_ENGINE", cli(job, "verify"))
    done(cli(job, "verify", option_of(said, "--topic"), other))
    says(said, "land the topic in a MergeTree table as well, and verify with a copy of the job file in which")
    first = {"topic": job.topic, "table": job.tables[job.topic]}
    second = {"topic": job.topic, "table": job.make_table(job.topic, suffix="_plain")}
    job.settings = {"route": [first, second]}
    job.lose_checkpoint()
    job.drain(spark)
    job.settings = {"route": [second]}
    done(cli(job, "verify", "--topic", job.topic))
    job.check()


@pytest.mark.exit_of("VERIFY_TRANSFORM")
def test_a_topic_that_a_program_transforms(make_job: MakeJob, spark: SparkSession, services: Stack) -> None:
    job = make_job(partitions=1)
    other = beside(job, services)
    job.drain(spark)
    job.send(0, 10)
    job.drain_sink(spark, lambda stream: stream.where("offset >= 0"))
    said = refused("VERIFY_TRANSFORM", cli(job, "verify"))
    done(cli(job, *[other if word == "TOPIC" else word for word in words_of(said, "verify", "--topic")]))


@pytest.mark.exit_of("VERIFY_NOT_ROUTED")
@pytest.mark.exit_of("VERIFY_NO_PARTITION")
@pytest.mark.exit_of("VERIFY_NO_SINK")
@pytest.mark.exit_of("VERIFY_NOT_ADDED")
@pytest.mark.exit_of("VERIFY_DEFAULT_VARIES")
def test_words_that_name_nothing(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)
    job.send(0, 10)
    job.drain(spark)
    said = refused("VERIFY_NOT_ROUTED", cli(job, "verify", "--topic", "other"))
    of = ("verify", option_of(said, "--topic"), job.topic)
    says(said, "without --topic, all of them are verified")
    for good in (of, ("verify",)):
        done(cli(job, *good))
    said = refused("VERIFY_NO_PARTITION", cli(job, *of, "--partition", "7"))
    done(cli(job, *of, option_of(said, "--partition"), "0"))
    name, job.name = job.name, "another"
    said = refused("VERIFY_NO_SINK", cli(job, "verify"))
    says(said, "correct sink.name and [state] in the job file")
    job.name = name
    done(cli(job, "verify"))

    table, url = job.tables[job.topic], job.shards[0]
    command(
        url,
        f"ALTER TABLE {table} ADD COLUMN note String DEFAULT 'x', ADD COLUMN twice UInt64 DEFAULT _kafka_offset * 2",
    )
    said = refused("VERIFY_NOT_ADDED", cli(job, "verify", "--added", "t.note"))
    done(cli(job, "verify", option_of(said, "--added"), "note"))
    words = ["verify", "--added", "twice"]
    said = refused("VERIFY_DEFAULT_VARIES", cli(job, *words))
    done(cli(job, *left_out(said, words)))


@pytest.mark.exit_of("VERIFY_WHOLE_TABLE")
@pytest.mark.exit_of("VERIFY_BUSY")
@pytest.mark.exit_of("VERIFY_INCOMPLETE")
def test_a_table_without_offsets(
    make_job: MakeJob, spark: SparkSession, services: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is verified as a whole, while nothing is in doubt, and while Kafka holds all of its records."""
    monkeypatch.setattr(without_offsets, "PATIENCE_S", 0.0)
    job = make_job(partitions=1, metadata="")
    job.send(0, 15)
    announce(job, {0: (0, 15)})
    said = refused("VERIFY_BUSY", cli(job, "verify"))
    assert "BEFORE" in done(cli(job, *words_of(said, "status")))
    says(said, "run the job until the range is settled, stop it, and run")
    job.drain(spark)
    done(cli(job, *words_of(said, "verify")))

    words = ["verify", "--topic", job.topic, "--partition", "0", "--from", "0", "--to", "10"]
    said = refused("VERIFY_WHOLE_TABLE", cli(job, *words))
    done(cli(job, *left_out(said, words)))

    other = beside(job, services)
    job.drain(spark)
    delete_records(job.bootstrap, job.topic, 0, 5)
    said = refused("VERIFY_INCOMPLETE", cli(job, "verify"))
    done(cli(job, "verify", option_of(said, "--topic"), other))
    says(said, "a new table with these columns can always be verified")
    job.make_table(job.topic, suffix="_new")
    job.lose_checkpoint()
    job.drain(spark)
    done(cli(job, "verify"))
    assert sorted(offset for _, offset, *_ in job.landed()) == list(range(5, 15))
