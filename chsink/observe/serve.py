"""Serves a job's metrics and its answers to probes, in a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import structlog
from prometheus_client import CollectorRegistry, make_wsgi_app

from chsink.errors import preflight
from chsink.observe.probes import Probes

TIMEOUT_S: Final = 10.0
"""How long a client may be silent before its connection is closed."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = TIMEOUT_S

    def log_message(self, *_: Any) -> None:
        """Log no request."""


@contextmanager
def served(
    registry: CollectorRegistry,
    probes: Probes,
    host: str,
    port: int | None,
    log: structlog.typing.FilteringBoundLogger,
) -> Iterator[int | None]:
    """Serve ``/metrics``, ``/healthz`` and ``/readyz`` on this address until the block ends; port 0 takes a free one,
    None serves nothing.

    Yields the port.  Raises PreflightError CHS-235 if it cannot be opened.
    """
    if port is None:
        yield None
        return
    try:
        kind = _Server6 if ":" in host else _Server
        server = make_server(host, port, _application(registry, probes), kind, _Handler)
    except OSError as error:
        raise preflight.METRICS_PORT(host=host, port=port, reason=error.strerror or error) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        log.info("metrics", host=host, port=server.server_port)
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _application(registry: CollectorRegistry, probes: Probes) -> Callable[..., Iterable[bytes]]:
    metrics, answers = make_wsgi_app(registry), {"/healthz": probes.alive, "/readyz": probes.ready}

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        answer = answers.get(environ["PATH_INFO"])
        if answer is None:
            found: Iterable[bytes] = metrics(environ, start_response)
            return found
        said = answer()
        status = "200 OK" if said.good else "503 Service Unavailable"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{said.text}\n".encode()]

    return application
