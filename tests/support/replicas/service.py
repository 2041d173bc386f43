"""Replicas on this machine: embedded servers with replication, on one ZooKeeper, in one cluster."""

from __future__ import annotations

import http.client
import logging
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from chsink.embedded.base.ports import HOST, free_port
from chsink.embedded.clickhouse import ClickHouseUser, EmbeddedClickHouse
from tests.support.replicas.engine import DDL_QUEUE
from tests.support.replicas.tables import CLUSTER

_log: Final = logging.getLogger(__name__)
_STARTS: Final = 3
_ANSWER_LIMIT_S: Final = 30


class ReplicaClickHouse(EmbeddedClickHouse):
    """One of several replicas.  ``{replica}`` and ``{shard}`` are macros."""

    program = "tests.support.replicas"

    def start(self) -> Self:
        """Started again if its first statement hangs: seen once (CREATE DATABASE, for 300 s) in thousands of starts of
        the engine with what is added to it.
        """
        if self.running:
            return self
        for _ in range(_STARTS):
            super().start()
            if self._creates():
                return self
            _log.warning("%r hung at its first statement and is started again", self)
            self.kill()
        raise AssertionError(f"{self!r} hung at its first statement {_STARTS} times")

    def _creates(self) -> bool:
        """Whether a database can be made and removed."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=_ANSWER_LIMIT_S)
        try:
            for sql in ("CREATE DATABASE IF NOT EXISTS started", "DROP DATABASE started SYNC"):
                connection.request("POST", "/", sql.encode())
                answer = connection.getresponse()
                assert answer.status == http.HTTPStatus.OK, answer.read().decode()
                answer.read()
        except TimeoutError:
            return False
        finally:
            connection.close()
        return True


def replicas(
    root: Path, zookeeper: str, count: int = 2, *, users: Sequence[ClickHouseUser] = (), extra_xml: str = ""
) -> list[ReplicaClickHouse]:
    """Servers that are not started yet; all have the same ZooKeeper, and know each other as the cluster ``replicas``."""
    prefix = f"/keeper_map/{random.SystemRandom().randrange(1 << 32):x}"
    ports = [(free_port(), free_port()) for _ in range(count)]
    members = "".join(f"<replica><host>{HOST}</host><port>{native}</port></replica>" for _, native in ports)
    shard = f"<shard><internal_replication>true</internal_replication>{members}</shard>"
    common = (
        f"<remote_servers><{CLUSTER}>{shard}</{CLUSTER}></remote_servers>"
        f"<distributed_ddl><path>{DDL_QUEUE}</path></distributed_ddl>{extra_xml}"
    )
    return [
        ReplicaClickHouse(
            root / f"replica-{number}",
            zookeeper=zookeeper,
            keeper_map_prefix=prefix,
            users=users,
            extra_xml=_listening(http) + f"<macros><shard>1</shard><replica>{number}</replica></macros>{common}",
            port=http,
            native_port=native,
        )
        for number, (http, native) in enumerate(ports)
    ]


@contextmanager
def running(servers: Sequence[ReplicaClickHouse]) -> Iterator[Sequence[ReplicaClickHouse]]:
    """Start them all at once; in the end, kill them: an orderly end takes seconds, and nobody needs their data."""
    try:
        with ThreadPoolExecutor(len(servers)) as pool:
            for start in [pool.submit(server.start) for server in servers]:
                start.result()
        yield servers
    finally:
        for server in servers:
            server.kill()


def interserver_host(port: int) -> str:
    """Where the server with this HTTP port listens for other replicas: an address of its own on this machine."""
    return f"127.1.{port >> 8}.{port & 255}"


def _listening(port: int) -> str:
    return f"<listen_host>{HOST}</listen_host><listen_host>{interserver_host(port)}</listen_host>"
