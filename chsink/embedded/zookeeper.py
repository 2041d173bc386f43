"""A ZooKeeper server from the jars that ship with Spark: one node, 127.0.0.1 only.

Its transaction log is not flushed to the disk at each write: what a killed *process* wrote is kept by the operating
system, and surviving a power failure is not what a local server is for.  Sessions may last from one to sixty seconds,
so that a test can watch one expire.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from chsink.embedded.base.ports import HOST
from chsink.embedded.base.service import Service, local
from chsink.jvm import jars
from chsink.jvm.java import CONSOLE_LOGGING, SMALL_JVM, find_java

_TICK_MS: Final = 500
# A bulk state write is one multi over all its keys.
_JUTE_MAX_BUFFER_BYTES: Final = 16 << 20
# The server's own share of Spark's jars: the whole folder would cost start-up time.
_JARS: Final = ("zookeeper-*", "netty-*", "slf4j-api-*", "log4j-*", "metrics-core-*", "snappy-java-*", "commons-io-*")


class EmbeddedZooKeeper(Service):
    """``with EmbeddedZooKeeper(path) as z: KazooClient(z.hosts)``; ``port=0`` takes a free one and keeps it."""

    def __init__(self, path: Path | str, port: int = 0, *, detach: bool = False) -> None:
        super().__init__("zookeeper", path, port, detach=detach, start_limit_s=60, stop_limit_s=10)

    @property
    def hosts(self) -> str:
        """``host:port``, as kazoo and ClickHouse take it."""
        return local(self.port)

    def _prepare(self) -> Sequence[str]:
        config = self.path / "zoo.cfg"
        logging = self.path / "log4j2.properties"
        config.write_text(_config(self.path / "data", self.port), encoding="utf-8")
        logging.write_text(CONSOLE_LOGGING, encoding="utf-8")
        folder = jars.spark_jars_folder()
        return [
            str(find_java()),
            *SMALL_JVM,
            "-Xmx256m",
            f"-Djute.maxbuffer={_JUTE_MAX_BUFFER_BYTES}",
            "-Dzookeeper.admin.enableServer=false",
            "-Dzookeeper.forceSync=no",
            "-Dzookeeper.preAllocSize=1024",
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            ":".join(str(jar) for pattern in _JARS for jar in sorted(folder.glob(f"{pattern}.jar"))),
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(config),
        ]

    def _is_ready(self) -> bool:
        """Whether the server answers its status command: it does so only once it serves requests."""
        try:
            with socket.create_connection((HOST, self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                return b"Mode: standalone" in connection.recv(4096)
        except OSError:
            return False


def _config(data: Path, port: int) -> str:
    settings = {
        "tickTime": _TICK_MS,
        "minSessionTimeout": 2 * _TICK_MS,
        "maxSessionTimeout": 60_000,
        "dataDir": data,
        "clientPort": port,
        "clientPortAddress": HOST,
        "maxClientCnxns": 0,
        "4lw.commands.whitelist": "srvr,mntr,cons,wchs,ruok,dump",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())
