"""A broker restarts under a job that runs, as in an upgrade: while it is away, nobody leads some of the partitions."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from chsink.embedded.kafka import EmbeddedKafka
from tests.chaos.letters import fits, send_bad
from tests.chaos.world import World
from tests.support.brokers import another_broker
from tests.support.child import Child
from tests.support.job import Job

OFTEN = {"trigger.mode": "processing_time", "trigger.interval": "200 milliseconds"}


def send(job: Job) -> None:
    """New records in each partition, one of them bad."""
    for partition in range(4):
        job.send(partition, 11)
        send_bad(job, partition)


@pytest.mark.slow
@pytest.mark.long
def test_broker_restarts(world: World, tmp_path: Path) -> None:
    """The job waits, and goes on by itself.  Its client kept the epochs of leaders from before, and ended with CHS-702."""
    with EmbeddedKafka(tmp_path / "1") as first, another_broker(tmp_path / "2", first) as second:
        job = replace(world, kafka=first).job(tmp_path, partitions=4, letters="topic")
        [topic] = AdminClient({"bootstrap.servers": first.bootstrap}).list_topics(job.topic).topics.values()
        assert {partition.leader for partition in topic.partitions.values()} == {1, 2}

        def all_landed() -> bool:
            return job.verdict(rows_of=fits).exactly_once and not job.in_doubt()

        send(job)
        with Child(job, settings=OFTEN) as child:
            child.await_that("first batch", all_landed)
            for _ in range(2):
                second.stop()
                second.start()
                send(job)
                child.await_that("all records", all_landed)
                world.tally.fired("broker restarted under a running job")
            child.tell_all(signal.SIGTERM)
            assert child.end() == 0, child.said[-3000:]
        world.judge(job)
