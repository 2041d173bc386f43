"""HTTP sessions: engine connections that outlive a request, by user and session id.

A request's own settings and database hold for that request, also inside a session: what they replaced is noted before and put
back after.  One session serves one request at a time (373); it ends when it was idle for its timeout.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from chsink.embedded.clickhouse.call import SessionWish
from chsink.embedded.clickhouse.engine import Connection, Engine, identifier, literal
from chsink.embedded.clickhouse.exceptions import SESSION_IS_LOCKED, SESSION_NOT_FOUND, refused
from chsink.embedded.clickhouse.users import ClickHouseUser


@dataclass(slots=True)
class Lease:
    """A connection for one request.  ``kept`` says that it belongs to a session; ``release`` must be called."""

    connection: Connection
    kept: bool
    _release: Callable[[], None]
    _undo: list[Callable[[], None]] = field(default_factory=list)

    def before_release(self, undo: Callable[[], None]) -> None:
        """Do something before the session is free for its next request; the last one added is done first."""
        self._undo.append(undo)

    def release(self) -> None:
        """Give the connection back; nothing to do the second time."""
        release, self._release = self._release, _nothing
        undo, self._undo = self._undo, []
        try:
            for step in reversed(undo):
                step()
        finally:
            release()


@dataclass(slots=True)
class _Session:
    connection: Connection
    busy: bool
    timeout_s: int
    idle_since: float


class Sessions:
    """All sessions of the front."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, str], _Session] = {}

    def lease(self, user: ClickHouseUser, wish: SessionWish | None) -> tuple[Lease, bool]:
        """A connection and whether it is new; raises ClickHouseException 372 and 373."""
        if wish is None:
            connection = self._engine.open()
            return Lease(connection, False, connection.close), True
        key = (user.name, wish.id)
        with self._lock:
            session = self._sessions.get(key)
            if session is not None and session.busy:
                raise refused(SESSION_IS_LOCKED, f"Session {wish.id} is locked by a concurrent client")
            if session is None and wish.must_exist:
                raise refused(SESSION_NOT_FOUND, f"Session {wish.id} not found")
            new = session is None
            if session is None:
                session = _Session(self._engine.open(), True, wish.timeout_s, self._clock())
                self._sessions[key] = session
            session.busy = True
            session.timeout_s = wish.timeout_s
        return Lease(session.connection, True, lambda: self._free(key, close=wish.close)), new

    def _free(self, key: tuple[str, str], *, close: bool) -> None:
        with self._lock:
            session = self._sessions[key]
            session.busy = False
            session.idle_since = self._clock()
            if close:
                del self._sessions[key]
        if close:
            session.connection.close()

    def expire(self, *, everything: bool = False) -> None:
        """Close sessions that were idle for their timeout, or all that are idle."""
        now = self._clock()
        with self._lock:
            ended = [
                key
                for key, session in self._sessions.items()
                if not session.busy and (everything or now - session.idle_since >= session.timeout_s)
            ]
            connections = [self._sessions.pop(key).connection for key in ended]
        for connection in connections:
            connection.close()


def restore_later(lease: Lease, settings: Iterable[str], *, database: bool) -> None:
    """Note the session's settings and database, to be put back before the lease is released."""
    names = sorted(settings)
    connection = lease.connection
    if database:
        current = connection.run("SELECT currentDatabase()", "RawBLOB").data.decode("utf-8", "surrogateescape")
        lease.before_release(lambda: _use(connection, current))
    if names:
        among = ", ".join(literal(name) for name in names)
        rows = connection.run(
            f"SELECT name, value FROM system.settings WHERE changed AND name IN ({among})", "JSONCompactEachRow"
        ).data
        before = dict(json.loads(line) for line in rows.splitlines())
        lease.before_release(lambda: _put_back(connection, names, before))


def _put_back(connection: Connection, names: list[str], before: dict[str, str]) -> None:
    connection.reset(name for name in names if name not in before)
    connection.assign(before)


def _use(connection: Connection, database: str) -> None:
    connection.run(f"USE {identifier(database)}")


def _nothing() -> None:
    return
