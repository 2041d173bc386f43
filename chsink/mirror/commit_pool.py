"""Several tables at a time: their commits, and questions to the catalog about them.

A commit that takes long holds up neither the commits of other tables nor the next round.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")
_Job = tuple[str, Callable[[], T]]


def asked(function: Callable[[str], T], names: Sequence[str], threads: int) -> dict[str, T]:
    """What the function says of each name.  With one thread, in the caller's; raises the first error in their order."""
    if threads <= 1 or len(names) <= 1:
        return {name: function(name) for name in names}
    with ThreadPoolExecutor(min(threads, len(names))) as pool:
        return dict(zip(names, pool.map(function, names), strict=True))


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The outcome of one commit: a value, or the error that it raised."""

    name: str
    value: T | None = None
    error: Exception | None = None


class CommitPool(Generic[T]):
    """Runs one commit of each table at a time, on so many threads; with one, in the caller's."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._begun = 0
        self._jobs: SimpleQueue[_Job[T] | None] = SimpleQueue()
        self._done: SimpleQueue[Done[T]] = SimpleQueue()
        self.since: dict[str, float] = {}
        """The tables whose commits run or wait, with the monotonic time since when."""

    def finished(self, jobs: Mapping[str, Callable[[], T]], patience_s: float | None) -> Iterator[Done[T]]:
        """Begin these commits, and yield what finishes, earlier ones too: until all have finished, or for so long
        (None: without a limit).
        """
        assert not jobs.keys() & self.since.keys(), "a table has one commit at a time"
        self.since |= dict.fromkeys(jobs, monotonic())
        if self._threads <= 1:
            for name, work in jobs.items():
                done = _outcome(name, work)
                del self.since[name]
                yield done
            return
        for job in jobs.items():
            self._jobs.put(job)
        self._start()
        yield from self._finished(None if patience_s is None else monotonic() + patience_s)

    def close(self) -> None:
        """End the threads once they are idle.  One that hangs in a catalog's call does not keep the process alive."""
        for _ in range(self._begun):
            self._jobs.put(None)

    def _finished(self, until: float | None) -> Iterator[Done[T]]:
        while self.since:
            try:
                done = self._done.get(timeout=None if until is None else max(0.0, until - monotonic()))
            except Empty:
                return
            del self.since[done.name]
            yield done

    def _start(self) -> None:
        for _ in range(min(self._threads, len(self.since)) - self._begun):
            self._begun += 1
            threading.Thread(target=self._run, name=f"mirror-commits-{self._begun}", daemon=True).start()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._done.put(_outcome(*job))


def _outcome(name: str, work: Callable[[], T]) -> Done[T]:
    try:
        return Done(name, work())
    except Exception as error:  # the caller raises it, once the other tables are committed
        return Done(name, error=error)
