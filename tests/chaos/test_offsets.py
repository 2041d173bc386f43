"""Checkpoints that lose or change their mind, and topics that change under the job.

The job runs in this process's Spark session.  Where it must stop, it stops with its id and nothing is wrong in the
table; what a person then does brings it on.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chsink.embedded import topics
from chsink.errors import HaltError
from tests.chaos.world import World
from tests.integration.job.faults import Failpoints
from tests.support.job import Job, eventually
from tests.support.kafka import read_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def job(world: World, tmp_path: Path, spark: SparkSession) -> Job:
    """A sink that has landed two batches."""
    job = world.job(tmp_path)
    for _ in range(2):
        job.send(0, 25)
        job.send(1, 15)
        job.drain(spark)
    return job


def last(job: Job, log: str) -> Path:
    """The newest file of a log of the checkpoint."""
    return max((f for f in (job.checkpoint / log).iterdir() if f.name.isdigit()), key=lambda f: int(f.name))


def forget(job: Job, *logs: str) -> None:
    """Delete the newest file of each log, and the checksum beside it."""
    for log in logs:
        file = last(job, log)
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
        file.unlink()


def test_commit_is_deleted(world: World, job: Job, spark: SparkSession) -> None:
    """Spark runs the same batch again: nothing is even sent."""
    sent = world.gates[0].sent(job.topic)
    forget(job, "commits")
    world.tally.fired("checkpoint: commits/N deleted")
    job.drain(spark)
    assert world.gates[0].sent(job.topic) == sent
    world.judge(job)


def test_batch_is_replayed_with_another_range(world: World, job: Job, spark: SparkSession) -> None:
    """The plan of the last batch is gone, and the new one reaches further."""
    forget(job, "commits", "offsets")
    world.tally.fired("checkpoint: replayed with another range")
    job.send(0, 13)
    job.drain(spark)
    world.judge(job)


def test_batch_in_doubt_is_replayed_with_another_range(
    world: World, job: Job, spark: SparkSession, failpoints: Failpoints
) -> None:
    """As before, with the range in doubt, landed in fact, and cut differently by the new plan."""
    job.send(0, 21)
    failpoints.arm("driver.before_after=fail")
    with pytest.raises(Exception, match="CHS-708"):
        job.drain(spark)
    failpoints.assert_fired("driver.before_after")
    failpoints.disarm()
    forget(job, "offsets")
    job.send(0, 13)
    world.tally.fired("checkpoint: replayed in doubt with another range")
    job.drain(spark, {"kafka.max_offsets_per_trigger": 16})
    world.judge(job)


def test_checkpoint_is_deleted(world: World, job: Job, spark: SparkSession, failpoints: Failpoints) -> None:
    """With a range in doubt: it is settled, and the source starts at the recorded ends."""
    job.send(0, 21)
    failpoints.arm("driver.after_before=fail")
    with pytest.raises(Exception, match="CHS-708"):
        job.drain(spark)
    failpoints.assert_fired("driver.after_before")
    failpoints.disarm()
    job.lose_checkpoint()
    world.tally.fired("checkpoint: deleted")
    job.send(1, 3)
    job.drain(spark)
    world.judge(job)


def test_offsets_are_rewound(world: World, job: Job, spark: SparkSession) -> None:
    """The checkpoint begins anew at 0: the job stops, nothing lands twice; `on_rewind = "skip"` passes over."""
    for log in ("commits", "offsets"):
        while any(f.name.isdigit() for f in (job.checkpoint / log).iterdir()):
            forget(job, log)
    world.tally.fired("checkpoint: rewound to 0")
    job.send(0, 5)
    sent = world.gates[0].sent(job.topic)
    small = {"kafka.max_offsets_per_trigger": 20}
    with pytest.raises(HaltError, match="CHS-306") as stopped:
        job.drain(spark, small)
    assert stopped.value.exit_code == 3
    assert world.gates[0].sent(job.topic) == sent
    job.drain(spark, {**small, "errors.on_rewind": "skip"})
    world.judge(job)


def test_offsets_are_skipped_forward(world: World, job: Job, spark: SparkSession) -> None:
    """The checkpoint claims more than was landed: the job stops; with a new checkpoint it starts where it stood."""
    job.send(0, 9)
    file = last(job, "offsets")
    lines = file.read_text().splitlines()
    lines[-1] = json.dumps({job.topic: {"0": 55, "1": 30}})
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    file.write_text("\n".join(lines))
    world.tally.fired("checkpoint: skipped forward")
    with pytest.raises(HaltError, match="CHS-307") as stopped:
        job.drain(spark)
    assert stopped.value.exit_code == 3
    world.judge_not_wrong(job)
    job.lose_checkpoint()
    job.drain(spark)
    world.judge(job)


def test_retention_leaves_a_gap(world: World, job: Job, spark: SparkSession) -> None:
    """Kafka dropped records before they were read: the job stops; `on_gap = "record"` accepts it, the rest lands."""
    before = Counter(job.landed())
    job.send(0, 20)
    topics.delete_records(job.bootstrap, job.topic, 0, 60)
    world.tally.fired("kafka: records dropped by retention")
    job.lose_checkpoint()
    with pytest.raises(HaltError, match="CHS-307") as stopped:
        job.drain(spark)
    assert stopped.value.exit_code == 3
    assert Counter(job.landed()) == before
    job.lose_checkpoint()
    job.drain(spark, {"errors.on_gap": "record"})
    landed = Counter(job.landed())
    assert not before - landed
    assert {row[1] for row in landed - before} == set(range(60, 70))
    assert max(landed.values()) == 1
    assert not job.in_doubt()


def test_retention_passes_the_checkpoint(world: World, job: Job, spark: SparkSession) -> None:
    """As before, with the checkpoint at hand: Spark plans what Kafka no longer has; the job stops, nothing is wrong."""
    job.send(0, 20)
    topics.delete_records(job.bootstrap, job.topic, 0, 60)
    world.tally.fired("kafka: records dropped by retention")
    before = job.landed()
    with pytest.raises(HaltError) as stopped:
        job.drain(spark)
    assert stopped.value.exit_code == 3
    assert job.landed() == before


def test_topic_is_recreated(world: World, job: Job, spark: SparkSession) -> None:
    """The same offsets with other records: the old checkpoint stops the job, a new one lands every new record."""
    before = Counter(job.landed())
    world.kafka.delete_topic(job.topic)
    world.kafka.create_topic(job.topic, 2)
    world.tally.fired("kafka: topic recreated")
    job.send(0, 35)
    job.send(1, 35)
    with pytest.raises(HaltError):
        job.drain(spark)
    assert Counter(job.landed()) == before
    job.lose_checkpoint()
    job.drain(spark)
    new = Counter(
        (r.partition, r.offset, *map(json.loads(r.value or b"{}").get, job.columns))
        for r in read_all(job.bootstrap, job.topic)
    )
    assert Counter(job.landed()) - before == new
    assert not before - Counter(job.landed())


def test_compaction_in_doubt(world: World, tmp_path: Path, spark: SparkSession, failpoints: Failpoints) -> None:
    """Records of a range in doubt are compacted away before it is settled, the first and the last among them."""
    compacting = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
    }
    job = world.job(tmp_path, partitions=1, topic_config=compacting)
    for key in (b"same", b"1", b"same", b"2", b"same"):
        job.send(0, 3, key=key)
    failpoints.arm("driver.after_before=fail")
    with pytest.raises(Exception, match="CHS-708"):
        job.drain(spark)
    failpoints.assert_fired("driver.after_before")
    failpoints.disarm()
    held = len(read_all(job.bootstrap, job.topic))
    for key in (b"same", b"other"):
        time.sleep(0.2)
        job.send(0, 1, key=key)

    def compacted() -> bool:
        return len(read_all(job.bootstrap, job.topic)) < held

    eventually("compaction", compacted)
    world.tally.fired("kafka: compaction")
    job.drain(spark)
    world.judge(job)
