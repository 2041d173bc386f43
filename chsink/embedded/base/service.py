"""What the local services have in common: a folder, a process, a moment when it is ready, an end.

A service keeps its data and its ports over ``restart`` and over ``kill`` followed by ``start``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from chsink.embedded.base.ports import HOST, free_port, is_free
from chsink.embedded.base.process import Process
from chsink.errors import local as errors


class Service(ABC):
    """One local service in ``path``; a subclass says how it is configured, started and asked whether it is ready."""

    host: Final = HOST

    def __init__(
        self, name: str, path: Path | str, port: int, *, detach: bool, start_limit_s: float, stop_limit_s: float
    ) -> None:
        self.name = name
        self.path = Path(path).resolve()
        self._port = port or free_port()
        self._detach = detach
        self._start_limit_s = start_limit_s
        self._stop_limit_s = stop_limit_s
        self._process: Process | None = None

    @property
    def port(self) -> int:
        """The port clients connect to; the same for the object's life."""
        return self._port

    @property
    def address(self) -> str:
        """Where a client connects."""
        return local(self.port)

    @abstractmethod
    def _prepare(self) -> Sequence[str]:
        """Make the folder ready and return the command; called before each start."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether clients are served now; called until true, must not wait long."""

    def _environment(self) -> Mapping[str, str]:
        """Variables of the process besides our own."""
        return {}

    @property
    def log(self) -> Path:
        """The file that takes what the process prints."""
        return self.path / f"{self.name}.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    @property
    def pid(self) -> int:
        """The process's id; raises CHS-905 when it does not run."""
        if self._process is None or not self._process.running:
            raise errors.SERVICE_NOT_RUNNING(service=self.name, path=self.path)
        return self._process.pid

    def start(self) -> Self:
        """Start and wait until clients are served; nothing to do when it runs.  Raises CHS-904 with the log's end."""
        if self.running:
            return self
        self.path.mkdir(parents=True, exist_ok=True)
        if not is_free(self.port):
            # Asking "is it ready?" would be answered by whoever holds the port.
            raise errors.PORT_TAKEN(service=self.name, port=self.port)
        argv = self._prepare()
        process = Process(self.name, argv, log=self.log, env=self._environment(), detach=self._detach)
        self._process = process
        try:
            process.wait_ready(self._is_ready, self._start_limit_s)
        except BaseException:
            process.kill()
            raise
        return self

    def stop(self) -> None:
        """End it in order, bounded; may be called twice."""
        if self._process is not None:
            self._process.stop(self._stop_limit_s)

    def kill(self) -> None:
        """SIGKILL it; data and ports are kept for the next start."""
        if self._process is not None:
            self._process.kill()

    def restart(self) -> Self:
        """Stop in order and start on the same data and ports."""
        self.stop()
        return self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.running else "not running"
        return f"<{type(self).__name__} {self.address} in {self.path}, {state}>"


def local(port: int) -> str:
    """``host:port`` of a port on this machine."""
    return f"{HOST}:{port}"
