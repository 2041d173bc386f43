"""Dead letters in a topic of the real broker: each exactly once, whatever ends the job, and bit for bit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from pyspark.sql import SparkSession

from chsink.embedded.stack import Stack
from chsink.errors import HaltError, PreflightError, UnavailableError
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints
from tests.integration.job.test_dead_letters import BAD, HEADERS, dlq, fits, flags
from tests.integration.job.test_verify import found
from tests.integration.job.test_verify import run as verify
from tests.support.job import Job
from tests.support.kafka import Record, produce, read_all
from tests.support.told import group_commands_of, says

pytestmark = pytest.mark.slow


def own(record: Record) -> dict[str, str]:
    """The headers that say why, which follow those of the record."""
    return {name: (value or b"").decode() for name, value in record.headers[_first(record) :]}


def _first(record: Record) -> int:
    return [name for name, _ in record.headers].index("__connect.errors.topic")


def letters(job: Job, topic: str) -> Counter[tuple[Any, ...]]:
    """What the topic holds of this sink, as records of the source."""
    found: Counter[tuple[Any, ...]] = Counter()
    for r in read_all(job.bootstrap, topic):
        why = own(r)
        assert (why["chsink.sink"], why["chsink.topic"]) == (job.name, job.topic)
        place = int(why["__connect.errors.partition"]), int(why["__connect.errors.offset"])
        found[(*place, r.key, r.value, r.timestamp, tuple(r.headers[: _first(r)]))] += 1
    return found


def expected(job: Job) -> Counter[tuple[Any, ...]]:
    return Counter(
        (r.partition, r.offset, r.key, r.value, r.timestamp, tuple(r.headers))
        for r in read_all(job.bootstrap, job.topic)
        if r.value in BAD
    )


def check(job: Job, topic: str) -> None:
    job.check(rows_of=fits)
    assert letters(job, topic) == expected(job)


def crash(job: Job, spark: SparkSession, failpoints: Failpoints, at: str, keeps: Mapping[str, Any]) -> None:
    failpoints.arm(at)
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark, keeps)
    failpoints.assert_fired(at.partition("=")[0])
    failpoints.disarm()


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    job = make_job(partitions=2)
    for partition in (0, 1):
        job.send(partition, 12)
        job.send_values(partition, BAD, key=b"\xfe", headers=HEADERS)
        job.send(partition, 12)
    return job


@pytest.mark.soak
def test_dead_letters_are_delivered_once(
    job: Job, services: Stack, spark: SparkSession, failpoints: Failpoints, capsys: pytest.CaptureFixture[str]
) -> None:
    """⚑ The job dies inside a transaction, after it, before AFTER; its group is lost while the range is in doubt."""
    topic = f"{job.topic}-dead"
    services.kafka.create_topic(topic, 2)
    keeps = {"errors.on_bad_value": "dead_letter", "dead_letters.topic": topic}

    crash(job, spark, failpoints, "task.in_dead_letters=kill", keeps)
    assert not letters(job, topic), "aborted, or not yet: nobody sees them"
    crash(job, spark, failpoints, "task.after_dead_letters=kill", keeps)
    assert letters(job, topic)
    group = f"chsink-{job.name}/dead-letters/{job.tables[job.topic]}"
    admin = AdminClient({"bootstrap.servers": job.bootstrap})
    admin.delete_consumer_groups([group])[group].result(20)
    job.drain(spark, keeps)
    check(job, topic)

    job.send_values(0, [*BAD, {"id": 70, "text": "x"}], key=b"k")
    crash(job, spark, failpoints, "driver.before_after=fail", keeps)
    with pytest.raises(HaltError, match="CHS-309.*dead_letters"):
        job.drain(spark, {"errors.on_bad_value": "skip"})
    job.drain(spark, keeps)
    check(job, topic)
    listed = json.loads(dlq(job, "list", "--json", *flags(keeps)))
    assert sorted((k["partition"], k["offset"]) for k in listed) == sorted(row[:2] for row in expected(job))
    [shown] = json.loads(dlq(job, "show", job.topic, "1", "13", *flags(keeps)))
    assert (shown["value"], shown["table"]) == ({"hex": BAD[1].hex()}, job.tables[job.topic])
    assert job.status()["dead_letters"] == len(BAD) * 3
    code, report = verify(job, *flags(keeps))
    assert (code, [p["dead_letters"] for p in report["partitions"]]) == (0, [len(BAD) * 2, len(BAD)]), report

    one = read_all(job.bootstrap, topic)[0]
    produce(job.bootstrap, topic, 0, [one.value], key=one.key, headers=one.headers)
    doubled = int(own(one)["chsink.offset"])
    code, report = verify(job, *flags(keeps))
    assert (code, found(report, int(own(one)["chsink.partition"]))) == (
        1,
        {"letter_duplicated": [[doubled, doubled + 1]]},
    )
    assert "secret" not in capsys.readouterr().err


@pytest.mark.soak
@pytest.mark.exit_of("DEAD_LETTER_REFUSED")
@pytest.mark.exit_of("DEAD_LETTERS_GROUP")
def test_what_keeps_dead_letters_from_their_topic(job: Job, services: Stack, spark: SparkSession) -> None:
    """A topic that takes no record of this size; and a group that a newer run of the sink has used."""
    topic = f"{job.topic}-dead"
    keeps = {"errors.on_bad_value": "dead_letter", "dead_letters.topic": topic}
    with pytest.raises(PreflightError, match=f"CHS-273.*{topic}"):
        job.drain(spark, keeps)
    services.kafka.create_topic(topic, 1, {"max.message.bytes": "300"})
    with pytest.raises(HaltError, match="CHS-334.*Message size too large") as refused:
        job.drain(spark, keeps)
    says(
        refused.value, "raise its max.message.bytes above the largest record plus 10 kB of headers", "then start again"
    )
    larger = ConfigEntry("max.message.bytes", "1000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[larger])
    admin = AdminClient({"bootstrap.servers": job.bootstrap})
    [changed] = admin.incremental_alter_configs([resource]).values()
    changed.result(20)

    group = f"chsink-{job.name}/dead-letters/{job.tables[job.topic]}"
    newer = TopicPartition(job.topic, 0, 5, "99 0 another")
    consumer = Consumer({"bootstrap.servers": job.bootstrap, "group.id": group})
    consumer.commit(offsets=[newer], asynchronous=False)
    consumer.close()
    with pytest.raises(HaltError, match="CHS-335.*epoch 99") as halted:
        job.drain(spark, keeps)
    [named] = group_commands_of(halted.value)
    assert {"bootstrap-server", "delete"} < named.keys() and named["group"] == group
    [deleted] = admin.delete_consumer_groups([named["group"]]).values()
    deleted.result(20)
    job.drain(spark, keeps)
    check(job, topic)
