"""HTTP sessions: engine connections that outlive a request, by user and session id.

A request's own settings and database hold for that request, also inside a session: what they replaced is noted before
and put back after.  One session serves one request at a time (373); it ends when it was idle for its timeout.
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
    user: ClickHouseUser
    kept: bool
    _release: Callable[[bool], None]
    _undo: list[Callable[[], None]] = field(default_factory=list)

    def before_release(self, undo: Callable[[], None]) -> None:
        """Do something before the session is free for its next request; the last one added is done first."""
        self._undo.append(undo)

    def release(self) -> None:
        """Give the connection back; nothing to do the second time.  A session that cannot be put in order ends."""
        release, self._release = self._release, _nothing
        undo, self._undo = self._undo, []
        in_order = False
        try:
            for step in reversed(undo):
                step()
            in_order = True
        finally:
            release(in_order)


@dataclass(slots=True)
class _Session:
    connection: Connection
    busy: bool
    timeout_s: int
    idle_since: float


class Sessions:
    """All sessions of the front."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, str], _Session] = {}

    def lease(self, user: ClickHouseUser, wish: SessionWish | None) -> Lease:
        """A connection with the user's rights; raises ClickHouseException 372 and 373."""
        if wish is None:
            connection = self._open(user)
            return Lease(connection, user, False, lambda _: connection.close())
        key = (user.name, wish.id)
        with self._lock:
            session = self._sessions.get(key)
            if session is not None and session.busy:
                raise refused(SESSION_IS_LOCKED, f"Session {wish.id} is locked by a concurrent client")
            if session is None and wish.must_exist:
                raise refused(SESSION_NOT_FOUND, f"Session {wish.id} not found")
            if session is None:
                session = _Session(self._open(user), True, wish.timeout_s, time.monotonic())
                self._sessions[key] = session
            session.busy = True
            session.timeout_s = wish.timeout_s
        return Lease(session.connection, user, True, lambda in_order: self._free(key, close=wish.close or not in_order))

    def _open(self, user: ClickHouseUser) -> Connection:
        connection = self._engine.open()
        try:
            if user.limited:
                connection.run(f"SET ROLE {identifier(user.role)}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _free(self, key: tuple[str, str], *, close: bool) -> None:
        with self._lock:
            session = self._sessions[key]
            session.busy = False
            session.idle_since = time.monotonic()
            if close:
                del self._sessions[key]
        if close:
            session.connection.close()

    def expire(self, *, everything: bool = False) -> None:
        """Close sessions that were idle for their timeout, or all that are idle."""
        now = time.monotonic()
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
        lease.before_release(lambda: _use(lease, current))
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


def _use(lease: Lease, database: str) -> None:
    """Switch back to a database, even if the user's own grants do not reach it."""
    if lease.user.limited:
        lease.connection.set_default_role()
    lease.connection.run(f"USE {identifier(database)}")
    if lease.user.limited:
        lease.connection.run(f"SET ROLE {identifier(lease.user.role)}")


def _nothing(_: bool) -> None:
    return
