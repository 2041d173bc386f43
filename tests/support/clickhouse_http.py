"""Clients of the embedded ClickHouse: the official one, and plain HTTP for details that it does not show."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import clickhouse_connect
from clickhouse_connect.driver.client import Client

from chsink.embedded.clickhouse import EmbeddedClickHouse


def connected(server: EmbeddedClickHouse, **options: Any) -> Client:
    """The official client, unmodified; without a session unless ``options`` ask for one."""
    options.setdefault("autogenerate_session_id", False)
    return clickhouse_connect.get_client(host=server.host, port=server.port, **options)


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def code(self) -> int | None:
        """The exception's code, None without one."""
        text = self.headers.get("X-ClickHouse-Exception-Code")
        return None if text is None else int(text)

    @property
    def summary(self) -> dict[str, int]:
        return {name: int(value) for name, value in json.loads(self.headers["X-ClickHouse-Summary"]).items()}


def send(
    server: EmbeddedClickHouse,
    query: str | None = None,
    body: bytes | None = None,
    *,
    method: str = "POST",
    path: str = "/",
    headers: Mapping[str, str] | None = None,
    **params: Any,
) -> Reply:
    """One request on a connection of its own; further names are URL parameters."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=20)
    if query is not None:
        params["query"] = query
    try:
        connection.request(method, f"{path}?{urlencode(params)}", body=body, headers=dict(headers or {}))
        answer = connection.getresponse()
        return Reply(answer.status, dict(answer.getheaders()), answer.read())
    finally:
        connection.close()


def ask(server: EmbeddedClickHouse, query: str, **params: Any) -> str:
    """The answer to a statement that succeeds, without its last line break."""
    reply = send(server, body=query.encode(), **params)
    assert reply.status == 200, reply.text
    return reply.text.removesuffix("\n")


def scalar(client: Client, query: str) -> Any:
    """The one value of a query."""
    return client.query(query).result_rows[0][0]
