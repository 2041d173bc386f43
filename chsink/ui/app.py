"""The page's requests.  All are GET, but for the form that takes the token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from typing import Final
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from chsink.ui.access import COOKIE, LOGIN, Access, Guard
from chsink.ui.board import Board, PageEnded, Watcher

PING_S: Final = 15.0
"""A comment after this time without a frame: proxies close connections that are silent."""
LOOK_S: Final = 60.0
"""How long a program that asks once waits for a look."""
PAUSE_S: Final = 1.0
"""After a wrong token, so that nobody tries many."""
FORM_BYTES: Final = 4_096
ASSETS: Final = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
STATIC: Final = files("chsink.ui") / "static"


def application(board: Board, access: Access) -> Starlette:
    """The application; ``board`` makes what it shows."""
    page = Page(board, access)
    routes = [
        Route("/", page.index),
        Route("/status.json", page.status),
        Route("/events", page.events),
        *(Route(f"/{name}", _asset(name, kind)) for name, kind in ASSETS.items()),
    ]
    if access.token is not None:
        routes.append(Route(LOGIN, page.login, methods=["GET", "POST"]))
    return Starlette(routes=routes, middleware=[Middleware(Guard, access=access)])


def frame(document: str) -> str:
    """One server-sent event.  ``document`` is JSON of ASCII on one line."""
    assert "\n" not in document and document.isascii()
    return f"event: status\ndata: {document}\n\n"


class Page:
    """The endpoints."""

    def __init__(self, board: Board, access: Access) -> None:
        self._board = board
        self._access = access

    async def index(self, _request: Request) -> Response:
        """The page, without data: its script asks for them."""
        return HTMLResponse(_text("page.html"))

    async def status(self, request: Request) -> Response:
        """What the page shows, once, for a program."""
        if request.method == "HEAD":
            return JSONResponse(None)
        watcher = self._board.watch()
        if watcher is None:
            return _busy()
        try:
            document = await watcher.next(LOOK_S)
        except PageEnded:
            document = None
        finally:
            self._board.leave(watcher)
        if document is None:
            return PlainTextResponse("No answer yet. Try again.\n", 503)
        return Response(document, media_type="application/json")

    async def events(self, request: Request) -> Response:
        """A frame now, and one after each look."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        watcher = self._board.watch()
        if watcher is None:
            return _busy()
        return StreamingResponse(self._frames(watcher), media_type="text/event-stream")

    async def _frames(self, watcher: Watcher) -> AsyncIterator[str]:
        try:
            yield "retry: 3000\n\n"
            while True:
                document = await watcher.next(PING_S)
                yield ": still here\n\n" if document is None else frame(document)
        except PageEnded:
            return
        finally:
            self._board.leave(watcher)

    async def login(self, request: Request) -> Response:
        """The form; and, for the right token, the cookie."""
        if request.method != "POST":
            return HTMLResponse(_text("login.html"))
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > FORM_BYTES:
                return PlainTextResponse("Too long.\n", 413)
        given = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]
        if not self._access.is_token(given):
            await asyncio.sleep(PAUSE_S)
            wrong = _text("login.html").replace("<!-- wrong -->", '<p role="alert">This is not the token.</p>')
            return HTMLResponse(wrong, 401)
        response = RedirectResponse("/", 303)
        response.set_cookie(COOKIE, self._access.session, httponly=True, samesite="strict")
        return response


def _asset(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def asset(_request: Request) -> Response:
        return Response(_text(name), media_type=kind)

    return asset


def _text(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def _busy() -> Response:
    return PlainTextResponse("Too many pages are open. Close some.\n", 503)
