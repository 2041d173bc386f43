"""Signals that end a process, and waiting for what was asked to end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from time import monotonic
from types import FrameType
from typing import Any, Protocol, Self

POLL_S = 1
END_S = 120.0
"""How long the process waits for what was asked to end.  A service may never answer, and whoever supervises the process
starts it again once it has ended.
"""


class StopSignal(Protocol):
    """What asks a query to end."""

    @property
    def received(self) -> str:
        """Why, "" while nothing does."""

    @property
    def times(self) -> int:
        """How often a signal arrived."""


class StopSignals:
    """Records SIGTERM or SIGINT, and how often they arrived."""

    def __init__(self) -> None:
        self.received = ""
        self.times = 0
        self._old: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._old[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.received = signal.Signals(number).name
        self.times += 1

    def __exit__(self, *_: object) -> None:
        for number, old in self._old.items():
            signal.signal(number, old)


def await_end(join: Callable[[float], bool], stop: StopSignal, ask: Callable[[], None], *, asked: bool) -> bool:
    """Wait until ``join`` says that it ended; ``ask`` it to at a signal, unless it was ``asked`` already.

    Whether it ended: what was asked has ``END_S``, and a further signal waits no longer.
    """
    give_up, times = (monotonic() + END_S if asked else None), stop.times
    while not join(POLL_S):
        if stop.received and give_up is None:
            give_up, times = monotonic() + END_S, stop.times
            ask()
        if give_up is not None and (monotonic() >= give_up or stop.times > times):
            return False
    return True
