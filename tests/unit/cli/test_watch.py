"""How ``chsink status --watch`` prints speeds."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest

from chsink.cli.watch import watch
from chsink.errors import services
from tests.support.statuses import partition, status
from tests.support.terminal import on_a_terminal


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


def test_a_table_on_a_terminal_that_is_drawn_anew() -> None:
    screen = on_a_terminal(sys.executable, "-m", "tests.unit.cli.test_watch")
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen)
    rows = re.findall(r"^ ?t +d\.t .*", plain.replace("\r", ""), re.MULTILINE)
    assert [row.split() for row in rows[:3]] == [
        ["t", "d.t", "-", "-", "90", "0:00:00", "-", "0"],
        ["t", "d.t", "5", "0", "40", "0:00:00", "0:00:08", "1"],
        ["t", "d.t", "2", "0", "0", "0:00:00", "now", "0"],
    ]
    assert "Ctrl-C stops watching; the job goes on" in plain
    assert "CHS-702" in plain and "trying again" in plain
    assert "\x1b[1A\x1b[2K" in screen, "each table takes the place of the one before"


def _watch(monkeypatch: pytest.MonkeyPatch, *, as_json: bool) -> None:
    """Looks ten seconds apart, one of which fails; then Ctrl-C."""
    silent = services.KAFKA_SILENT(tp="t-0", offset=1, seconds="5")
    seen = [
        status(partition(end=10, lag=90, table="d.t")),
        status(partition(end=60, lag=40, table="d.t", phase="BEFORE")),
        silent,
        status(partition(end=100, table="d.t")),
    ]

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


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        _watch(patch, as_json=False)
