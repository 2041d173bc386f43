"""A proxy before ClickHouse that counts how often each piece is sent."""

from __future__ import annotations

import re
from collections import Counter
from http.server import ThreadingHTTPServer
from typing import Any

from tests.support.http_proxy import HttpProxy


class Gate(HttpProxy):
    """A proxy that also remembers how often the job sent each piece."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.tokens: Counter[str] = Counter()

    def _listening(self, port: int | str) -> ThreadingHTTPServer:
        server = super()._listening(port)
        server.handle_error = _client_is_gone  # type: ignore[assignment, method-assign]
        return server

    def take(self, text: bytes) -> Any:
        """Count the piece, then return the fault to inject, if any."""
        token = re.search(rb"insert_deduplication_token=([^&\n]+)", text)
        if token is not None:
            self.tokens[token[1].decode()] += 1
        return super().take(text)

    def sent(self, topic: str) -> Counter[str]:
        """Sends by piece of a topic."""
        return Counter({token: times for token, times in self.tokens.items() if f":{topic}:" in token})


def _client_is_gone(*_: object) -> None:
    """Ignore clients that went away: jobs are killed while they wait for an answer."""
