"""Who may see the page.

Rules:
- A page that only this machine can reach answers only if it is asked by a name of this machine: another name in
  ``Host`` means that a site in the browser had its own name resolve to 127.0.0.1 (DNS rebinding).
- With a token, each request proves that it knows it: by ``Authorization: Bearer``, or by the cookie that the form
  gives.  The cookie holds a secret of this process, not the token.  The token never stands in a URL.
- Answers load nothing from elsewhere, run no script but the page's own, are shown in no frame, and are not kept.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE: Final = "chsink_ui"
LOGIN: Final = "/login"
OPEN: Final = frozenset({LOGIN, "/page.css", "/icon.svg"})
"""What the form itself needs."""
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Access:
    """``hosts`` are the names by which the page may be asked, None for any; ``token`` is None if nobody needs one."""

    hosts: frozenset[str] | None
    token: str | None = field(default=None, repr=False)
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def is_named(self, host: str | None) -> bool:
        """Whether the request's ``Host`` may be used."""
        return self.hosts is None or (host is not None and _name(host) in self.hosts)

    def is_token(self, given: str) -> bool:
        """In constant time."""
        return self.token is not None and compare_digest(given.encode(), self.token.encode())

    def is_allowed(self, headers: Headers) -> bool:
        """Whether the request knows the token."""
        if self.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return True
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        return compare_digest(cookie.encode(), self.session.encode())


def _name(host: str) -> str:
    """The host without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")


class Guard:
    """Stands before the application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on; each answer gets the headers of the rules."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        assert scope["type"] == "http", scope["type"]
        await (self._refusal(scope) or self._app)(scope, receive, sending)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), scope["path"]
        if not self._access.is_named(headers.get("host")):
            return PlainTextResponse("Use a name of this machine: 127.0.0.1 or localhost.\n", 421)
        if path in OPEN or self._access.is_allowed(headers):
            return None
        if path == "/" and scope["method"] in ("GET", "HEAD"):
            return RedirectResponse(LOGIN, 303)
        return PlainTextResponse("A token is needed.\n", 401, {"WWW-Authenticate": "Bearer"})
