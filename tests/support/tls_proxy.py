"""TLS in front of a service that has none, as a load balancer or a sidecar puts it there."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import ssl
import threading
from pathlib import Path
from typing import Any, Self

from tests.support.certificates import Certificate

_LOCALHOST = "127.0.0.1"


class TlsProxy:
    """``with TlsProxy(server.address, certificate) as proxy:`` then use ``https://{proxy.address}``.

    With ``clients``, the file of an authority, only clients with a certificate that it signed are served.
    """

    def __init__(self, upstream: str, server: Certificate, clients: Path | None = None) -> None:
        host, _, port = upstream.rpartition(":")
        self._upstream = (host, int(port))
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(server.cert, server.key)
        if clients is not None:
            self._tls.verify_mode = ssl.CERT_REQUIRED
            self._tls.load_verify_locations(clients)
        self._server = socketserver.ThreadingTCPServer((_LOCALHOST, 0), self._serve)  # type: ignore[arg-type]
        self._server.daemon_threads = True
        self.address = f"{_LOCALHOST}:{self._server.server_address[1]}"
        self.served = 0
        """Connections that were let in."""

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, raw: socket.socket, *_: Any) -> None:
        """One connection, in a thread of its own."""
        with contextlib.suppress(OSError):  # ssl's errors are OSErrors, too
            client = self._tls.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
            try:
                client.do_handshake()
            except ssl.SSLError:
                _end_kindly(client)
                return
            self.served += 1
            with client, socket.create_connection(self._upstream) as server:
                threading.Thread(target=_pump, args=(server, client), daemon=True).start()
                _pump(client, server)


def _end_kindly(refused: ssl.SSLSocket) -> None:
    """What a client has sent is read, or the reset would overtake the alert that says why it is refused."""
    with socket.socket(fileno=refused.detach()) as raw:
        raw.shutdown(socket.SHUT_WR)
        raw.settimeout(2)
        while raw.recv(65_536):
            pass


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
