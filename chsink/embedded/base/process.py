"""One child process of ours: started with a log, awaited with a bound, ended by its own pid, never left behind.

Rules:

- A child leads a session of its own: Ctrl-C on a terminal reaches us, and we end our children in order.
- Unless detached, the kernel kills the child when we die, however we die (Linux).  It does so when the *thread* that
  started the child ends, so all children are started by one thread that lives as long as this process.
- A child is waited for only through its own handle: a pid is never guessed, and a reaped pid never signalled.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from chsink.errors import ChsinkError, local

_POLL_S: Final = 0.03
_KILL_LIMIT_S: Final = 10.0
_TAIL_BYTES: Final = 16_384
_TAIL_LINES: Final = 25
_PR_SET_PDEATHSIG: Final = 1

# Held for as long as this process lives: dropping the handle of a running child is reported as a mistake.
_detached: list[subprocess.Popen[bytes]] = []


class Process:
    """A running or ended child.

    ``log`` takes its standard output and error, appended.  A detached child outlives this process.
    """

    def __init__(
        self, name: str, argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None, detach: bool = False
    ) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log_start = log.stat().st_size if log.exists() else 0
        self._popen = _starter(os.getpid()).submit(_start, argv, log, env or {}, detach, os.getpid()).result()
        if detach:
            _detached.append(self._popen)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def wait_ready(self, is_ready: Callable[[], bool], limit_s: float) -> None:
        """Return when ``is_ready()`` is true; otherwise kill the child and raise CHS-904 with the end of its log."""
        deadline = time.monotonic() + limit_s
        while not is_ready():
            if not self.running:
                raise self._failure(f"ended with exit code {self._popen.returncode} while it started")
            if time.monotonic() > deadline:
                self.kill()
                raise self._failure(f"was not ready within {limit_s:g} s")
            time.sleep(_POLL_S)

    def stop(self, limit_s: float) -> None:
        """Ask it to end (SIGTERM); kill it when it has not within the limit.  Nothing to do for an ended child."""
        if not self.running:
            return
        self._popen.terminate()
        try:
            self._popen.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once (SIGKILL), whether or not it is suspended."""
        if not self.running:
            return
        self._popen.kill()
        try:
            self._popen.wait(_KILL_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise self._failure(f"(pid {self.pid}) did not end {_KILL_LIMIT_S:g} s after SIGKILL") from error

    def _log_tail(self) -> str:
        """The last lines this child (not one before it) wrote."""
        with self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_start, size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-_TAIL_LINES:])

    def _failure(self, what: str) -> ChsinkError:
        tail = self._log_tail() or "(it wrote nothing)"
        return local.PROCESS_NOT_READY(service=self.name, what=what, tail=tail, log=self.log)


def _start(
    argv: Sequence[str], log: Path, env: Mapping[str, str], detach: bool, parent: int
) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **env},
            start_new_session=True,
            # It makes two system calls and takes no lock, so other threads cannot make it wait.
            preexec_fn=None if detach else _death_with(parent),  # noqa: PLW1509
        )


@functools.cache
def _starter(pid: int) -> ThreadPoolExecutor:
    """The thread that starts children; one for each process, since a fork does not copy threads."""
    return ThreadPoolExecutor(1, f"chsink-starter-{pid}")


def _death_with(parent: int) -> Callable[[], None] | None:
    """What a child does before its program runs, so that it dies with ``parent``; None where the system cannot."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return tie
