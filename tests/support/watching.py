"""Somebody who has a status page open."""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import closing
from typing import Any


class Watching(threading.Thread):
    """Watches a page from when it is there until it ends; ``seen`` are its events."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self.seen: list[dict[str, Any]] = []
        self.start()

    def run(self) -> None:
        give_up = time.monotonic() + 120
        while time.monotonic() < give_up:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
            try:
                connection.request("GET", "/events")
                answer = connection.getresponse()
            except ConnectionRefusedError:
                time.sleep(0.05)
                continue
            with closing(connection), answer:
                for line in answer:
                    if line.startswith(b"data: "):
                        self.seen.append(json.loads(line.removeprefix(b"data: ")))
            return

    def last(self) -> dict[str, Any]:
        """The last event, once the page has ended."""
        self.join(60)
        assert not self.is_alive()
        return self.seen[-1]
