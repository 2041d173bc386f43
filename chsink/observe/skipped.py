"""Reports skipped records: the first at once, then one line a minute, however many batches and partitions skip."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import structlog

from chsink.batch.model import Ack
from chsink.ports import Clock

EVERY_MS: Final = 60_000


class SkipReport:
    """Counts skipped records between two lines.  A line names the first record of its time, never its value."""

    def __init__(self, log: structlog.typing.FilteringBoundLogger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._count = 0
        self._first = ""
        self._next_ms = 0

    def add(self, count: int, first: str) -> None:
        """Count records; ``first`` says which was the first of them, and why."""
        self._first = self._first or first
        self._count += count

    def landed(self, acks: Iterable[Ack]) -> None:
        """Count what tasks skipped, and :meth:`say` it."""
        for chunk in (c for ack in acks for c in ack.chunks if c.skipped):
            self.add(chunk.skipped, chunk.first_skipped)
        self.say()

    def say(self, *, now: bool = False) -> None:
        """Log what was counted, when a minute has passed since the last line, or ``now``."""
        time_ms = self._clock.now_ms()
        if self._count and (now or time_ms >= self._next_ms):
            self._log.warning("records skipped", count=self._count, first=self._first)
            self._count, self._first, self._next_ms = 0, "", time_ms + EVERY_MS
