"""What a running job says of its progress: on a terminal, and in a log."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from itertools import count

import pytest
from structlog.testing import capture_logs

from chsink.batch.model import PlannedBatch
from chsink.clock import SystemClock
from chsink.observe import progress
from chsink.observe.logs import configure, logger
from chsink.observe.metrics import Metrics
from chsink.observe.observer import JobObserver
from chsink.statemachine.parts import Sending
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord
from tests.support.terminal import on_a_terminal

Ends = Mapping[tuple[str, int], int]
"""By table and partition."""


def _observer() -> JobObserver:
    return JobObserver(logger("s"), Metrics("s"), SystemClock(), "auto")


def _records(ends: Ends) -> dict[StateKey, StateRecord]:
    return {
        StateKey("s", table[2:], partition, table): StateRecord(
            Phase.AFTER if end else Phase.EMPTY, 1, "a", 0, end, sent=Sending(5)
        )
        for (table, partition), end in ends.items()
    }


def _batch(observer: JobObserver, ends: Ends, logs: Ends) -> None:
    """A batch that brings the tables to these ends; Kafka's logs end at ``logs``."""
    observer.state(_records(ends))
    log_ends = {TopicPartition(table[2:], partition): end for (table, partition), end in logs.items()}
    batch = PlannedBatch(1, {tp: OffsetRange(0, end) for tp, end in log_ends.items()})
    observer.finished(batch, log_ends, sorted({(table[2:], table) for table, _ in ends}))


@pytest.fixture
def ten_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is ten seconds later."""
    ticks = count(0.0, 10.0)
    monkeypatch.setattr(progress, "monotonic", lambda: next(ticks))


def said(logged: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    return [{k: v for k, v in line.items() if k not in {"event", "log_level", "sink"}} for line in logged]


@pytest.mark.usefixtures("ten_s")
def test_a_log_has_a_line_for_each_table_every_30_seconds_and_when_it_has_caught_up() -> None:
    observer = _observer()
    with capture_logs() as logged:
        observer.state(_records({("d.t", 0): 0, ("d.t", 1): 0, ("d.u", 0): 100}))
        for landed in (100, 200, 300):
            logs = {("d.t", 0): 500, ("d.t", 1): 5, ("d.u", 0): 100}
            _batch(observer, {("d.t", 0): landed, ("d.t", 1): 5, ("d.u", 0): 100}, logs)
        _batch(observer, {("d.t", 0): 500, ("d.t", 1): 5, ("d.u", 0): 100}, {("d.t", 0): 500})

    t, u = {"topic": "t", "table": "d.t"}, {"topic": "u", "table": "d.u"}
    assert {line["event"] for line in logged} == {"progress"}
    assert said(logged) == [
        {**t, "landed_per_s": 10, "produced_per_s": 0, "lag": 300, "left_s": 30},
        {**u, "landed_per_s": 0, "produced_per_s": 0, "lag": 0, "left_s": 0},
        {**t, "landed_per_s": 20, "produced_per_s": 0, "lag": 0, "left_s": 0},
    ]


@pytest.mark.usefixtures("ten_s")
def test_of_many_tables_those_that_are_furthest_behind_are_named() -> None:
    observer = _observer()
    with capture_logs() as logged:
        for _ in range(4):
            ends = {(f"d.t{n:02}", 0): 0 for n in range(progress.MOST + 2)}
            _batch(observer, ends, {name: n + 1 for n, name in enumerate(ends)})
    assert [line.get("table") for line in logged] == [*(f"d.t{n:02}" for n in range(2, 22)), None]
    assert said(logged)[-1] == {"more_tables": 2, "lag": 3}


def test_never_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOGGED_S", 0.0)
    observer = JobObserver(logger("s"), Metrics("s"), SystemClock(), "never")
    with capture_logs() as logged:
        _batch(observer, {("d.t", 0): 1}, {("d.t", 0): 2})
    assert logged == []


def test_a_terminal_has_a_table_below_the_log() -> None:
    """The lines of the log are whole, also the long ones, and the table is drawn anew below them."""
    screen = on_a_terminal(sys.executable, "-m", "tests.unit.observe.test_progress")
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen).replace("\r", "")
    assert plain.count("landed/s  produced/s  lag  caught up in") >= 2
    assert re.search(r"t +d\.t +0 +- +4 +-", plain), "after the first batch, nobody knows what is produced"
    assert re.search(r"t +d\.t +[\d,]+ +[\d,]+ +0 +now", plain)
    assert "long line" in plain and "x" * 300 in plain
    assert "\x1b[1A\x1b[2K" in screen, "what was drawn is removed"
    assert "d.t" not in plain.partition("after it")[2], "nothing is left below the last line"


if __name__ == "__main__":
    configure("console", "info")
    shown = _observer()
    _batch(shown, {("d.t", 0): 6}, {("d.t", 0): 10})
    shown.log.info("long line", value="x" * 300)
    _batch(shown, {("d.t", 0): 10}, {("d.t", 0): 10})
    shown.close()
    shown.log.info("after it")
