"""What a job answers to the probes of its supervisor, beside the metrics: ``/healthz`` and ``/readyz``.

Rules:
- *Alive* (``/healthz``) says that a new start would not help.  It fails only if the main thread, which looks at the
  job every second once the job runs, has not done so for ``SILENT_S``.  A service that does not answer, a long start,
  a long batch or a halt does not make it fail: a restart cures none of them.
- *Ready* (``/readyz``) says that this driver owns the sink and reads: all checks of the start passed, and what was in
  doubt is settled.  It is over with the job's end, and while the job ends after a signal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from chsink.errors import ChsinkError, HaltError

SILENT_S: Final = 120.0
"""Seconds for which a thread that looks every second may be silent: the whole machine may stand still for a while."""


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """``good`` becomes the status 200 or 503; ``text`` says why, in one line."""

    good: bool
    text: str


class Probes:
    """One job, as its main thread tells it.  The answers are given by other threads."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._looked: float | None = None
        self._end: ChsinkError | None = None
        self.asked = False
        """Whether the job shall end: after a signal, or because it has read all that it shall read."""

    def starting(self) -> None:
        """A start begins, the first one or another."""
        self._looked, self._end = None, None

    def looked(self) -> None:
        """The main thread has looked at the job, which runs."""
        self._looked = self._now()

    def ending(self) -> None:
        """The job shall end."""
        self.asked = True

    def ended(self, error: ChsinkError) -> None:
        """The job, or ClickHouse's side of it, has ended with this error."""
        self._end = self._end or error

    def alive(self) -> ProbeAnswer:
        """Whether the process works."""
        looked = self._looked
        if looked is None or self.asked or self._end is not None:
            return ProbeAnswer(True, "alive")
        silent_s = self._now() - looked
        if silent_s <= SILENT_S:
            return ProbeAnswer(True, "alive")
        return ProbeAnswer(False, f"the driver has not looked at the job for {silent_s:.0f} s")

    def ready(self) -> ProbeAnswer:
        """Whether the driver owns the sink and reads."""
        if self._end is not None:
            word = "halted" if isinstance(self._end, HaltError) else "stopped"
            return ProbeAnswer(False, f"{word}: {self._end.id} {' '.join(self._end.message.split())}")
        if self.asked:
            return ProbeAnswer(False, "ending")
        if self._looked is None:
            return ProbeAnswer(False, "starting")
        return ProbeAnswer(True, "ready")
