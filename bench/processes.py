"""CPU seconds and peak memory of a process and its descendants, read from /proc."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

TICK = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Usage:
    """CPU seconds spent and peak resident MiB since the watch began, by kind of process."""

    cpu_s: dict[str, float] = field(default_factory=dict)
    peak_mib: dict[str, float] = field(default_factory=dict)


class Watch:
    """``with Watch({"clickhouse": pid, …}) as w:`` samples until the end; ``w.usage`` then holds the sums.

    The driver's own descendants are told apart by name: the JVM, and Spark's Python workers.
    """

    def __init__(self, named: dict[str, int]) -> None:
        self.usage = Usage()
        self._named = named
        self._began: dict[int, float] = {}
        self._last: dict[int, tuple[str, float]] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        for pid, _kind in self._pids():
            self._began[pid] = _cpu_s(pid) or 0.0
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._sample()
        for pid, (kind, cpu) in self._last.items():
            self.usage.cpu_s[kind] = self.usage.cpu_s.get(kind, 0.0) + cpu - self._began.get(pid, 0.0)

    def _run(self) -> None:
        while not self._done.wait(0.1):
            self._sample()

    def _sample(self) -> None:
        for pid, kind in self._pids():
            cpu, rss = _cpu_s(pid), _rss_mib(pid)
            if cpu is None:
                continue
            self._last[pid] = (kind, cpu)
            self.usage.peak_mib[kind] = max(self.usage.peak_mib.get(kind, 0.0), rss)

    def _pids(self) -> list[tuple[int, str]]:
        found = [(pid, kind) for kind, pid in self._named.items()]
        children: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and (parent := _parent(int(entry.name))) is not None:
                children.setdefault(parent, []).append(int(entry.name))
        pending = [os.getpid()]
        known = set(self._named.values())
        while pending:
            for child in children.get(pending.pop(), []):
                if child not in known:
                    pending.append(child)
                    found.append((child, "jvm" if _name(child) == "java" else "python workers"))
        return found


def _stat(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None


def _parent(pid: int) -> int | None:
    stat = _stat(pid)
    return None if stat is None else int(stat[1])


def _cpu_s(pid: int) -> float | None:
    stat = _stat(pid)
    return None if stat is None else (int(stat[11]) + int(stat[12])) / TICK


def _rss_mib(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
