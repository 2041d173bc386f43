"""What is announced can be read: both ends of the log are asked before BEFORE."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from chsink.driver.recheck import check_readable
from chsink.errors import HaltError
from chsink.statemachine.ranges import OffsetRange, TopicPartition

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


class Kafka:
    """Logs that start at 10 and end at 20."""

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 20)


@pytest.mark.parametrize("start", [10, 11])
def test_a_plan_that_kafka_holds(start: int) -> None:
    kafka: Any = Kafka()
    check_readable(kafka, {ONE: OffsetRange(start, 20), TWO: OffsetRange(15, 16)})


@pytest.mark.parametrize(("planned", "gone"), [(OffsetRange(9, 20), "[9, 10)"), (OffsetRange(2, 5), "[2, 5)")])
def test_a_plan_that_kafka_no_longer_holds(planned: OffsetRange, gone: str) -> None:
    kafka: Any = Kafka()
    with pytest.raises(HaltError, match="CHS-307") as halted:
        check_readable(kafka, {ONE: OffsetRange(10, 20), TWO: planned})
    assert f"Kafka deleted {gone} before these offsets landed" in halted.value.message
    assert str(TWO) in halted.value.message


def test_a_plan_beyond_the_end_of_the_log() -> None:
    """⚑ the log shrank, or the topic was recreated: nothing is announced."""
    kafka: Any = Kafka()
    with pytest.raises(HaltError, match="CHS-301") as halted:
        check_readable(kafka, {ONE: OffsetRange(10, 20), TWO: OffsetRange(15, 21)})
    assert f"{TWO}: the planned offsets [15, 21) lie beyond the end of Kafka's log, which is now 20" in str(
        halted.value
    )


def test_all_that_cannot_be_read_is_named_at_once() -> None:
    kafka: Any = Kafka()
    with pytest.raises(HaltError) as halted:
        check_readable(kafka, {ONE: OffsetRange(9, 20), TWO: OffsetRange(8, 20)})
    assert "Kafka deleted [9, 10) before" in halted.value.message
    assert "Kafka deleted [8, 10) before" in halted.value.message
