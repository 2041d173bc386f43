"""A proxy that reads HTTP: drops, cuts, delays, or answers in the server's place."""

from __future__ import annotations

import http.client
import os
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote_plus, urlsplit

LOCALHOST = "127.0.0.1"
HOP_BY_HOP = frozenset(("connection", "keep-alive", "transfer-encoding", "content-length", "host", "expect"))
ERROR_IN_BODY = b"Code: 241. DB::Exception: Memory limit (total) exceeded. (MEMORY_LIMIT_EXCEEDED)\n"


class HttpFault(StrEnum):
    """What may happen to a request."""

    DROP_REQUEST = "drop request"
    """The connection is reset; the server never gets the request."""
    DROP_ANSWER = "drop answer"
    """The server carries out the request; the connection is reset in place of its answer."""
    DELAY = "delay"
    """Passed on after ``delay_s``."""
    DELAY_ANSWER = "delay answer"
    """The server carries out the request; its answer comes after ``delay_s``."""
    TWICE = "twice"
    """The server gets the request two times, one after the other; the client gets the second answer."""
    CUT_REQUEST = "cut request"
    """The server gets the headers and half of the body."""
    CUT_ANSWER = "cut answer"
    """The client gets the headers and half of the answer's body, or half of the headers where there is no body."""
    STATUS_429 = "status 429"
    STATUS_503 = "status 503"
    """The proxy answers; the server never gets the request."""
    LATE_500 = "status 500 after it"
    LATE_502 = "status 502 after it"
    LATE_503 = "status 503 after it"
    LATE_504 = "status 504 after it"
    """The server carries out the request; the client gets this status without a body."""
    ERROR_IN_BODY = "error in body"
    """The server never gets the request; the answer is ClickHouse's 200 with an exception in its body."""


@dataclass(slots=True)
class _Injected:
    fault: HttpFault
    match: bytes
    left: int
    delay_s: float


LATE = {fault: int(fault.name[-3:]) for fault in HttpFault if fault.name.startswith("LATE_")}


class HttpProxy:
    """``with HttpProxy(server.url) as proxy:`` then use ``proxy.url``.  Faults are taken in the order injected."""

    def refusal(self, path: str, headers: Message, body: bytes) -> tuple[int, bytes] | None:
        """Status and body of an answer in place of the server's; None lets the request pass.  For subclasses."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        assert parts.hostname and parts.port, upstream
        self.upstream = (parts.hostname, parts.port)
        self.fired: Counter[HttpFault] = Counter()
        self.requests = 0
        self.before_late: Callable[[], object] = lambda: None
        """Called when the server has carried out a request, before its client gets a late status."""
        self._faults: list[_Injected] = []
        self._lock = threading.Lock()
        self._away = False
        self._server = self._listening(0)
        self.url = f"http://{LOCALHOST}:{self._server.server_address[1]}"

    def inject(self, fault: HttpFault, *, match: str = "", times: int = 1, delay_s: float = 0) -> None:
        """Apply ``fault`` to the next ``times`` requests whose URL or body (as sent) contains ``match``."""
        with self._lock:
            self._faults.append(_Injected(fault, match.encode(), times, delay_s))

    def leave(self) -> None:
        """Refuse connections, and reset those that are open, until :meth:`heal`: as if its machine were gone."""
        self._away = True
        self._end()

    def heal(self) -> None:
        """Forget faults that have not fired, and come back."""
        with self._lock:
            self._faults.clear()
        if self._away:
            self._away = False
            self._server = self._listening(self._server.server_address[1])
            self._serve()

    def take(self, text: bytes) -> _Injected | None:
        """The fault for this request, counted."""
        if self._away:
            return _Injected(HttpFault.DROP_REQUEST, b"", 0, 0)
        with self._lock:
            self.requests += 1
            for injected in self._faults:
                if injected.left > 0 and injected.match in text:
                    injected.left -= 1
                    self.fired[injected.fault] += 1
                    return injected
        return None

    def __enter__(self) -> Self:
        self._serve()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        if not self._away:
            self._end()

    def _listening(self, port: int | str) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer((LOCALHOST, int(port)), _HttpHandler)
        server.daemon_threads = True
        server.proxy = self  # type: ignore[attr-defined]
        return server

    def _serve(self) -> None:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def _end(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _HttpHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self._body()
        proxy: HttpProxy = self.server.proxy  # type: ignore[attr-defined]
        if refusal := proxy.refusal(self.path, self.headers, body):
            self._answer(refusal[0], {"Content-Type": "application/json"}, refusal[1])
            return
        injected = proxy.take(unquote_plus(self.path).encode() + b"\n" + body)
        fault = None if injected is None else injected.fault
        delay_s = 0 if injected is None else injected.delay_s
        match fault:
            case HttpFault.DROP_REQUEST:
                self._reset()
            case HttpFault.CUT_REQUEST:
                self._send_half(proxy.upstream, body)
                self._reset()
            case HttpFault.STATUS_429 | HttpFault.STATUS_503:
                self._answer(429 if fault is HttpFault.STATUS_429 else 503, {}, b"busy\n")
            case HttpFault.ERROR_IN_BODY:
                self._answer(200, {"X-ClickHouse-Query-Id": "proxy"}, ERROR_IN_BODY)
            case _:
                if fault is HttpFault.DELAY:
                    time.sleep(delay_s)
                if fault is HttpFault.TWICE:
                    self._forward(proxy.upstream, body)
                status, headers, answer = self._forward(proxy.upstream, body)
                if fault is HttpFault.DELAY_ANSWER:
                    time.sleep(delay_s)
                if fault is HttpFault.DROP_ANSWER:
                    self._reset()
                elif fault in LATE:
                    proxy.before_late()
                    self._answer(LATE[fault], {}, b"")
                else:
                    self._answer(status, headers, answer, cut=fault is HttpFault.CUT_ANSWER)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST  # noqa: N815 - names that http.server calls

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _passed_on(self) -> dict[str, str]:
        return {k: v for k, v in self.headers.items() if k.lower() not in HOP_BY_HOP}

    def _forward(self, upstream: tuple[str, int], body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(*upstream, timeout=120)
        try:
            connection.request(self.command, self.path, body or None, self._passed_on())
            response = connection.getresponse()
            answer = response.read()
            headers = {k: v for k, v in response.getheaders() if k.lower() not in HOP_BY_HOP}
            return response.status, headers, answer
        finally:
            connection.close()

    def _send_half(self, upstream: tuple[str, int], body: bytes) -> None:
        connection = http.client.HTTPConnection(*upstream, timeout=120)
        connection.putrequest(self.command, self.path)
        for name, value in (self._passed_on() | {"Content-Length": str(len(body))}).items():
            connection.putheader(name, value)
        connection.endheaders(body[: len(body) // 2])
        connection.close()

    def _answer(self, status: int, headers: dict[str, str], body: bytes, *, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if cut and not body:
            self.flush_headers()
            self._reset()
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.wfile.flush()
            time.sleep(0.05)
            self._reset()

    def _reset(self) -> None:
        """Close with a TCP reset, as a crashed peer or a broken network does."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())
