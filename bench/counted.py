"""How many statements this process sends to ClickHouse."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from chsink.clickhouse.client import ClickHouseClient

WAYS = ("query", "fetch", "command", "insert")


class Sent:
    """``Sent()`` counts from now on, whichever client sends."""

    def __init__(self) -> None:
        self.count = 0
        for name in WAYS:
            setattr(ClickHouseClient, name, self._counting(getattr(ClickHouseClient, name)))

    def _counting(self, send: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(send)
        def sent(*given: Any, **named: Any) -> Any:
            self.count += 1
            return send(*given, **named)

        return sent
