"""The development stack of ``chsink dev up|status|down``: services that stay when the command ends.

``up`` writes what it started into ``dev.json`` in the stack's folder: each process by pid and birth, so that ``down``
never ends a stranger.  Data and ports are kept from one ``up`` to the next.  One command at a time works on a folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from chsink.embedded.base.owned import OwnedProcess
from chsink.embedded.base.ports import is_free
from chsink.embedded.stack import Stack
from chsink.errors import local

_STATE_FILE: Final = "dev.json"
_LOCK_FILE: Final = "dev.lock"
CHECKPOINT: Final = "checkpoint"
"""Where the example job's checkpoint lies in a stack's folder: it ends with the stack's data."""
_STOP_LIMIT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class DevService:
    """One service as it was started: ``name`` is ``kafka``, ``zookeeper``, ``clickhouse-N`` or ``registry``."""

    name: str
    host: str
    port: int
    log: str
    process: OwnedProcess

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def running(self) -> bool:
        return self.process.running


@dataclass(frozen=True, slots=True)
class DevStack:
    """What ``up`` started in a folder, in the order of the start; empty where nothing was."""

    services: tuple[DevService, ...] = ()

    @property
    def running(self) -> bool:
        """Whether all of it runs."""
        return bool(self.services) and all(service.running for service in self.services)

    @property
    def kafka(self) -> str:
        """``bootstrap.servers``."""
        return self._named("kafka")[0].address

    @property
    def zookeeper(self) -> str:
        return self._named("zookeeper")[0].address

    @property
    def clickhouse(self) -> list[str]:
        """``host:port`` of each server's HTTP interface."""
        return [service.address for service in self._named("clickhouse")]

    @property
    def registry(self) -> str:
        """``schema_registry.url``; "" in a stack of a chsink that started none."""
        return "".join(f"http://{service.address}" for service in self._named("registry"))

    def _named(self, kind: str) -> list[DevService]:
        return [service for service in self.services if service.name.split("-")[0] == kind]


def dev_up(root: Path | str, clickhouse: int = 2) -> DevStack:
    """Start the stack in ``root``, or return the one that runs there; data and ports of an earlier one are used again.

    A stack of which only a part runs is ended and started whole.  Raises CHS-904 when a service
    does not start (the others are ended) and CHS-906 when another command works on the folder.
    """
    root = Path(root).resolve()
    with _one_command(root):
        before = _load(root)
        if before.running:
            return before
        _end(before)
        ports = {service.name: service.port for service in before.services if is_free(service.port)}
        stack = Stack(root, clickhouse, registry=True, ports=ports, detach=True).start()
        now = DevStack(
            tuple(
                DevService(member.path.name, member.host, member.port, str(member.log), OwnedProcess.of(member.pid))
                for member in stack.members
            )
        )
        _save(root, now)
        return now


def dev_status(root: Path | str) -> DevStack:
    """What was started in ``root``; ask each service whether it is ``running``."""
    return _load(Path(root).resolve())


def dev_down(root: Path | str, *, delete: bool = False) -> DevStack:
    """End what ``dev_up`` started in ``root`` and return it; ``delete`` removes its data too.

    Nothing happens where nothing runs.  A process that has ended, and a stranger with its pid, is left alone.
    """
    root = Path(root).resolve()
    if not root.is_dir():
        return DevStack()
    with _one_command(root):
        stack = _load(root)
        _end(stack)
        if delete and stack.services:
            for service in stack.services:
                shutil.rmtree(root / service.name, ignore_errors=True)
            shutil.rmtree(root / CHECKPOINT, ignore_errors=True)
            (root / _STATE_FILE).unlink()
        return stack


def _end(stack: DevStack) -> None:
    """In the reverse order of the start: a server of ClickHouse says goodbye to a living ZooKeeper."""
    for service in reversed(stack.services):
        service.process.end(_STOP_LIMIT_S)


@contextlib.contextmanager
def _one_command(root: Path) -> Iterator[None]:
    root.mkdir(parents=True, exist_ok=True)
    with (root / _LOCK_FILE).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise local.DEV_FOLDER_IN_USE(path=root) from None
        yield


def _load(root: Path) -> DevStack:
    path = root / _STATE_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=DevStack)
    except FileNotFoundError:
        return DevStack()
    except msgspec.DecodeError as error:
        raise local.DEV_FOLDER_FOREIGN(path=path, reason=error) from error


def _save(root: Path, stack: DevStack) -> None:
    """Whole or not at all."""
    scratch = root / f"{_STATE_FILE}.new"
    scratch.write_bytes(msgspec.json.format(msgspec.json.encode(stack)))
    scratch.replace(root / _STATE_FILE)
