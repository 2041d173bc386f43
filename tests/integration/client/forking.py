"""``python -m tests.integration.client.forking URL``: forks as Spark's worker daemon does, from a process with one thread.

The child prints whether its client is another one than the parent's, and what the server answered it; then the parent
prints what it is answered.
"""

from __future__ import annotations

import os
import sys

from chsink.clickhouse.client import Connection, cached_client


def main(url: str) -> None:
    endpoint = Connection((url,), user="default")
    parents = cached_client(endpoint)
    parents.query("SELECT 1")
    child = os.fork()
    if not child:
        client = cached_client(endpoint)
        sys.stdout.write(f"{client is not parents} {client.query('SELECT 2')}\n")
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
    sys.stdout.write(f"{parents.query('SELECT 3')}\n")


if __name__ == "__main__":
    main(sys.argv[1])
