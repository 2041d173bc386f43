"""An embedded ClickHouse server, without Docker: the real engine (chdb) behind an HTTP front.

The official client uses it as it uses a server.  The front holds no deduplication, token or KeeperMap logic: each
statement, with its settings and data, reaches the engine.  Files outside the server's folder are out of its reach.

Limits, each answered with an error (its code in brackets), never with a wrong result:

- no native TCP protocol, and so no ``Distributed`` and no ``remote()`` to another server; no Replicated tables;
- no Brotli (89), no ``input()`` (48), no users made by SQL (514).

Differences that raise no error:

- an asynchronous insert is done at once and answered when it is done, whatever ``wait_for_async_insert`` says;
- the engine gives statements query ids of its own: a request's ``query_id`` comes back in its answer, and is found as
  ``Settings['log_comment']`` in ``system.processes``;
- ``currentUser()`` is ``default`` for every user (see ``users``);
- a request's body is complete before its statement starts, and a client that leaves does not end its statement;
- at most 128 statements run at the same time, further ones wait.

One process holds one folder, and one folder has one process.
"""

from __future__ import annotations

from chsink.embedded.clickhouse.service import EmbeddedClickHouse
from chsink.embedded.clickhouse.users import ClickHouseUser

__all__ = ["ClickHouseUser", "EmbeddedClickHouse"]
