"""One ClickHouse endpoint through the official client.  Each statement is sent once; three errors say what happened.

Rules:
- The error tells what is known, no more: :class:`ServerRefused` the server answered with an error, :class:`Unreachable`
  no connection was made, :class:`Unanswered` anything may have happened.  Deciding and sending again is the caller's.
- Of several replicas the next one is tried only when no connection could be made: a statement that may have reached one
  replica is never sent to another.
- The client is made at first use (it asks the server three questions) and kept: on executors, :func:`cached_client`
  holds one per process and endpoint, also across Spark's forks.
- Every statement carries ``WHOLE``: a read finds every row that the user may see, or fails, whatever the profile says.
- The wait for a response is bounded by ``send_receive_timeout_s``: progress headers, which would restart it, are off.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, Self, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from clickhouse_connect.driver.exceptions import DatabaseError, ProgrammingError, StreamFailureError
from clickhouse_connect.driver.external import ExternalData
from clickhouse_connect.driver.httpclient import HttpClient
from urllib3 import PoolManager, Timeout
from urllib3.exceptions import HTTPError

from chsink.clickhouse.transport import nothing_sent, open_pool, said
from chsink.errors.tls import unreadable
from chsink.notation.codes import SETTING_CONSTRAINT_VIOLATION
from chsink.ports import ResultRow, ServerRefused, Unanswered, Unreachable

T = TypeVar("T")
_INSERT, _FORMAT = "INSERT INTO ", " FORMAT "
_NEWEST = {"select_sequential_consistency": 1}
_LIMITED = ("distinct", "group_by", "join", "read", "result", "set", "sort", "timeout", "transfer")
"""What a profile may limit.  In a view, too, rows beyond the limit are an error."""
WHOLE: Mapping[str, str | int] = {
    **{f"{what}_overflow_mode": "throw" for what in _LIMITED},
    **{f"{what}_overflow_mode_leaf": "throw" for what in ("read", "timeout")},
    **dict.fromkeys(("limit", "offset", "final", "parallel_replicas_count", "parallel_replica_offset"), 0),
    **dict.fromkeys(("empty_result_for_aggregation_by_empty_set", "aggregate_functions_null_for_empty"), 0),
    **dict.fromkeys(("use_query_cache", "prefer_column_name_to_alias"), 0),
    "max_parallel_replicas": 1,
    "additional_table_filters": "{}",
    "additional_result_filter": "",
    "apply_deleted_mask": 1,
}
"""With another value, rows would be hidden silently, answers be old, deleted rows be there, or questions be refused."""
_WHOLE_WHERE_KNOWN = {"apply_patch_parts": 1}

# Each attempt that fails would add "Unexpected Http Driver Exception": executors print warnings, and ours says why.
logging.getLogger("clickhouse_connect").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach one shard: ``urls`` are its replicas (``http[s]://host[:port]``), tried in order.

    The files are PEM, None for the system's certificates and no client's.  ``compression`` is of what is inserted.
    ``send_receive_timeout_s`` bounds the sending of a statement, and then again the wait for its answer.  ``newest``: a
    replica of a Shared table reads what its Keeper knows before it answers.  Hashable and
    picklable, so that executors can be given it; the password is not in its repr.
    """

    urls: tuple[str, ...]
    user: str = "default"
    password: str = field(default="", repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    compression: Literal["none", "lz4", "zstd"] = "lz4"
    connect_timeout_s: float = 10
    send_receive_timeout_s: float = 120
    newest: bool = False

    def __post_init__(self) -> None:
        assert self.urls and self.connect_timeout_s > 0 and self.send_receive_timeout_s > 0, self


@dataclass(frozen=True, slots=True)
class ExternalTable:
    """A table that travels with a SELECT: ``structure`` as in CREATE TABLE, ``data`` an Arrow IPC stream."""

    name: str
    structure: str
    data: bytes


class ClickHouseClient:
    """:class:`chsink.ports.SqlClient` over one endpoint; ``url`` is the replica in use.  Threads may share it."""

    def __init__(self, endpoint: Connection) -> None:
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._replica = 0
        self._open: tuple[HttpClient, PoolManager] | None = None
        self._others: dict[Connection, Self] = {}
        self.url = endpoint.urls[0]

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[ResultRow]:
        """Rows of a SELECT; see :class:`chsink.ports.SqlClient`."""
        bound = dict(parameters) if parameters else None
        return self._send(lambda client: [tuple(row) for row in client.query(sql, parameters=bound).result_rows])

    def fetch(
        self,
        sql: str,
        parameters: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
        attached: ExternalTable | None = None,
    ) -> bytes:
        """The whole answer of a SELECT that names its format.  ``attached`` lives as long as the statement."""
        tables = None
        if attached is not None:
            tables = ExternalData(
                data=attached.data, file_name=attached.name, fmt="ArrowStream", structure=attached.structure
            )
        return self._send(
            lambda client: client.raw_query(
                sql, parameters=dict(parameters or {}), settings=dict(settings or {}), external_data=tables
            )
        )

    def command(self, sql: str, settings: Mapping[str, object] | None = None) -> None:
        """A statement without a result."""
        self._send(lambda client: client.command(sql, settings=dict(settings or {})))

    def insert(self, sql: str, body: pa.Buffer, settings: Mapping[str, object], url: str) -> None:
        """One INSERT of the form ``INSERT INTO target FORMAT name`` whose data is ``body``, compressed on the way."""
        target, separator, form = sql.removeprefix(_INSERT).rpartition(_FORMAT)
        assert sql.startswith(_INSERT) and separator, sql
        name = self._endpoint.compression
        # A view of memory, unlike bytes, is something the official client never sends a second time.
        data = memoryview(body if name == "none" else pa.Codec(name).compress(body))
        compression = None if name == "none" else name
        self._send(
            lambda client: client.raw_insert(
                target,
                insert_block=data,  # type: ignore[arg-type]
                fmt=form,
                settings=dict(settings),
                compression=compression,
            ),
            url,
        )

    def each_replica(self) -> Sequence[Self]:
        """See :class:`chsink.ports.Replicas`.  They are closed with this one."""
        urls = self._endpoint.urls
        return [self] if len(urls) == 1 else [self._other(replace(self._endpoint, urls=(url,))) for url in urls]

    def newest(self) -> Self:
        """See :class:`chsink.ports.Replicas`.  It is closed with this one."""
        return self._other(replace(self._endpoint, newest=True))

    def once(self) -> Self:
        """See :class:`chsink.ports.Replicas`."""
        return self

    def _other(self, endpoint: Connection) -> Self:
        with self._lock:
            return self._others.setdefault(endpoint, type(self)(endpoint))

    def close(self) -> None:
        """Release the connections; the next statement would open new ones."""
        with self._lock:
            self._close()
            for other in self._others.values():
                other.close()

    def _send(self, act: Callable[[HttpClient], T], only: str | None = None) -> T:
        """Run against the replica in use; move on to the next one as long as no connection can be made.  With ``only``,
        the statement goes to the replica at this URL, or to none.
        """
        for remaining in reversed(range(len(self._endpoint.urls))):
            replica = self._replica
            try:
                client = self._connected(only)
                with _translated(self.url):
                    return act(client)
            except Unreachable:
                self._leave(replica)
                if only is not None or not remaining:
                    raise
        raise AssertionError("an endpoint has a replica")

    def _connected(self, only: str | None) -> HttpClient:
        with self._lock:
            if only not in (None, self.url):
                raise Unanswered(f"{only}: {self.url} has taken its place since")
            if self._open is None:
                self._open = _connect(self._endpoint, self.url)
            return self._open[0]

    def _leave(self, replica: int) -> None:
        """Use the next replica, unless another thread already left this one."""
        with self._lock:
            if self._replica == replica:
                self._close()
                self._replica = (replica + 1) % len(self._endpoint.urls)
                self.url = self._endpoint.urls[self._replica]

    def _close(self) -> None:
        if self._open is not None:
            client, pool = self._open
            self._open = None
            client.close()
            pool.clear()


def _connect(endpoint: Connection, url: str) -> tuple[HttpClient, PoolManager]:
    """A client of one replica.  Raises Unreachable when it does not answer: nothing of a statement was sent yet."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    named = {"ca_file": endpoint.ca_file, "cert_file": endpoint.cert_file, "key_file": endpoint.key_file}
    if secure and (wrong := unreadable({f"clickhouse.tls.{key}": file for key, file in named.items()})):
        raise Unreachable(f"{url}: {wrong}")
    tls = {
        "ca_cert": endpoint.ca_file,
        "client_cert": endpoint.cert_file,
        "client_cert_key": endpoint.key_file,
        "verify": endpoint.verify,
    }
    pool = open_pool(endpoint.send_receive_timeout_s, **(tls if secure else {}))
    try:
        with _translated(url):
            client = HttpClient(
                interface=parts.scheme,
                host=parts.hostname or "localhost",
                port=parts.port or (8443 if secure else 8123),
                username=endpoint.user,
                password=endpoint.password,
                database=None,
                client_cert=endpoint.cert_file if secure else None,
                tls_mode="strict" if secure and endpoint.cert_file else None,
                query_retries=0,
                connect_timeout=max(1, round(endpoint.connect_timeout_s)),
                send_receive_timeout=max(1, round(endpoint.send_receive_timeout_s)),
                client_name="chsink",
                settings={"send_progress_in_http_headers": 0, **WHOLE, **(_NEWEST if endpoint.newest else {})},
                pool_mgr=pool,
                autogenerate_session_id=False,
                proxy_path=parts.path.strip("/"),
            )
            for name in _WHOLE_WHERE_KNOWN.keys() & client.server_settings.keys():
                client.set_client_setting(name, _WHOLE_WHERE_KNOWN[name])
    except (Unanswered, ServerRefused) as error:
        pool.clear()
        if isinstance(error, ServerRefused):
            raise
        raise Unreachable(str(error)) from error
    client.http_retries = 0
    client.timeout = Timeout(connect=endpoint.connect_timeout_s, read=endpoint.send_receive_timeout_s)
    return client, pool


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """Turn the official client's errors into the three of ``chsink.ports``."""
    try:
        yield
    except ProgrammingError as error:  # the client itself refused a setting that this user may not change
        raise ServerRefused(SETTING_CONSTRAINT_VIOLATION, str(error), url) from error
    except DatabaseError as error:
        cause = error.__cause__
        if isinstance(cause, HTTPError):
            kind = Unreachable if nothing_sent(cause) else Unanswered
            raise kind(f"{url}: {said(cause)}") from error
        if isinstance(error, StreamFailureError) and error.code is None:
            raise Unanswered(f"{url}: {error}") from error
        raise ServerRefused(error.code, str(error), url) from error
    except HTTPError as error:
        raise Unanswered(f"{url}: {said(error)}") from error


_cache: dict[Connection, ClickHouseClient] = {}
_cache_lock = threading.Lock()


def cached_client(endpoint: Connection) -> ClickHouseClient:
    """The process's client of this endpoint.  Whoever uses it does not close it."""
    with _cache_lock:
        return _cache.setdefault(endpoint, ClickHouseClient(endpoint))


def _after_fork() -> None:
    """A forked process must not share sockets, nor a lock that was held, with its parent."""
    global _cache_lock  # noqa: PLW0603 - the child of a fork needs a lock that nobody holds
    _cache_lock = threading.Lock()
    _cache.clear()


os.register_at_fork(after_in_child=_after_fork)
