"""What was asked to end is waited for, but not for ever."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event, Thread, Timer

import pytest

from chsink import stop
from chsink.stop import await_end


@dataclass
class Signals:
    """Signals that have arrived."""

    received: str = ""
    times: int = 0

    def arrive(self) -> None:
        self.received, self.times = "SIGTERM", self.times + 1


@dataclass
class Working:
    """A thread that ends when a service answers.  ``asked`` counts how often it was asked to."""

    answer: Event = field(default_factory=Event)
    asked: int = 0

    def __post_init__(self) -> None:
        self.thread = Thread(target=self.answer.wait, daemon=True)
        self.thread.start()

    def ask(self) -> None:
        self.asked += 1

    def join(self, _wait_s: float) -> bool:
        self.thread.join(0.01)
        return not self.thread.is_alive()


def test_it_is_asked_once_and_has_its_time() -> None:
    signals, working = Signals(), Working()
    signals.arrive()
    later = Timer(0.1, working.answer.set)
    later.start()
    assert await_end(working.join, signals, working.ask, asked=False)
    assert working.asked == 1
    later.join()


def test_a_service_that_never_answers_does_not_keep_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop, "END_S", 0.1)
    working = Working()
    assert not await_end(working.join, Signals(), working.ask, asked=True)
    assert working.asked == 0
    working.answer.set()


def test_a_further_signal_waits_no_longer() -> None:
    signals, working = Signals(), Working()
    signals.arrive()
    later = Timer(0.1, signals.arrive)
    later.start()
    assert not await_end(working.join, signals, working.ask, asked=False)
    assert working.asked == 1
    later.join()
    working.answer.set()
