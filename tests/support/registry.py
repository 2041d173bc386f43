"""The local Schema Registry, as tests need it: with a login, with failures, and with a list of what was asked.

Confluent's client and serializers talk to it.  ``down`` refuses connections; afterwards, port and schemas are the same
as before.
"""

from __future__ import annotations

import base64
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

from chsink.embedded.base.ports import free_port
from chsink.embedded.registry import RegistryServer, StoredSchemas
from chsink.embedded.registry.schemas import RegistryAnswer


@dataclass
class RegistryService:
    """Use as a context manager; ``url`` is where it listens then.

    Requests need ``login`` (``user:password``) or ``token``.  If ``broken`` is not 0, every request below the path
    ``where`` gets this status.
    """

    login: str = ""
    token: str = ""
    broken: int = 0
    where: str = "/"
    asked: list[str] = field(default_factory=list)
    known: StoredSchemas = field(default_factory=StoredSchemas)
    port: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def schemas(self) -> dict[int, dict[str, Any]]:
        return self.known.schemas

    @property
    def subjects(self) -> dict[str, list[int]]:
        return self.known.subjects

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, *args: object) -> None:
        self.down()

    def up(self) -> None:
        self._server = _Server(self)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(RegistryServer):
    def __init__(self, service: RegistryService) -> None:
        super().__init__(service.port, service.known)
        self.service = service

    def answer(self, method: str, handler: BaseHTTPRequestHandler, body: bytes) -> RegistryAnswer:
        service = self.service
        path = handler.path.partition("?")[0]
        service.asked.append(path)
        basic = "Basic " + base64.b64encode(service.login.encode()).decode()
        wanted = basic if service.login else f"Bearer {service.token}" if service.token else ""
        if wanted and handler.headers.get("Authorization") != wanted:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if service.broken and path.startswith(service.where):
            return service.broken, {"error_code": 50001, "message": "Error in the backend data store"}
        return super().answer(method, handler, body)
