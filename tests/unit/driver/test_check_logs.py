"""Logs that end before what landed: all of them are named, also where brokers give topics no id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from chsink.driver.recheck import check_logs
from chsink.errors import HaltError
from chsink.statemachine.parts import Sending, TopicLife
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord


class Kafka:
    """Logs that end at 15."""

    def __init__(self, topic_id: str | None) -> None:
        self.topic_id = topic_id

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        return dict.fromkeys(topics, self.topic_id)

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 15)


def check(now: str | None, recorded: str | None, *ends: int, topic: str = "t") -> None:
    records = {
        StateKey("s", topic, n, "db.t"): StateRecord(
            Phase.AFTER, 1, "a", 0, end, life=TopicLife(recorded), sent=Sending(4)
        )
        for n, end in enumerate(ends)
    }
    kafka: Any = Kafka(now)
    check_logs(kafka, ["t"], records)


@pytest.mark.parametrize("topic_id", ["id", None])
def test_every_log_that_shrank_is_named(topic_id: str | None) -> None:
    """⚑ without ids, a new checkpoint would fail in the same way for ever: only a reset leads on."""
    with pytest.raises(HaltError, match="CHS-301") as halted:
        check(topic_id, topic_id, 20, 15, 16)
    assert "`chsink state reset t 0 2`" in halted.value.hint


def test_logs_that_hold_what_landed() -> None:
    check("id", "id", 15, 3)


def test_another_topic_and_one_without_a_route_are_others_business() -> None:
    check("new", "old", 20)
    check(None, None, 20, topic="elsewhere")


@pytest.mark.parametrize("end", [3, 20])
def test_brokers_that_hide_a_recorded_id_halt_the_start(end: int) -> None:
    """⚑ else Spark would fail on a log that is too short, at every start, and nobody would learn why."""
    with pytest.raises(HaltError, match="CHS-304.*t-0.*recorded topic id old, now None"):
        check(None, "old", end)
