"""⚑ Rows are asked of a replica that is current: one that lags answers with its old rows, and without an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pytest

from chsink.clickhouse.replicas import CATCH_UP_S, EMPTY_LOG_S, PAUSE_S, TWICE, current
from chsink.clickhouse.retry import RetryingQueries
from chsink.errors import UnavailableError
from chsink.ports import Unreachable
from tests.unit.clickhouse.server import StoppedClock, table

CURRENT = (0, 7, 8, 0, 0, 2)
"""cut off, newest entry of the log, next one to read, waiting, delay in seconds, replicas."""
QUEUE, UNREAD, CUT_OFF = (0, 7, 8, 3, 0, 2), (0, 7, 6, 0, 0, 2), (1, 0, 0, 0, 0, 0)
EMPTY, NOT_READ, ALONE = (0, 0, 0, 0, 0, 2), (0, 0, 0, 0, 5, 2), (0, 0, 0, 0, 0, 1)
State = tuple[int, ...]
REPLICATED = replace(table(), engine="ReplicatedMergeTree")


@dataclass
class Replica:
    """Says each of its states in turn, and then the last one for good; None: it does not answer."""

    states: list[State | None]
    url: str = "http://a"
    others: list[Replica] = field(default_factory=list)
    asked: int = 0
    is_newest: bool = False

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        assert "FROM system.replicas" in sql
        assert parameters == {"database": "db", "name": "t"}
        self.asked += 1
        state = self.states.pop(0) if self.states[1:] else self.states[0]
        if state is None:
            raise Unreachable("connection refused")
        return [state] if state else []

    def each_replica(self) -> list[Replica]:
        return [self, *self.others]

    def newest(self) -> Self:
        self.is_newest = True
        return self

    def once(self) -> Self:
        return self


def two(first: list[State | None], second: list[State | None]) -> tuple[Replica, Replica]:
    other = Replica(second, "http://b")
    return Replica(first, others=[other]), other


def test_a_plain_table_has_no_replicas() -> None:
    client = Replica([])
    assert current(client, table(), StoppedClock()) is client
    assert client.asked == 0


def test_a_replica_of_a_shared_table_is_told_to_read_its_newest_state() -> None:
    client = Replica([])
    assert current(client, replace(table(), engine="SharedMergeTree"), StoppedClock()).is_newest


@pytest.mark.parametrize("behind", [QUEUE, UNREAD, CUT_OFF, NOT_READ, (), None])
def test_the_first_one_that_is_current_is_asked(behind: State | None) -> None:
    first, second = two([behind], [CURRENT])
    assert current(first, REPLICATED, StoppedClock()) is second


@pytest.mark.parametrize("behind", [QUEUE, UNREAD, CUT_OFF, NOT_READ, None])
def test_one_that_catches_up_is_waited_for(behind: State | None) -> None:
    clock, client = StoppedClock(), Replica([behind, behind, CURRENT])
    assert current(client, REPLICATED, clock) is client
    assert sum(clock.slept) == 2 * PAUSE_S


def test_an_entry_that_was_read_after_the_queue_was_counted_is_waited_for() -> None:
    """⚑ The server counts its queue first: it may show an empty queue, and a log that it has read since."""
    clock, client = StoppedClock(), Replica([CURRENT, QUEUE, CURRENT])
    current(client, REPLICATED, clock)
    assert sum(clock.slept) == PAUSE_S


def test_who_goes_by_rows_that_are_there_waits_until_a_second_replica_has_them() -> None:
    clock = StoppedClock()
    first, _ = two([CURRENT], [QUEUE, QUEUE, CURRENT])
    assert current(first, REPLICATED, clock, copies=TWICE) is first
    assert sum(clock.slept) == 2 * PAUSE_S
    alone = Replica([CURRENT])
    assert current(alone, REPLICATED, StoppedClock(), copies=TWICE) is alone, "no other one is listed"


def test_none_that_is_current_is_an_error_that_names_each() -> None:
    clock = StoppedClock()
    first, _ = two([QUEUE], [None])
    with pytest.raises(UnavailableError, match=r"CHS-736.*db\.t .*http://a: 3 entries in its.*http://b: no answer"):
        current(first, REPLICATED, clock)
    assert sum(clock.slept) >= CATCH_UP_S


def test_an_empty_log_is_believed_once_its_first_entry_would_have_been_read() -> None:
    """`system.replicas` shows it as a log whose only entry was not read."""
    clock, client = StoppedClock(), Replica([EMPTY])
    current(client, REPLICATED, clock)
    assert sum(clock.slept) == EMPTY_LOG_S
    clock = StoppedClock()
    since_ms = clock.steady_ms()
    clock.now += EMPTY_LOG_S * 1000
    current(client, REPLICATED, clock, since_ms=since_ms)
    assert not clock.slept, "another table was asked before this one"
    clock = StoppedClock()
    current(Replica([ALONE]), REPLICATED, clock)
    assert not clock.slept, "nobody else can have written to it"


def test_a_replica_that_is_away_is_not_asked_again_and_again_while_another_one_is_current() -> None:
    first, second = two([None], [CURRENT])
    clock = StoppedClock()
    found = current(RetryingQueries(first, clock, 300), REPLICATED, clock)
    assert found.client is second and first.asked == 1 and not clock.slept


@pytest.mark.parametrize("set_by", [EMPTY_LOG_S * 1000, -3_600_000])
def test_a_clock_that_somebody_sets_does_not_make_a_log_empty(set_by: int) -> None:
    """⚑ The wall clock went forward by two seconds: the log was believed to be empty, and its rows were not there."""
    clock = StoppedClock()

    class Set(Replica):
        def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
            clock.set_by = set_by
            return super().query(sql, parameters)

        def each_replica(self) -> list[Self]:  # type: ignore[override] # it is alone
            return [self]

    client = Set([EMPTY, EMPTY, EMPTY, QUEUE, CURRENT])
    assert current(client, REPLICATED, clock) is client
    assert not client.states[1:], "it was asked until it had read its log"
