"""The clock of this machine."""

from __future__ import annotations

import time


class SystemClock:
    """:class:`chsink.ports.Clock` of this machine."""

    def now_ms(self) -> int:
        """Wall clock, ms since the epoch."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
