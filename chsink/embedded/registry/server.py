"""The registry's HTTP server.  ``python -m chsink.embedded.registry.server PORT FILE`` runs it until it is ended."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from chsink.embedded.base.ports import HOST
from chsink.embedded.registry.schemas import RegistryAnswer, StoredSchemas

_JSON: Final = "application/vnd.schemaregistry.v1+json"


class RegistryServer(ThreadingHTTPServer):
    """Serves ``schemas`` on 127.0.0.1."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, schemas: StoredSchemas) -> None:
        super().__init__((HOST, port), _Handler)
        self.schemas = schemas

    def answer(self, method: str, handler: BaseHTTPRequestHandler, body: bytes) -> RegistryAnswer:
        """The answer to a request."""
        return self.schemas.answer(method, handler.path, body)


class _Handler(BaseHTTPRequestHandler):
    """One request for each connection (HTTP 1.0), so that a server that ends leaves none open."""

    server: RegistryServer

    def do_GET(self) -> None:
        self._reply("GET")

    def do_POST(self) -> None:
        self._reply("POST")

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a client that waits would fill the disk."""

    def _reply(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, value = self.server.answer(method, self, body)
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", _JSON)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


if __name__ == "__main__":
    RegistryServer(int(sys.argv[1]), StoredSchemas(Path(sys.argv[2]))).serve_forever()
