"""Skipped records: the first is reported at once, the others once a minute and at the end."""

from __future__ import annotations

from structlog.testing import capture_logs

from chsink.observe.logs import logger
from chsink.observe.skipped import SkipReport


class Clock:
    ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def steady_ms(self) -> int:
        return self.ms

    def sleep(self, seconds: float) -> None: ...


def test_one_line_a_minute() -> None:
    clock = Clock()
    with capture_logs() as lines:
        report = SkipReport(logger("s"), clock)
        for second in range(130):
            for partition in range(3):
                report.add(2, f"t[{partition}] offset {second}")
            report.say()
            clock.ms += 1000
        report.say(now=True)
        report.say(now=True)

    assert [(line["count"], line["first"]) for line in lines] == [
        (6, "t[0] offset 0"),
        (360, "t[0] offset 1"),
        (360, "t[0] offset 61"),
        (54, "t[0] offset 121"),
    ]


def test_nothing_is_said_of_nothing() -> None:
    with capture_logs() as lines:
        SkipReport(logger("s"), Clock()).say(now=True)
    assert lines == []
