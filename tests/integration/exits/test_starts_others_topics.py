"""What a start says of topics in Kafka, and of those of dead letters: what it tells to do leads on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from chsink.embedded.stack import Stack
from chsink.embedded.topics import create_topic, delete_records
from tests.integration.exits.looked import cli, configure, done, leads_on, look, refused
from tests.integration.job.conftest import MakeJob
from tests.integration.job.test_dead_letters import BAD, fits
from tests.integration.job.test_replay import KeptInTopic
from tests.support.doubt import announce, insert, run
from tests.support.job import Job, select
from tests.support.kafka import read_all
from tests.support.old_kafka import OldKafka
from tests.support.told import says, setting_of, topic_of, topic_settings_of, words_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]


def anew(job: Job, services: Stack, partitions: int) -> Counter[Any]:
    """The topic is deleted and created again, with seven records.  Returns the rows of the earlier one."""
    before = Counter(job.landed())
    services.kafka.delete_topic(job.topic)
    services.kafka.create_topic(job.topic, partitions)
    job.sent.clear()
    job.send(0, 7)
    return before


def offsets(job: Job, before: Counter[Any]) -> list[int]:
    """Of the rows that came since."""
    return sorted(offset for _, offset, *_ in (Counter(job.landed()) - before).elements())


@pytest.mark.exit_of("TOPIC_MISSING")
@pytest.mark.parametrize("created", [True, False])
def test_a_topic_that_is_not_there(make_job: MakeJob, spark: SparkSession, services: Stack, *, created: bool) -> None:
    job = make_job(partitions=1)
    missing = f"{job.topic}-missing"
    job.tables[missing] = job.tables[job.topic]
    job.send(0, 5)
    before = look(job)
    says(before.fix("TOPIC_MISSING"), "create the topic, or correct or remove its [[route]]")
    if created:
        services.kafka.create_topic(missing)
        job.send(0, 5, topic=missing)
    else:
        del job.tables[missing]
    leads_on("TOPIC_MISSING", before, job)
    job.drain(spark)
    for topic in job.tables:
        job.check(topic)


@pytest.mark.exit_of("PARTITION_MISSING")
def test_a_partition_that_is_not_there(make_job: MakeJob, spark: SparkSession, services: Stack) -> None:
    """A topic was created again with fewer partitions, and a range of the last one is in doubt."""
    job = make_job(partitions=2)
    for n in (0, 1):
        job.send(n, 10)
        insert(job, n, range(10))
    announce(job, {0: (10, 10), 1: (5, 10)})
    before = anew(job, services, 1)
    said = refused("PARTITION_MISSING", run(job, "resolve", job.topic, "1", "--resend", "--senders-gone", "--yes"))
    assert words_of(said, "reset", job.topic, "1")
    done(run(job, *words_of(said, "reset")[1:], "--yes"))
    says(said, "start with a new checkpoint")
    job.drain(spark)
    assert offsets(job, before) == list(range(7))
    assert not job.in_doubt()


@pytest.mark.exit_of("PATTERN_MATCHES_NOTHING")
@pytest.mark.parametrize("corrected", [True, False])
def test_a_pattern_of_no_topic(make_job: MakeJob, services: Stack, spark: SparkSession, *, corrected: bool) -> None:
    job = make_job(partitions=1)
    pattern = f"{job.topic}-none"
    route = {"topic_pattern": pattern, "table": job.tables[job.topic]}
    job.settings = {"route": [{"topic": job.topic, "table": job.tables[job.topic]}, route]}
    before = look(job)
    says(before.fix("PATTERN_MATCHES_NOTHING"), "correct the pattern", "if the topics do not exist yet, ignore this")
    found = f"{job.topic}-some" if corrected else pattern
    services.kafka.create_topic(found)
    job.tables[found] = job.tables[job.topic]
    if corrected:
        route["topic_pattern"] = found
    leads_on("PATTERN_MATCHES_NOTHING", before, job)
    job.send(0, 5, topic=found)
    job.drain(spark)
    job.check(found)


@pytest.mark.exit_of("PATTERN_LEFT_NOTHING")
@pytest.mark.parametrize("too", [True, False])
def test_a_pattern_whose_topics_have_routes(make_job: MakeJob, spark: SparkSession, *, too: bool) -> None:
    """Both ways to land the topic in the pattern's table, too or only there."""
    job = make_job(partitions=1)
    first = job.tables[job.topic]
    second = job.make_table(job.topic, suffix="_pattern")
    named, pattern = {"topic": job.topic, "table": first}, {"topic_pattern": job.topic, "table": second}
    job.settings = {"route": [named, pattern]}
    before = look(job)
    fix = before.fix("PATTERN_LEFT_NOTHING")
    says(fix, "name the topic in a further [[route]] with that table; this warning stays", "remove it from the route")
    job.settings = {"route": [named, pattern, {"topic": job.topic, "table": second}] if too else [pattern]}
    if too:
        assert look(job).wrong == before.wrong
    else:
        leads_on("PATTERN_LEFT_NOTHING", before, job)
    job.send(0, 10)
    job.drain(spark)
    for table in (first, second) if too else (second,):
        job.tables[job.topic] = table
        job.check()
    if not too:
        job.tables[job.topic] = first
        assert not job.landed()


@pytest.mark.exit_of("RECORDS_EXPIRED")
def test_records_that_kafka_deleted(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)
    job.send(0, 5)
    job.drain(spark)
    job.send(0, 15)
    delete_records(job.bootstrap, job.topic, 0, 12)
    before = look(job)
    fix = before.fix("RECORDS_EXPIRED")
    says(fix, "raise the topic's retention.ms", "start with a new checkpoint")
    configure(job.bootstrap, job.topic, {"retention.ms": "-1"})
    job.lose_checkpoint()
    job.drain(spark, setting_of(fix, "errors.on_gap"))
    leads_on("RECORDS_EXPIRED", before, job)
    assert offsets(job, Counter()) == [*range(5), *range(12, 20)]


@pytest.mark.exit_of("RECORDS_EXPIRE")
def test_records_that_kafka_will_delete(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1, topic_config={"retention.ms": "3600000"})
    producer = Producer({"bootstrap.servers": job.bootstrap})
    for n in range(10):
        value = f'{{"id": {n}, "text": "0:{n}"}}'.encode()
        producer.produce(job.topic, value, partition=0, timestamp=int(time.time() - 2700 + n) * 1000)
    assert producer.flush(30) == 0
    insert(job, 0, range(5))
    announce(job, {0: (5, 5)})
    before = look(job)
    says(before.fix("RECORDS_EXPIRE"), "raise retention.ms until the sink has caught up")
    configure(job.bootstrap, job.topic, {"retention.ms": "36000000"})
    leads_on("RECORDS_EXPIRE", before, job)
    job.drain(spark)
    configure(job.bootstrap, job.topic, {"retention.ms": "3600000"})
    leads_on("RECORDS_EXPIRE", before, job)
    job.check()


@pytest.mark.exit_of("TOPIC_IS_ANOTHER")
def test_a_topic_that_was_recreated_on_purpose(make_job: MakeJob, spark: SparkSession, services: Stack) -> None:
    job = make_job(partitions=1)
    job.send(0, 10)
    job.drain(spark)
    before = anew(job, services, 1)
    found = look(job)
    says(found.fix("TOPIC_IS_ANOTHER"), "if no copy ran:", "start with a new checkpoint")
    job.lose_checkpoint()
    job.drain(spark)
    leads_on("TOPIC_IS_ANOTHER", found, job)
    assert offsets(job, before) == list(range(7))


@pytest.mark.exit_of("PARTITIONS_GONE")
def test_a_topic_that_was_recreated_with_fewer_partitions(
    make_job: MakeJob, spark: SparkSession, services: Stack
) -> None:
    job = make_job(partitions=3)
    for n in range(3):
        job.send(n, 10)
    job.drain(spark)
    before = anew(job, services, 1)
    found = look(job)
    fix = found.fix("PARTITIONS_GONE")
    done(run(job, *words_of(fix, "reset", job.topic, "1", "2")[1:], "--yes"))
    says(fix, "keep their rows", "start with a new checkpoint")
    job.lose_checkpoint()
    leads_on("PARTITIONS_GONE", found, job)
    job.drain(spark)
    assert (offsets(job, before), look(job).wrong) == (list(range(7)), Counter())


@pytest.mark.exit_of("TOPIC_WITHOUT_ID")
def test_brokers_without_ids_of_topics(make_job: MakeJob, spark: SparkSession, tmp_path: Path) -> None:
    """The newer brokers are others here; the topic is theirs."""
    job = make_job(partitions=1)
    newer = job.bootstrap
    with OldKafka(tmp_path / "old") as old:
        create_topic(old.bootstrap, job.topic, 1)
        job.bootstrap = old.bootstrap
        before = look(job)
        says(before.fix("TOPIC_WITHOUT_ID"), "use brokers of version 3.0 or later")
        job.bootstrap = newer
    leads_on("TOPIC_WITHOUT_ID", before, job)
    job.send(0, 5)
    job.drain(spark)
    job.check()


def keeping(job: Job, topic: str) -> Mapping[str, Any]:
    """The job keeps dead letters there, and has some."""
    job.settings = {"errors.on_bad_value": "dead_letter", "dead_letters.topic": topic}
    job.send(0, 5)
    job.send_values(0, BAD)
    return job.settings


def letters_land(job: Job, spark: SparkSession) -> None:
    """Each record has its row or its dead letter, once."""
    job.drain(spark)
    job.check(rows_of=fits)
    assert len(read_all(job.bootstrap, job.settings["dead_letters.topic"])) == len(BAD)


@pytest.mark.exit_of("NO_DEAD_LETTERS_TOPIC")
@pytest.mark.parametrize("created", [True, False])
def test_a_topic_of_dead_letters_that_is_not_there(
    make_job: MakeJob, spark: SparkSession, services: Stack, *, created: bool
) -> None:
    job = make_job(partitions=1)
    right = f"{job.topic}-dead"
    keeping(job, right if created else f"{right}-wrong")
    if not created:
        services.kafka.create_topic(right, 1, {"retention.ms": "-1"})
    before = look(job)
    fix = before.fix("NO_DEAD_LETTERS_TOPIC")
    if created:
        services.kafka.create_topic(*topic_of(fix))
    else:
        says(fix, "or correct dead_letters.topic")
        job.settings = {**job.settings, "dead_letters.topic": right}
    leads_on("NO_DEAD_LETTERS_TOPIC", before, job)
    letters_land(job, spark)


@pytest.mark.exit_of("DEAD_LETTERS_EXPIRE")
@pytest.mark.exit_of("DEAD_LETTERS_TOPIC")
@pytest.mark.parametrize(("entry", "policy"), [("DEAD_LETTERS_EXPIRE", "delete"), ("DEAD_LETTERS_TOPIC", "compact")])
def test_topics_of_dead_letters_that_do_not_keep_them(
    make_job: MakeJob, spark: SparkSession, services: Stack, entry: str, policy: str
) -> None:
    job = make_job(partitions=1)
    topic = f"{job.topic}-dead"
    services.kafka.create_topic(topic, 1, {"cleanup.policy": policy, "retention.ms": "3600000"})
    keeping(job, topic)
    before = look(job)
    configure(job.bootstrap, topic, topic_settings_of(before.fix(entry)))
    leads_on(entry, before, job)
    letters_land(job, spark)
    assert not look(job).wrong


@pytest.mark.exit_of("REPLAY_FROM_COMPACTED")
def test_a_replay_from_a_compacted_topic(make_kept: Callable[..., KeptInTopic]) -> None:
    kept = make_kept(KeptInTopic)
    kept.widen()
    configure(kept.job.bootstrap, kept.letters, {"cleanup.policy": "compact"})
    replay = partial(cli, kept.job, "dlq", "replay", "--yes")
    kept.job.settings = kept.keeps
    said = refused("REPLAY_FROM_COMPACTED", replay())
    configure(kept.job.bootstrap, kept.letters, topic_settings_of(said))
    done(replay())
    rows = f"SELECT count(), uniqExact(text) FROM {kept.target} WHERE id >= 1000"
    counted = select(kept.job.shards[0], rows).split()
    assert counted[0] == counted[1] != "0"
    done(replay())
    assert select(kept.job.shards[0], rows).split() == counted
