"""A proxy for any TCP service, mainly ZooKeeper, that cuts, pauses or partitions connections, or loses an answer."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections import Counter
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from tests.support.http_proxy import LOCALHOST


class TcpFault(StrEnum):
    """What may happen to a connection."""

    CUT = "cut"
    PAUSE = "pause"
    PARTITION = "partition"
    DROP_ANSWER = "drop answer"
    WITHHOLD = "withhold"


class TcpProxy:
    """``with TcpProxy(zookeeper.hosts) as proxy:`` then use ``proxy.hosts``.  Faults last until ``heal``."""

    def __init__(self, upstream: str) -> None:
        host, _, port = upstream.rpartition(":")
        self.upstream = (host, int(port))
        self.fired: Counter[TcpFault] = Counter()
        self._lock = threading.Lock()
        self._flowing = threading.Event()
        self._flowing.set()
        self._partitioned = False
        self._dropped_match: bytes | None = None
        self._withheld: bytes | None = None
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._server = socketserver.ThreadingTCPServer((LOCALHOST, 0), self._serve)  # type: ignore[arg-type]
        self._server.daemon_threads = True
        # A paused connection holds little, so that its sender notices.
        self._server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self.hosts = f"{LOCALHOST}:{self._server.server_address[1]}"

    def cut(self) -> None:
        """Close all connections; new ones are served."""
        with self._lock:
            pairs = list(self._pairs)
            self.fired[TcpFault.CUT] += len(pairs)
        for pair in pairs:
            _close(pair)

    def pause(self) -> None:
        """Hold all bytes, lose none, until :meth:`heal`."""
        self._flowing.clear()

    def partition(self) -> None:
        """Lose all bytes, without closing anything, until :meth:`heal`; then old connections are closed."""
        self._partitioned = True

    def drop_answer(self, match: bytes) -> None:
        """Pass the next request that contains ``match``, lose its answer and close the connection."""
        self._dropped_match = match

    def withhold(self, match: bytes) -> None:
        """Lose all requests that contain ``match``, until :meth:`heal`."""
        self._withheld = match

    def heal(self) -> None:
        """End pause and partition; lose no more requests."""
        if self._partitioned:
            self._partitioned = False
            self.cut()
        self._dropped_match = self._withheld = None
        self._flowing.set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.heal()
        self.cut()

    def _serve(self, client: Any, *_: Any) -> None:
        """One connection, in a thread of its own."""
        try:
            server = socket.create_connection(self.upstream, timeout=10)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        pair = (client, server)
        doomed = threading.Event()
        with self._lock:
            self._pairs.add(pair)
        back = threading.Thread(target=self._pump, args=(server, client, pair, doomed, False), daemon=True)
        back.start()
        self._pump(client, server, pair, doomed, True)
        back.join()
        with self._lock:
            self._pairs.discard(pair)
        for end in pair:
            end.close()

    def _pump(
        self,
        source: socket.socket,
        target: socket.socket,
        pair: tuple[socket.socket, socket.socket],
        doomed: threading.Event,
        requests: bool,
    ) -> None:
        try:
            while data := source.recv(65536):
                if not self._flowing.is_set():
                    self.fired[TcpFault.PAUSE] += 1
                    self._flowing.wait()
                if self._partitioned:
                    self.fired[TcpFault.PARTITION] += 1
                elif requests and self._withheld and self._withheld in data:
                    self.fired[TcpFault.WITHHOLD] += 1
                elif not requests and doomed.is_set():
                    self.fired[TcpFault.DROP_ANSWER] += 1
                    break
                else:
                    if requests and self._dropped_match and self._dropped_match in data:
                        self._dropped_match = None
                        doomed.set()
                    target.sendall(data)
        except OSError:
            pass
        _close(pair)


def _close(pair: tuple[socket.socket, socket.socket]) -> None:
    """End both connections, and wake the threads that read from them."""
    for end in pair:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
