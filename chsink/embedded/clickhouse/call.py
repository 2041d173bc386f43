"""One HTTP request as data: who asks, which statement, which settings, which bytes.

``read`` receives the whole body before anything else happens, so a client that goes away in the middle of an insert has
inserted nothing.  A body is kept in the pieces it arrived in; it is never joined.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import BasicAuth, BodyPartReader, hdrs, web

from chsink.embedded.clickhouse.exceptions import (
    AUTHENTICATION_FAILED,
    BAD_REQUEST_PARAMETER,
    INVALID_SESSION_TIMEOUT,
    NOT_IMPLEMENTED,
    UNKNOWN_SETTING,
    refused,
)
from chsink.embedded.clickhouse.users import ClickHouseUser, Users

_SESSION_TIMEOUT_S: Final = 60
_MAX_SESSION_TIMEOUT_S: Final = 3600
_BUFFER_BYTES: Final = 1 << 20
_PARAMETER: Final = "param_"
_SETTING: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Parameters of the HTTP interface itself; all others are settings.
_RESERVED: Final = frozenset(
    (
        "query",
        "query_id",
        "database",
        "default_format",
        "user",
        "password",
        "quota_key",
        "role",
        "session_id",
        "session_timeout",
        "session_check",
        "close_session",
        "buffer_size",
        "wait_end_of_query",
        "compress",
        "decompress",
        "stacktrace",
        "client_protocol_version",
    )
)


@dataclass(frozen=True, slots=True)
class External:
    """A table sent along with a query: ``structure`` is ``name Type, …``."""

    name: str
    structure: str
    format: str
    data: bytes


@dataclass(frozen=True, slots=True)
class SessionWish:
    """The HTTP session a request belongs to."""

    id: str
    timeout_s: int
    must_exist: bool
    close: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A request.  ``query`` and ``body`` (as received, still encoded) hold the statement and its data.

    ``sends_blocks``: the body is in native blocks (:mod:`.blocks`).  ``wants_blocks``: the answer has to be.
    """

    user: ClickHouseUser
    query_id: str
    named: bool
    query: bytes
    body: Sequence[bytes]
    content_encoding: str
    accept_encoding: str
    sends_blocks: bool
    wants_blocks: bool
    default_format: str
    database: str
    roles: Sequence[str]
    settings: Mapping[str, str]
    params: Mapping[str, str]
    external: Sequence[External]
    session: SessionWish | None
    read_only: bool
    whole: bool
    buffer_bytes: int
    revision: int


async def read(request: web.Request, users: Users) -> Call:
    """Authenticate and receive a request; raises ClickHouseException, or what aiohttp raises for a body cut short."""
    pairs = parse_qsl(
        request.rel_url.raw_query_string, keep_blank_values=True, encoding="utf-8", errors="surrogateescape"
    )
    user = _authenticate(request, dict(pairs), users)
    body: list[bytes] = []
    files: list[tuple[str, bytes]] = []
    if request.content_type == "multipart/form-data":
        pairs += await _form(request, files)
    else:
        body = [piece async for piece in request.content.iter_any()]
    return _call(request, user, pairs, body, files)


def _authenticate(request: web.Request, values: Mapping[str, str], users: Users) -> ClickHouseUser:
    """The server's three ways, of which a request may use one."""
    header = request.headers.get(hdrs.AUTHORIZATION)
    name = request.headers.get("X-ClickHouse-User")
    key = request.headers.get("X-ClickHouse-Key")
    ways = (header is not None, name is not None or key is not None, "user" in values or "password" in values)
    if sum(ways) > 1:
        raise refused(AUTHENTICATION_FAILED, "Invalid authentication: it is not allowed to use several ways at once")
    if header is not None:
        try:
            credentials = BasicAuth.decode(header, encoding="utf-8")
        except ValueError as error:
            raise refused(AUTHENTICATION_FAILED, f"Invalid authentication: {error}") from None
        return users.authenticate(credentials.login, credentials.password)
    if ways[1]:
        return users.authenticate(name or "default", key or "")
    return users.authenticate(values.get("user", "default"), values.get("password", ""))


async def _form(request: web.Request, files: list[tuple[str, bytes]]) -> list[tuple[str, str]]:
    """The fields of a form; its files, which are external tables, are added to ``files``."""
    if request.headers.get(hdrs.CONTENT_ENCODING):
        raise refused(NOT_IMPLEMENTED, "A form with a Content-Encoding is not supported")
    fields: list[tuple[str, str]] = []
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader) or part.name is None:
            raise refused(BAD_REQUEST_PARAMETER, "A part of the form has no name")
        data = bytes(await part.read(decode=False))
        if part.filename is None:
            fields.append((part.name, data.decode("utf-8", "surrogateescape")))
        else:
            files.append((part.name, data))
    return fields


def _call(
    request: web.Request,
    user: ClickHouseUser,
    pairs: Sequence[tuple[str, str]],
    body: Sequence[bytes],
    files: Sequence[tuple[str, bytes]],
) -> Call:
    values = dict(pairs)
    external = [_external(name, data, values) for name, data in files]
    own = {f"{table.name}_{part}" for table in external for part in ("structure", "types", "format")} | _RESERVED
    query = "".join(value for name, value in pairs if name == "query")
    return Call(
        user=user,
        query_id=values.get("query_id") or str(uuid.uuid4()),
        named=bool(values.get("query_id")),
        query=query.encode("utf-8", "surrogateescape"),
        body=body,
        content_encoding=request.headers.get(hdrs.CONTENT_ENCODING, ""),
        accept_encoding=_accepted(request, values),
        sends_blocks=_flag(values, "decompress"),
        wants_blocks=_flag(values, "compress"),
        default_format=values.get("default_format") or request.headers.get("X-ClickHouse-Format") or "TabSeparated",
        database=values.get("database") or request.headers.get("X-ClickHouse-Database") or "",
        roles=[value for name, value in pairs if name == "role"],
        settings=_settings(values, own),
        params={name[len(_PARAMETER) :]: value for name, value in values.items() if name.startswith(_PARAMETER)},
        external=external,
        session=_session(values),
        read_only=request.method in (hdrs.METH_GET, hdrs.METH_HEAD),
        whole=_flag(values, "wait_end_of_query"),
        buffer_bytes=_number(values, "buffer_size", _BUFFER_BYTES),
        revision=_number(values, "client_protocol_version", 0),
    )


def _settings(values: Mapping[str, str], own: set[str] | frozenset[str]) -> dict[str, str]:
    settings = {name: value for name, value in values.items() if name not in own and not name.startswith(_PARAMETER)}
    for name in settings:
        if not _SETTING.fullmatch(name):
            raise refused(UNKNOWN_SETTING, f"Unknown setting '{name}'")
    return settings


def _accepted(request: web.Request, values: Mapping[str, str]) -> str:
    return request.headers.get(hdrs.ACCEPT_ENCODING, "") if _flag(values, "enable_http_compression") else ""


def _external(name: str, data: bytes, values: Mapping[str, str]) -> External:
    structure = values.get(f"{name}_structure", "")
    if not structure and (types := values.get(f"{name}_types")):
        structure = ", ".join(f"_{index} {type_name}" for index, type_name in enumerate(_split(types), start=1))
    if not structure:
        raise refused(BAD_REQUEST_PARAMETER, f"Neither structure nor types of external table '{name}' are given")
    return External(name, structure, values.get(f"{name}_format", "TabSeparated"), data)


def _split(types: str) -> list[str]:
    """A comma-separated list of types, whose own arguments have commas too."""
    parts, depth = [""], 0
    for char in types:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _session(values: Mapping[str, str]) -> SessionWish | None:
    session_id = values.get("session_id")
    if not session_id:
        return None
    text = values.get("session_timeout", str(_SESSION_TIMEOUT_S))
    if not text.isdecimal():
        raise refused(INVALID_SESSION_TIMEOUT, f"Invalid session timeout: '{text}'")
    if int(text) > _MAX_SESSION_TIMEOUT_S:
        raise refused(
            INVALID_SESSION_TIMEOUT,
            f"Session timeout '{text}' is larger than max_session_timeout: {_MAX_SESSION_TIMEOUT_S}",
        )
    return SessionWish(session_id, int(text), values.get("session_check") == "1", _flag(values, "close_session"))


def _flag(values: Mapping[str, str], name: str) -> bool:
    return values.get(name, "").lower() in ("1", "true")


def _number(values: Mapping[str, str], name: str, otherwise: int) -> int:
    text = values.get(name, "")
    return int(text) if text.isdecimal() else otherwise
