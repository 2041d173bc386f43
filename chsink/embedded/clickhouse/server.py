"""The HTTP front: ClickHouse's HTTP interface in front of the engine of this process.

Rules:

- The event loop only moves bytes; every statement runs on a worker thread, so a long one delays no other.
- Headers and body of a complete answer leave in one write.
- An error before the first byte of an answer has its status and code; one after it is appended to the body between the
  answer's exception tags, and the connection is closed without the end of the body, as the server does it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import string
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Final, TypeVar

from aiohttp import hdrs, web

from chsink.embedded.clickhouse import call as calls
from chsink.embedded.clickhouse import codecs
from chsink.embedded.clickhouse.blocks import BlockEncoder
from chsink.embedded.clickhouse.engine import Counts, Engine
from chsink.embedded.clickhouse.exceptions import UNKNOWN_EXCEPTION, ClickHouseException, refused
from chsink.embedded.clickhouse.origin import refuse_foreign
from chsink.embedded.clickhouse.run import Answer, Runner
from chsink.embedded.clickhouse.users import Users

_THREADS: Final = 128
_EXPIRE_S: Final = 1.0
_MAX_URI_BYTES: Final = 1 << 20
_MAX_BODY_BYTES: Final = 1 << 40
_READ_BUFFER_BYTES: Final = 1 << 21
_OK: Final = "Ok.\n"
_NAMES: Final = ("Query-Id", "Summary", "Server-Display-Name", "Format", "Timezone", "Exception-Code", "Exception-Tag")
_EXPOSED: Final = ",".join(f"X-ClickHouse-{name}" for name in _NAMES)
_CONTENT_TYPES: Final = {
    "tab": "text/tab-separated-values; charset=UTF-8",
    "tsv": "text/tab-separated-values; charset=UTF-8",
    "csv": "text/csv; charset=UTF-8; header=absent",
    "json": "application/json; charset=UTF-8",
    "xml": "application/xml; charset=UTF-8",
    "nat": "application/octet-stream",
    "row": "application/octet-stream",
    "arr": "application/octet-stream",
    "par": "application/octet-stream",
}
_log: Final = logging.getLogger(__name__)
_T = TypeVar("_T")


class Front:
    """The request handlers over one engine."""

    def __init__(self, engine: Engine, users: Users, display_name: str) -> None:
        self._engine = engine
        self._users = users
        self._display_name = display_name
        self._runner = Runner(engine)
        self._threads = ThreadPoolExecutor(_THREADS, "statement")

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_get("/ping", self._alive)
        app.router.add_get("/replicas_status", self._alive)
        app.router.add_route("*", "/", self._query)
        app.router.add_route("*", "/{other:.*}", self._unknown)
        app.cleanup_ctx.append(self._upkeep)
        return app

    async def _upkeep(self, _: web.Application) -> AsyncIterator[None]:
        """Expire sessions while the front runs; end them all with it."""

        async def expire() -> None:
            while True:
                await asyncio.sleep(_EXPIRE_S)
                await self._in_thread(self._runner.sessions.expire)

        task = asyncio.create_task(expire())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        # Requests had their time to end; what still runs would hold the engine's end up.
        self._engine.kill_all()
        self._threads.shutdown()
        self._runner.sessions.expire(everything=True)

    async def _alive(self, _: web.Request) -> web.Response:
        return web.Response(text=_OK, headers=self._headers("", None))

    async def _unknown(self, request: web.Request) -> web.Response:
        text = f"There is no handle {request.path}\n\nUse / or /ping for health checks.\n"
        return web.Response(status=HTTPStatus.NOT_FOUND, text=text)

    async def _query(self, request: web.Request) -> web.StreamResponse:
        query_id = request.query.get("query_id", "")
        try:
            refuse_foreign(request)
            call = await calls.read(request, self._users)
            if not call.query and not call.body and call.read_only:
                return web.Response(text=_OK)
            query_id = call.query_id
            answer = await self._in_thread(lambda: self._runner.run(call))
        except ClickHouseException as error:
            return self._error(error, query_id)
        except OSError as error:
            # The client is gone, or its body ended early: nothing of it reached the engine.
            _log.info("request %s was not received in full: %s", query_id, error)
            return self._error(refused(UNKNOWN_EXCEPTION, "The request was not received in full"), query_id)
        except Exception as error:
            _log.exception("request %s failed in the front", query_id)
            return self._error(refused(UNKNOWN_EXCEPTION, f"The front failed: {error!r}"), query_id)
        return await self._send(request, call, answer)

    async def _send(self, request: web.Request, call: calls.Call, answer: Answer) -> web.StreamResponse:
        headers = self._headers(call.query_id, answer.format)
        headers["X-ClickHouse-Summary"] = _summary(answer.counts)
        headers["X-ClickHouse-Timezone"] = call.settings.get("session_timezone") or self._engine.timezone
        encoder: codecs.Encoder | None = BlockEncoder() if call.wants_blocks else None
        chosen = None if encoder else codecs.encoder_for(call.accept_encoding)
        if chosen is not None and (answer.rest is not None or any(answer.blocks)):
            headers[hdrs.CONTENT_ENCODING], encoder = chosen
        if answer.rest is not None:
            return await self._stream(request, answer, headers, encoder)
        body = b"".join(answer.blocks)
        if encoder is not None:
            plain, compress = body, encoder
            body = await self._in_thread(lambda: compress.compress(plain) + compress.flush())
        return web.Response(body=body, headers=headers)

    async def _stream(
        self, request: web.Request, answer: Answer, headers: dict[str, str], encoder: codecs.Encoder | None
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=headers)
        response.enable_chunked_encoding()
        try:
            await response.prepare(request)
            for block in answer.blocks:
                await response.write(encoder.compress(block) if encoder else block)
            failure: ClickHouseException | None = None
            try:
                while block := await self._in_thread(answer.fetch):
                    await response.write(encoder.compress(block) if encoder else block)
            except ClickHouseException as error:
                failure = error
            # Before the answer ends: a client that has seen its end may use the session again.
            await self._in_thread(answer.close)
            if failure is not None:
                tail = _tagged(failure.body(self._engine.version), headers["X-ClickHouse-Exception-Tag"])
                await response.write(encoder.compress(tail) + encoder.flush() if encoder else tail)
                return _cut(request, response)
            await response.write_eof(encoder.flush() if encoder else b"")
        except OSError:
            _log.info("the client left while a result was sent to it")
        finally:
            await self._in_thread(answer.close)
        return response

    def _error(self, error: ClickHouseException, query_id: str) -> web.Response:
        headers = self._headers(query_id, None)
        headers["X-ClickHouse-Exception-Code"] = str(error.code)
        headers["X-ClickHouse-Summary"] = _summary(Counts())
        return web.Response(status=error.status, body=error.body(self._engine.version), headers=headers)

    def _headers(self, query_id: str, format_name: str | None) -> dict[str, str]:
        content_type = _CONTENT_TYPES.get((format_name or "")[:3].lower())
        if format_name and format_name.lower().startswith("json"):
            lines = "eachrow" in format_name.lower()
            content_type = f"application/{'x-ndjson' if lines else 'json'}; charset=UTF-8"
        headers = {
            hdrs.CONTENT_TYPE: content_type or "text/plain; charset=UTF-8",
            "Access-Control-Expose-Headers": _EXPOSED,
            "X-ClickHouse-Server-Display-Name": self._display_name,
            "X-ClickHouse-Timezone": self._engine.timezone,
            "X-ClickHouse-Exception-Tag": "".join(secrets.choice(string.ascii_lowercase) for _ in range(16)),
        }
        if query_id:
            headers["X-ClickHouse-Query-Id"] = query_id
        if format_name:
            headers["X-ClickHouse-Format"] = format_name
        return headers

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _summary(counts: Counts) -> str:
    return json.dumps(
        {
            "read_rows": str(counts.read_rows),
            "read_bytes": str(counts.read_bytes),
            "written_rows": str(counts.written_rows),
            "written_bytes": str(counts.written_bytes),
            "result_rows": str(counts.result_rows),
            "result_bytes": str(counts.result_bytes),
            "elapsed_ns": str(counts.elapsed_ns),
        },
        separators=(",", ":"),
    )


def _tagged(text: bytes, tag: str) -> bytes:
    """An exception inside a body: between markers that only this answer knows."""
    mark = tag.encode()
    return b"\r\n__exception__\r\n%b\r\n%b%d %b\r\n__exception__\r\n" % (mark, text, len(text), mark)


def _cut(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Close the connection without the last chunk: a client that knows no tags sees that the result is incomplete."""
    response.force_close()
    if request.transport is not None:
        request.transport.close()
    return response


async def serve(front: Front, address: tuple[str, int], ready: Callable[[int], None], stop: asyncio.Event) -> None:
    """Serve on ``(host, port)`` until ``stop``; calls ``ready`` with the port when clients are served."""
    runner = web.AppRunner(
        front.application(),
        access_log=None,
        auto_decompress=False,
        keepalive_timeout=3600.0,
        max_line_size=_MAX_URI_BYTES,
        max_field_size=_MAX_URI_BYTES,
        read_bufsize=_READ_BUFFER_BYTES,
        shutdown_timeout=5.0,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, *address)
        await site.start()
        ready(runner.addresses[0][1])
        await stop.wait()
    finally:
        await runner.cleanup()
