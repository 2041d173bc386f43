"""The connection pool under the official client: nothing is sent twice, and a success is a success.

Rules:
- No retry of any kind: whoever sends a statement again must know that it may already have been done.
- A 2xx answer counts only when it is ClickHouse's own and holds no error: an exception that the server wrote into the
  body, after it had announced success, is made an error again.  502 and 504 come from a gateway that got no answer.
- A request may take as long to be sent as its answer may take to come.  urllib3 alone would bound the sending by the
  time to *connect*, so that a slow server would look like a lost one.
"""

from __future__ import annotations

import re
from typing import Any

from clickhouse_connect.driver.httputil import get_pool_manager_options
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    MaxRetryError,
    NewConnectionError,
    ProtocolError,
    SSLError,
)
from urllib3.response import BaseHTTPResponse

from chsink.errors import tls

EXCEPTION_CODE = "X-ClickHouse-Exception-Code"
GATEWAY_WITHOUT_ANSWER = (502, 504)
CONNECTIONS = 16
_POOL_OR_CONNECTION = re.compile(r"^\w+\(host=[^)]*\): ")
_ERROR_TEXT = re.compile(rb"\bCode: (\d+)\. DB::")


class ForeignAnswerError(HTTPError):
    """Something answered that is not ClickHouse: what became of the statement is not known."""


class CheckedPool(PoolManager):
    """A pool whose responses were checked."""

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> BaseHTTPResponse:
        """As in urllib3.  Raises :class:`ForeignAnswerError` besides its errors."""
        response = super().request(method, url, *args, **kwargs)
        if EXCEPTION_CODE not in response.headers:
            _check(response, read=kwargs.get("preload_content", True))
        return response


def _check(response: BaseHTTPResponse, *, read: bool) -> None:
    """Set the header of an exception that stands in the body; refuse what is not ClickHouse's."""
    if response.status in GATEWAY_WITHOUT_ANSWER:
        response.close()
        raise ForeignAnswerError(f"a gateway got no answer (HTTP status {response.status})")
    found = _ERROR_TEXT.search(response.data) if read or response.status >= 300 else None
    if found:
        response.headers[EXCEPTION_CODE] = found[1].decode()
    elif response.status < 300 and not any(n.lower().startswith("x-clickhouse-") for n in response.headers):
        response.close()
        raise ForeignAnswerError(f"the answer does not come from ClickHouse (HTTP status {response.status})")


def open_pool(send_timeout_s: float, **files: Any) -> PoolManager:
    """A pool with the official client's socket options.  ``files``: ``ca_cert``, ``client_cert``, ``client_cert_key``
    and ``verify`` as it takes them.  Proxies named in the environment are not used.
    """

    class HttpPool(HTTPConnectionPool):
        ConnectionCls = _bounded(HTTPConnection, send_timeout_s)

    class HttpsPool(HTTPSConnectionPool):
        ConnectionCls = _bounded(HTTPSConnection, send_timeout_s)

    options = get_pool_manager_options(maxsize=CONNECTIONS, retries=0, **files)
    pool = CheckedPool(**options)
    pool.pool_classes_by_scheme = {"http": HttpPool, "https": HttpsPool}
    return pool


def _bounded(base: Any, send_timeout_s: float) -> Any:
    """A connection whose sending is bounded by a time of its own, not by the one for opening it."""

    class Bounded(base):  # type: ignore[misc]
        def connect(self) -> None:
            super().connect()
            assert self.sock is not None
            self.sock.settimeout(send_timeout_s)

        def request(self, *args: Any, **kwargs: Any) -> None:
            if self.sock is not None:
                self.timeout = send_timeout_s
            super().request(*args, **kwargs)

    return Bounded


def said(error: HTTPError) -> str:
    """What went wrong, without the address and the names of urllib3's classes around it."""
    reason = error.reason if isinstance(error, MaxRetryError) and error.reason is not None else error
    cause = reason.__cause__
    if isinstance(reason, NewConnectionError) and isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    if meant := tls.meaning(str(reason), "clickhouse.tls", "clickhouse.endpoints"):
        return meant
    if isinstance(reason, ProtocolError) and len(reason.args) == 2 and isinstance(reason.args[1], OSError):
        return reason.args[1].strerror or str(reason.args[1])
    return _POOL_OR_CONNECTION.sub("", str(reason))


def nothing_sent(error: HTTPError) -> bool:
    """Whether the connection was never made, so that the server cannot have seen the request."""
    reason: BaseException | None = error.reason if isinstance(error, MaxRetryError) else error
    if isinstance(reason, SSLError):
        return "CERTIFICATE_VERIFY_FAILED" in str(reason)
    return isinstance(reason, NewConnectionError | ConnectTimeoutError)
