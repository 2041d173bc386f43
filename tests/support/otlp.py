"""A receiver of OpenTelemetry's protocol over HTTP, as a collector is one: it keeps the spans that it is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class Received:
    """One span.  ``parent`` is empty for the first of a trace; times are in ns, ``failed`` is its status."""

    trace: str
    id: str
    parent: str
    name: str
    start: int
    end: int
    attributes: dict[str, Any]
    failed: bool
    service: str


@dataclass
class Receiver:
    """What came, over all requests.  ``raw`` are the bodies as they came."""

    url: str = ""
    raw: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def spans(self) -> list[Received]:
        """In the order of their starts."""
        return sorted((span for body in self.raw for span in _spans(body)), key=lambda span: (span.start, span.end))

    def traces(self) -> list[list[Received]]:
        """The spans of each trace."""
        by_trace: dict[str, list[Received]] = {}
        for span in self.spans():
            by_trace.setdefault(span.trace, []).append(span)
        return list(by_trace.values())


def _spans(body: bytes) -> Iterator[Received]:
    for of_service in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _values(of_service.resource.attributes)["service.name"]
        for scope in of_service.scope_spans:
            for span in scope.spans:
                yield Received(
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.name,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    _values(span.attributes),
                    span.status.code == 2,
                    service,
                )


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Listens on a free port of 127.0.0.1."""
    received = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.paths.append(self.path)
            received.raw.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
