"""``python -m tests.support.replicas``: the embedded ClickHouse server, with replication."""

from __future__ import annotations

from collections.abc import Callable

from chsink.embedded.clickhouse.__main__ import serve
from chsink.embedded.clickhouse.configuration import Ports
from tests.support.replicas.engine import Replication
from tests.support.replicas.service import interserver_host


def with_replication(ports: Ports) -> Callable[[], None]:
    """Called when the engine is loaded; what it returns is called when clients are served."""
    return Replication(interserver_host(ports.http), ports.http).start_ddl_worker


if __name__ == "__main__":
    serve(with_replication)
