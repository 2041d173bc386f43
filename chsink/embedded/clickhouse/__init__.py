"""An embedded ClickHouse server: the real engine (chdb) behind an HTTP front, for the demo and the tests, without Docker.

The official client uses it as it uses a server.  The front holds no deduplication, token or KeeperMap logic: each
statement, with its settings and data, reaches the engine.

Limits, each answered with an error rather than with something else: no native TCP protocol and so no ``Distributed`` or
``remote()``; no Replicated tables; no ``compress``/``decompress`` parameters, no Brotli (501 or 89); no ``input()`` (48); no
users made by SQL (514).  Not an error: asynchronous inserts are done synchronously; the engine's query ids are its own, a
request's ``query_id`` is found as ``Settings['log_comment']`` in ``system.processes``; ``currentUser()`` is ``default``;
one process holds one folder.
"""

from __future__ import annotations

from chsink.embedded.clickhouse.service import EmbeddedClickHouse
from chsink.embedded.clickhouse.users import ClickHouseUser

__all__ = ["ClickHouseUser", "EmbeddedClickHouse"]
