"""CPU seconds and peak memory of a process, its descendants and named others, read from /proc.

Rules:
- Descendants of the watched root are told apart by their executable, not by their name: a child that the JVM has just
  forked bears another name while it still shares the JVM's memory, and would pass for an enormous worker.
- Memory is resident pages of one process, shared ones counted, and of several processes of one kind the largest; CPU is
  their sum.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SAMPLE_S = 0.2


@dataclass(slots=True)
class Usage:
    """CPU seconds spent and peak resident MiB since the watch began, by kind of process."""

    cpu_s: dict[str, float] = field(default_factory=dict)
    peak_mib: dict[str, float] = field(default_factory=dict)


class Watch:
    """``with Watch(pid, {"clickhouse": pid, …}) as w:`` samples until the end; ``w.usage`` then holds the figures."""

    def __init__(self, root: int, named: Mapping[str, int]) -> None:
        self.usage = Usage()
        self._root = root
        self._named = {"driver": root, **named}
        self._began: dict[int, float] = {}
        self._last: dict[int, tuple[str, float]] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._began = {pid: cpu_s(pid) or 0.0 for pid in self._pids()}
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._sample()
        for pid, (kind, cpu) in self._last.items():
            self.usage.cpu_s[kind] = self.usage.cpu_s.get(kind, 0.0) + cpu - self._began.get(pid, 0.0)

    def _run(self) -> None:
        while not self._done.wait(SAMPLE_S):
            self._sample()

    def _sample(self) -> None:
        for pid, kind in self._pids().items():
            cpu = cpu_s(pid)
            if cpu is None:
                continue
            self._last[pid] = (kind, cpu)
            self.usage.peak_mib[kind] = max(self.usage.peak_mib.get(kind, 0.0), _resident_mib(pid))

    def _pids(self) -> dict[int, str]:
        return {**{pid: kind for kind, pid in self._named.items()}, **_descendants(self._root)}


def resident(root: int) -> dict[str, float]:
    """Resident MiB now of the driver ``root`` and of its descendants, by kind; several of a kind together."""
    found: dict[str, float] = {}
    for pid, kind in {root: "driver", **_descendants(root)}.items():
        found[kind] = found.get(kind, 0.0) + _resident_mib(pid)
    return found


def _descendants(root: int) -> dict[int, str]:
    """Process ids and kinds."""
    found: dict[int, str] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _stat(int(entry.name))) is not None:
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    pending = [root]
    while pending:
        for child in children.get(pending.pop(), []):
            pending.append(child)
            found[child] = "worker" if _executable(child).startswith("python") else "jvm"
    return found


def _stat(pid: int) -> list[str] | None:
    """Fields of ``/proc/<pid>/stat`` behind the name: state, parent, …"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None


def cpu_s(pid: int) -> float | None:
    """User and system seconds of a process so far, None when it is gone."""
    stat = _stat(pid)
    return None if stat is None else (int(stat[11]) + int(stat[12])) / TICK


def _resident_mib(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 2**20
    except OSError:
        return 0.0


def _executable(pid: int) -> str:
    """The name of its file; "" when it is gone.  Helpers that the JVM starts (chmod, bash) go to the JVM's account."""
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""
