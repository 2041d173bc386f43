"""An embedded ClickHouse server, without Docker: ClickHouse's own HTTP and native servers on the engine of chdb.

Users with grants, quotas, constraints, ``Distributed`` and ``remote()``, ``system.processes``,
cancelled queries: all is ClickHouse's own.  Files outside the server's folder are out of its reach (``confinement``).

What chdb's build leaves out, each answered with an error:

- users, roles and row policies made by SQL (514); users are given at the start;
- Replicated tables are read-only, and there is no ``ON CLUSTER``: a server program would set what they need;
- HTTPS, ``system.zookeeper``; ``system.query_log`` is there if the configuration asks for it.

And without an error: there is no queue of asynchronous inserts, so such an insert is done at once.

One process holds one folder, and one folder has one process.
"""

from __future__ import annotations

from chsink.embedded.clickhouse.service import EmbeddedClickHouse
from chsink.embedded.clickhouse.users import ClickHouseUser

__all__ = ["ClickHouseUser", "EmbeddedClickHouse"]
