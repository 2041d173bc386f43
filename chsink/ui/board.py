"""Who watches, and what they were shown last: one thread looks, for all of them, and only while there are any."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

WATCHERS: Final = 32
"""Pages that may be open at the same time."""


class PageEnded(Exception):
    """The page ends: there is nothing more to show."""


class Watcher:
    """One open page.  It gets the newest frame only: what it was too slow for is left out."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._newest: str | None = None
        self._ended = False

    def offer(self, frame: str | None, *, ended: bool = False) -> None:
        """From any thread.  None leaves the newest frame as it is."""
        try:
            self._loop.call_soon_threadsafe(self._take, frame, ended)
        except RuntimeError:  # the loop was closed
            return

    def _take(self, frame: str | None, ended: bool) -> None:
        self._newest, self._ended = frame or self._newest, self._ended or ended
        self._changed.set()

    async def next(self, wait_s: float) -> str | None:
        """The next frame, or None after ``wait_s``.  Raises :class:`PageEnded` once all is shown."""
        try:
            await asyncio.wait_for(self._changed.wait(), wait_s)
        except TimeoutError:
            return None
        frame, self._newest = self._newest, None
        if frame is None and self._ended:
            raise PageEnded
        if not self._ended:
            self._changed.clear()
        return frame


class Board:
    """``look`` makes a frame, ``rest`` is called when nobody watches any more; both in the board's thread."""

    def __init__(
        self,
        look: Callable[[], str],
        rest: Callable[[], None],
        interval_s: float,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._look, self._rest, self._interval_s, self._log = look, rest, interval_s, log
        self._lock = threading.Condition()
        self._watchers: set[Watcher] = set()
        self._last: tuple[float, str] | None = None
        self._ended = False
        self._thread: threading.Thread | None = None

    def watch(self) -> Watcher | None:
        """A new watcher, who gets what was just seen; None if there are too many.  Call it in the watcher's loop."""
        watcher = Watcher()
        with self._lock:
            if len(self._watchers) >= WATCHERS:
                return None
            self._watchers.add(watcher)
            if self._last is not None and time.monotonic() - self._last[0] < self._interval_s:
                watcher.offer(self._last[1])
            if self._ended:
                watcher.offer(None, ended=True)
            elif self._thread is None:
                self._thread = threading.Thread(target=self._run, name="status page", daemon=True)
                self._thread.start()
            self._lock.notify_all()
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """It does not watch any more."""
        with self._lock:
            self._watchers.discard(watcher)

    def end(self, last: str | None = None) -> None:
        """Show the ``last`` frame, if there is one, and look no more."""
        with self._lock:
            if not self._ended:
                self._ended = True
                for watcher in self._watchers:
                    watcher.offer(last, ended=True)
            self._lock.notify_all()

    def join(self, wait_s: float) -> None:
        """Wait until the thread has ended: a look that hangs is left alone."""
        if self._thread is not None:
            self._thread.join(wait_s)

    def _run(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._watchers or self._ended)
                if self._ended:
                    break
            self._show()
            with self._lock:
                self._lock.wait_for(lambda: self._ended, self._interval_s)
                resting = not self._watchers
            if resting:
                self._rest()
        self._rest()

    def _show(self) -> None:
        try:
            frame = self._look()
        except Exception:  # a thread's error would be lost, and the page would stand still
            self._log.exception("the status page could not look")
            return
        with self._lock:
            self._last = time.monotonic(), frame
            if not self._ended:
                for watcher in self._watchers:
                    watcher.offer(frame)
