"""``chsink status --watch``: speeds from two statuses, and how they are printed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chsink.cli.watch import TableSpeed, speeds, watch
from chsink.errors import services


def partition(end: int, lag: int | None = 0, *, topic: str = "t", table: str = "d.t", phase: str = "AFTER") -> Any:
    return {"topic": topic, "table": table, "end": end, "lag": lag, "phase": phase}


def status(*partitions: Any) -> dict[str, Any]:
    return {"partitions": list(partitions)}


def test_a_first_look_knows_no_speed() -> None:
    assert speeds(None, status(partition(5, 3), partition(7, 1)), 0) == [TableSpeed("t", "d.t", None, None, 4, None, 0)]


def test_partitions_of_a_table_are_added_up() -> None:
    before = status(partition(0, 100), partition(100, 50))
    now = status(partition(40, 70, phase="BEFORE"), partition(120, 40))
    # 60 offsets landed in 10 s; the log grew by 60 + (110 - 150) = 20
    assert speeds(before, now, 10) == [TableSpeed("t", "d.t", 6.0, 2.0, 110, 27.5, 1)]


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
        TableSpeed("t", "d.t", 1.0, None, None, None, 0)
    ]
    assert speeds(status(partition(10, None)), status(partition(20, 5)), 10)[0].produced_per_s is None
    assert speeds(status(partition(10, 5)), status(partition(3, 5)), 10)[0].landed_per_s is None, "it was reset"
    assert speeds(status(), status(partition(3, 5)), 10)[0].landed_per_s is None


def test_lines_for_a_log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _watch(monkeypatch, as_json=False)
    out, err = capsys.readouterr()
    lines = [line.partition(" ")[2] for line in out.splitlines()]
    assert lines == [
        "t to d.t: lag 90 offsets",
        "t to d.t: lag 40 offsets, landed 5/s, produced 0/s, caught up in 0:00:08, 1 partition in doubt",
        "t to d.t: lag 0 offsets, landed 2/s, produced 0/s",
    ]
    assert "CHS-702" in err and "trying again" in err


def test_objects_for_a_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _watch(monkeypatch, as_json=True)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["tables"][0]["lag"] for one in told] == [90, 40, 0]
    assert told[1]["tables"][0]["left_s"] == 8.0


def _watch(monkeypatch: pytest.MonkeyPatch, *, as_json: bool) -> None:
    """Looks ten seconds apart, one of which fails; then Ctrl-C."""
    silent = services.KAFKA_SILENT(tp="t-0", offset=1, seconds="5")
    seen = [status(partition(10, 90)), status(partition(60, 40, phase="BEFORE")), silent, status(partition(100))]

    def look() -> Any:
        if not seen:
            raise KeyboardInterrupt
        found = seen.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr("chsink.cli.watch.time", Clock())
    watch(look, 10, as_json=as_json)


class Clock:
    """Time passes only in ``sleep``."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
