"""Reports skipped records and dead letters: the first at once, then one line a minute, however many batches and
partitions there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import structlog

from chsink.ports import Clock

EVERY_MS: Final = 60_000


class SkipReport:
    """Counts records between two log lines.  A line says ``what`` happened and names the first record since the last
    line, never its value.
    """

    def __init__(self, log: structlog.typing.FilteringBoundLogger, clock: Clock, what: str = "records skipped") -> None:
        self._log = log
        self._what = what
        self._clock = clock
        self._count = 0
        self._first = ""
        self._next_ms = 0

    def add(self, count: int, first: str) -> None:
        """Count records; ``first`` says which record was the first, and why it was skipped."""
        self._first = self._first or first
        self._count += count

    def add_all(self, counts: Iterable[tuple[int, str]]) -> None:
        """Count the records of several chunks, then call :meth:`say`."""
        for count, first in counts:
            if count:
                self.add(count, first)
        self.say()

    def say(self, *, now: bool = False) -> None:
        """Log the count if a minute has passed since the last line, or at once if ``now``."""
        time_ms = self._clock.now_ms()
        if self._count and (now or time_ms >= self._next_ms):
            self._log.warning(self._what, count=self._count, first=self._first)
            self._count, self._first, self._next_ms = 0, "", time_ms + EVERY_MS
