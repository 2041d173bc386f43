"""Speeds from two statuses."""

from __future__ import annotations

from typing import Any

import pytest

from chsink.observe.pace import TableSpeed
from chsink.status.speeds import speeds
from tests.support import statuses
from tests.support.statuses import status


def partition(end: int, lag: int | None = 0, *, topic: str = "t", table: str = "d.t", phase: str = "AFTER") -> Any:
    return statuses.partition(topic=topic, table=table, end=end, lag=lag, phase=phase)


def test_a_first_look_knows_no_speed() -> None:
    assert speeds(None, status(partition(5, 3), partition(7, 1)), 0) == [
        TableSpeed("t", "d.t", None, None, 4, 0.0, None, 0)
    ]


def test_partitions_of_a_table_are_added_up() -> None:
    before = status(partition(0, 100), partition(100, 50))
    now = status(partition(40, 70, phase="BEFORE"), partition(120, 40))
    # 60 offsets landed in 10 s; the log grew by 60 + (110 - 150) = 20
    assert speeds(before, now, 10) == [TableSpeed("t", "d.t", 6.0, 2.0, 110, 0.0, 27.5, 1)]


def test_topics_and_tables_apart() -> None:
    before = status(partition(0), partition(0, table="d.u"), partition(0, topic="u"))
    now = status(partition(10), partition(20, table="d.u"), partition(30, topic="u"))
    assert [p.landed_per_s for p in speeds(before, now, 10)] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("before", "now", "left_s"),
    [
        (partition(0, 10), partition(0, 10), None),  # nothing lands
        (partition(0, 10), partition(10, 20), None),  # it falls behind
        (partition(0, 10), partition(10, 0), 0.0),
        (partition(0, 10), partition(5, 5), 10.0),
    ],
)
def test_when_the_lag_is_gone(before: Any, now: Any, left_s: float | None) -> None:
    assert speeds(status(before), status(now), 10)[0].left_s == left_s


def test_what_is_not_known() -> None:
    assert speeds(status(partition(0, 5)), status(partition(10, None)), 10) == [
        TableSpeed("t", "d.t", 1.0, None, None, 0.0, None, 0)
    ]
    assert speeds(status(partition(10, None)), status(partition(20, 5)), 10)[0].produced_per_s is None
    assert speeds(status(partition(10, 5)), status(partition(3, 5)), 10)[0].landed_per_s is None, "it was reset"
    assert speeds(status(), status(partition(3, 5)), 10)[0].landed_per_s is None


def test_the_oldest_record_of_all_partitions_counts() -> None:
    ages = [statuses.partition(lag=1, lag_s=age) for age in (3.0, None, 7.5)]
    assert speeds(None, status(*ages), 0)[0].lag_s == 7.5
    assert speeds(None, status(statuses.partition(lag=1, lag_s=None)), 0)[0].lag_s is None
