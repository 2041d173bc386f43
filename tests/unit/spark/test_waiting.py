"""What is said of planned records of a topic that waits for its first one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chsink.errors import HaltError
from chsink.spark.opening import check_waiting
from chsink.statemachine.ranges import OffsetRange, TopicPartition

W, T = TopicPartition("w", 0), TopicPartition("t", 0)


def check(start: int, end: int) -> None:
    """[0, 500) was planned of both; only ``w`` waits."""
    kafka = SimpleNamespace(
        log_starts=lambda tps: dict.fromkeys(tps, start), log_ends=lambda tps: dict.fromkeys(tps, end)
    )
    services: Any = SimpleNamespace(config=SimpleNamespace(waiting=("w",)), kafka=kafka)
    check_waiting(services, dict.fromkeys((W, T), OffsetRange(0, 500)))


def test_kafka_has_deleted_them() -> None:
    """⚑ Each start planned them again, and none could say what to do."""
    with pytest.raises(
        HaltError, match=r"CHS-307.*w-0: Kafka deleted \[0, 500\) before these offsets landed"
    ) as halted:
        check(500, 500)
    assert "new checkpoint" in halted.value.hint
    assert "t-0" not in halted.value.message


def test_the_topic_was_recreated() -> None:
    with pytest.raises(HaltError, match=r"CHS-301.*w-0: the planned offsets \[0, 500\) lie beyond the end"):
        check(0, 0)


def test_kafka_holds_them_by_now() -> None:
    """Of a topic that was created again: the next start gives it a route."""
    check(0, 600)
