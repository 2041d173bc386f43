"""One thread looks for all watchers, and only while there are any."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest
import structlog

from chsink.ui.board import WATCHERS, Board, PageEnded


class Looking:
    """Counts looks, as frames."""

    def __init__(self, fail: int = 0) -> None:
        self.looks = 0
        self.rests = 0
        self.threads: set[int] = set()
        self.fail = fail

    def look(self) -> str:
        self.looks += 1
        self.threads.add(threading.get_ident())
        if self.looks == self.fail:
            raise ValueError("on purpose")
        return str(self.looks)

    def rest(self) -> None:
        self.rests += 1


def board(looking: Looking, interval_s: float = 0.05) -> Board:
    return Board(looking.look, looking.rest, interval_s, structlog.get_logger())


def until(true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 5
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.005)


def test_nobody_looks_while_nobody_watches() -> None:
    looking = Looking()
    shown = board(looking)

    async def watch() -> None:
        watcher = shown.watch()
        assert watcher is not None
        await watcher.next(5)
        await watcher.next(5)
        shown.leave(watcher)

    time.sleep(0.1)
    assert looking.looks == 0
    asyncio.run(watch())
    until(lambda: looking.rests == 1)
    seen = looking.looks
    time.sleep(0.2)
    assert looking.looks == seen >= 2
    asyncio.run(watch())
    assert looking.looks > seen
    shown.end()


def test_one_look_serves_all_and_a_late_one_gets_the_last_at_once() -> None:
    looking = Looking()
    shown = board(looking, interval_s=30)

    async def watch() -> list[str | None]:
        watchers = [shown.watch() for _ in range(5)]
        frames = [await w.next(5) for w in watchers if w]
        late = shown.watch()
        assert late is not None
        return [*frames, await late.next(5)]

    assert asyncio.run(watch()) == ["1"] * 6
    assert looking.looks == len(looking.threads) == 1
    shown.end()


def test_a_slow_watcher_gets_the_newest_only() -> None:
    looking = Looking()
    shown = board(looking, interval_s=0.01)

    async def watch() -> str | None:
        watcher = shown.watch()
        assert watcher is not None
        await watcher.next(5)
        await asyncio.to_thread(until, lambda: looking.looks > 10)
        return await watcher.next(5)

    newest = asyncio.run(watch())
    assert newest is not None and int(newest) >= 9
    shown.end()


def test_silence_is_none_and_the_end_comes_after_the_last_frame() -> None:
    looking = Looking()
    shown = board(looking, interval_s=30)

    async def watch() -> None:
        watcher = shown.watch()
        assert watcher is not None
        assert await watcher.next(5) == "1"
        assert await watcher.next(0.01) is None
        shown.end("last")
        assert await watcher.next(5) == "last"
        with pytest.raises(PageEnded):
            await watcher.next(5)
        after = shown.watch()
        assert after is not None
        assert await after.next(5) == "1"
        with pytest.raises(PageEnded):
            await after.next(5)

    asyncio.run(watch())
    shown.join(5)
    assert looking.rests == 1


def test_there_are_not_too_many() -> None:
    shown = board(Looking())

    async def watch() -> None:
        assert all(shown.watch() for _ in range(WATCHERS))
        assert shown.watch() is None

    asyncio.run(watch())
    shown.end()


def test_a_look_that_fails_is_not_the_last() -> None:
    looking = Looking(fail=1)
    shown = board(looking)

    async def watch() -> str | None:
        watcher = shown.watch()
        assert watcher is not None
        return await watcher.next(5)

    assert asyncio.run(watch()) == "2"
    shown.end()
