"""The clock of this machine."""

from __future__ import annotations

import time

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux's own: the other one stands still while the machine is suspended."""


class SystemClock:
    """:class:`chsink.ports.Clock` of this machine."""

    def now_ms(self) -> int:
        """See :class:`chsink.ports.Clock`."""
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        """See :class:`chsink.ports.Clock`."""
        return time.clock_gettime_ns(_STEADY) // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
