"""Processes that outlive the one that started them, and how to recognize them when another process has got the pid.

A pid alone names nothing: the system gives it again.  A pid with the moment its process started, in this boot of the
machine, names one process for good.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from chsink.errors import local

_POLL_S: Final = 0.05
_KILL_LIMIT_S: Final = 10.0
_STATE, _STARTED = 0, 19  # positions in /proc/PID/stat after the command's closing bracket


@dataclass(frozen=True, slots=True)
class OwnedProcess:
    """One process, by its pid and its birth."""

    pid: int
    born: str

    @classmethod
    def of(cls, pid: int) -> Self:
        """The process that has this pid now; raises CHS-905 when there is none."""
        born = _born(pid)
        if born is None:
            raise local.PROCESS_ENDED(pid=pid)
        return cls(pid, born)

    @property
    def running(self) -> bool:
        return _born(self.pid) == self.born

    def end(self, limit_s: float) -> None:
        """SIGTERM, and SIGKILL when that has not ended it within the limit; nothing for a process that is gone."""
        for signal_number, wait_s in ((signal.SIGTERM, limit_s), (signal.SIGKILL, _KILL_LIMIT_S)):
            self._send(signal_number)
            deadline = time.monotonic() + wait_s
            while self.running and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            if not self.running:
                return
        raise local.PROCESS_SURVIVES(pid=self.pid)

    def _send(self, signal_number: signal.Signals) -> None:
        """Signal this process and no other: on Linux through a handle, which cannot come to mean a later process."""
        try:
            if sys.platform != "linux":
                if self.running:
                    os.kill(self.pid, signal_number)
                return
            handle = os.pidfd_open(self.pid)
            try:
                if self.running:
                    signal.pidfd_send_signal(handle, signal_number)
            finally:
                os.close(handle)
        except ProcessLookupError:
            return


def _born(pid: int) -> str | None:
    """When the process with this pid started, in words that no other process of this pid shares; None without one."""
    return _born_by_proc(pid) if sys.platform == "linux" else _born_by_ps(pid)


def _born_by_proc(pid: int) -> str | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # A zombie has ended; only its parent has not asked yet.
    return None if fields[_STATE] in "ZX" else f"{_boot_id()}/{fields[_STARTED]}"


def _born_by_ps(pid: int) -> str | None:
    done = subprocess.run(["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = done.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
