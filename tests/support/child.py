"""``chsink run`` as processes of their own: the driver, its JVM and its Python workers, in one session of the system.

Only processes of that session are ever signalled: they are found by the session id, which is the child's own pid.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.support.job import Job, until

START_LIMIT_S = 240.0
POLL_S = 0.05


class Child:
    """One run of the job, or another ``command``.  ``traps`` are failpoints; ``settings`` override the job's own."""

    def __init__(
        self,
        job: Job,
        *,
        command: Sequence[str] = ("run",),
        traps: str = "",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.job = job
        run = len(list(job.folder.glob("run-*.log")))
        self.log = job.folder / f"run-{run}.log"
        self._fired = job.folder / f"fired-{run}.log"
        chosen = {**job.settings, **(settings or {})}
        sets = [part for key, value in chosen.items() for part in ("--set", f"{key}={value}")]
        argv = [sys.executable, "-m", "chsink.cli.main", *command, "-c", str(job.file()), *sets]
        failpoints = {"CHSINK_FAILPOINTS": traps, "CHSINK_FAILPOINTS_LOG": str(self._fired)}
        environment = {**os.environ, **failpoints}
        with self.log.open("wb") as log:
            self._popen = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    @property
    def pid(self) -> int:
        """The driver's pid."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether the driver has not ended."""
        return self._popen.poll() is None

    @property
    def fired(self) -> list[tuple[str, str, int]]:
        """(failpoint, action, pid) so far."""
        lines = self._fired.read_text().splitlines() if self._fired.exists() else []
        return [(name, action, int(pid)) for name, action, pid in map(str.split, lines)]

    @property
    def said(self) -> str:
        """Everything that it has printed."""
        return self.log.read_text(errors="replace")

    def await_that(self, what: str, is_so: Callable[[], bool], limit_s: float = START_LIMIT_S) -> None:
        """Wait until ``is_so()``; AssertionError with the log's end if the job ends first or it takes too long."""
        deadline = time.monotonic() + limit_s
        for _ in until(is_so, POLL_S):
            assert self.running, f"ended with {self._popen.returncode} before {what}:\n{self.said[-3000:]}"
            assert time.monotonic() < deadline, f"no {what} within {limit_s} s:\n{self.said[-3000:]}"

    def await_fired(self, name: str, times: int = 1) -> list[int]:
        """Wait until ``times`` processes have reached a failpoint; returns their pids."""
        self.await_that(name, lambda: sum(f[0] == name for f in self.fired) >= times)
        return [pid for found, _, pid in self.fired if found == name]

    def end(self, limit_s: float = START_LIMIT_S) -> int:
        """Wait until it ends by itself; returns the exit code."""
        try:
            return self._popen.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {limit_s} s:\n{self.said[-3000:]}") from None

    def end_or_kill(self, limit_s: float, codes: Collection[int]) -> None:
        """Wait for one of these exit codes; after ``limit_s``, kill it: it may wait longer than that for a service."""
        try:
            assert self._popen.wait(limit_s) in codes, self.said[-3000:]
        except subprocess.TimeoutExpired:
            assert self.kill()

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to the driver alone."""
        self._popen.send_signal(number)

    def tell_all(self, number: signal.Signals) -> int:
        """Send a signal to every process of the job; returns how many."""
        pids = session_of(self.pid)
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        return len(pids)

    def kill(self) -> int:
        """SIGKILL the driver, its JVM and its workers; returns how many processes there were."""
        killed = 0
        while pids := self.tell_all(signal.SIGKILL):
            killed = max(killed, pids)
            self._popen.poll()
            time.sleep(POLL_S)
        self._popen.wait(10)
        return killed

    def workers(self) -> list[int]:
        """The Python workers, without the daemon that forks them."""
        python = {pid for pid in session_of(self.pid) if _is_python_of_spark(pid)}
        found = []
        for pid in python:
            with suppress(OSError):
                if parent_of(pid) in python:
                    found.append(pid)
        return found

    def kill_workers(self) -> int:
        """SIGKILL the Python workers alone; returns how many there were."""
        killed = 0
        for pid in self.workers():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        return killed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def _is_python_of_spark(pid: int) -> bool:
    with suppress(OSError):
        return b"spark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def session_of(leader: int) -> list[int]:
    """The living processes of the session that ``leader`` started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] not in "ZX":
                found.append(int(folder.name))
    return found


def parent_of(pid: int) -> int:
    """The parent's pid."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
