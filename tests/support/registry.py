"""A Schema Registry for tests: a real HTTP service that Confluent's client and serializers talk to.

It serves the part of the registry's API that they use: register, look up, by id, by subject and version, versions;
references; error codes; a login.  ``down`` refuses connections; afterwards, port and schemas are the same as before.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from chsink.embedded.ports import free_port

JSON = "application/vnd.schemaregistry.v1+json"
NO_SUBJECT, NO_VERSION, NO_SCHEMA = 40401, 40402, 40403


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
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    port: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, *args: object) -> None:
        self.down()

    def up(self) -> None:
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(ready,), daemon=True)
        self._thread.start()
        assert ready.wait(10)

    def down(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _serve(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application(middlewares=[self._guard])
        app.router.add_post("/subjects/{subject}/versions", self._register)
        app.router.add_post("/subjects/{subject}", self._look_up)
        app.router.add_get("/subjects/{subject}/versions", self._versions)
        app.router.add_get("/subjects/{subject}/versions/{version}", self._version)
        app.router.add_get("/schemas/ids/{id}", self._by_id)
        runner = web.AppRunner(app, access_log=None)
        self._loop.run_until_complete(runner.setup())
        self._loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", self.port, reuse_address=True).start())
        ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.asked.append(request.path)
        basic = "Basic " + base64.b64encode(self.login.encode()).decode()
        wanted = basic if self.login else f"Bearer {self.token}" if self.token else ""
        if wanted and request.headers.get("Authorization") != wanted:
            return _answer({"error_code": 401, "message": "Unauthorized"}, 401)
        if self.broken and request.path.startswith(self.where):
            return _answer({"error_code": 50001, "message": "Error in the backend data store"}, self.broken)
        return await handler(request)

    async def _register(self, request: web.Request) -> web.Response:
        schema = _kept(await request.json())
        found = next((one for one, known in self.schemas.items() if known == schema), len(self.schemas) + 1)
        self.schemas[found] = schema
        versions = self.subjects.setdefault(request.match_info["subject"], [])
        if found not in versions:
            versions.append(found)
        return _answer({"id": found})

    async def _look_up(self, request: web.Request) -> web.Response:
        subject, schema = request.match_info["subject"], _kept(await request.json())
        for version, one in enumerate(self.subjects.get(subject, []), 1):
            if self.schemas[one] == schema:
                return _answer({"subject": subject, "version": version, "id": one, **schema})
        code = NO_SCHEMA if subject in self.subjects else NO_SUBJECT
        return _answer({"error_code": code, "message": "not found"}, 404)

    async def _versions(self, request: web.Request) -> web.Response:
        known = self.subjects.get(request.match_info["subject"])
        if known is None:
            return _answer({"error_code": NO_SUBJECT, "message": "Subject not found."}, 404)
        return _answer(list(range(1, len(known) + 1)))

    async def _version(self, request: web.Request) -> web.Response:
        subject, given = request.match_info["subject"], request.match_info["version"]
        known = self.subjects.get(subject)
        if known is None:
            return _answer({"error_code": NO_SUBJECT, "message": "Subject not found."}, 404)
        version = len(known) if given in ("latest", "-1") else int(given)
        if not 1 <= version <= len(known):
            return _answer({"error_code": NO_VERSION, "message": "Version not found."}, 404)
        one = known[version - 1]
        return _answer({"subject": subject, "version": version, "id": one, **self.schemas[one]})

    async def _by_id(self, request: web.Request) -> web.Response:
        schema = self.schemas.get(int(request.match_info["id"]))
        if schema is None:
            return _answer({"error_code": NO_SCHEMA, "message": "Schema not found"}, 404)
        return _answer(schema)


def _kept(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a schema that a registry keeps.  The type is Avro unless the schema names another."""
    kept = {name: given[name] for name in ("schema", "schemaType", "references") if given.get(name)}
    if kept.get("schemaType") == "AVRO":
        del kept["schemaType"]
    return kept


def _answer(body: Any, status: int = 200) -> web.Response:
    return web.Response(text=json.dumps(body), status=status, content_type=JSON)
