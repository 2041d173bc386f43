"""What the contract tests need: a store of each kind on real services, a second one on the same data, and rows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import get_args

import pytest

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.notation.sql import TableName
from chsink.ports import StateStore, StoredRow, Swap
from chsink.state import AnyStore
from chsink.state.keepermap import KeeperMapStore
from chsink.state.memory import MemoryStore
from chsink.state.zookeeper import ZooKeeperStore
from chsink.state.zookeeper_access import ZooKeeperAccess
from tests.support.proxies import HttpFault, HttpProxy, TcpFault, TcpProxy

DATABASE = "state_contract"
MARKER = "marker-in-the-body"


@dataclass(frozen=True, slots=True)
class Bench:
    """One store, another one on the same data, and a way to lose the answer to the next write that holds MARKER."""

    store: StateStore
    other: StateStore
    faulty: StateStore | None = None
    lose_answer: Callable[[], None] = lambda: None
    fired: Callable[[], int] = lambda: 0


def stores() -> list[str]:
    """What ``state.store`` may be: each has a bench here."""
    [union, *_] = get_args(AnyStore)
    return [get_args(settings.model_fields["store"].annotation)[0] for settings in get_args(union)]


def open_bench(kind: str, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """One of :func:`stores`."""
    yield from BENCHES[kind](request)


def _memory(_request: pytest.FixtureRequest) -> Iterator[Bench]:
    store = MemoryStore()
    yield Bench(store, store)


def _zookeeper(request: pytest.FixtureRequest) -> Iterator[Bench]:
    hosts = request.getfixturevalue("zookeeper").hosts
    root = f"/contract/{uuid.uuid4().hex}"
    with TcpProxy(hosts) as proxy:
        stores = [ZooKeeperStore(ZooKeeperAccess(h), root=root, timeout_s=20) for h in (hosts, hosts, proxy.hosts)]
        yield Bench(
            store=stores[0],
            other=stores[1],
            faulty=stores[2],
            lose_answer=lambda: proxy.drop_answer(MARKER.encode()),
            fired=lambda: proxy.fired[TcpFault.DROP_ANSWER],
        )
        for store in stores:
            store.close()


def _keepermap(request: pytest.FixtureRequest) -> Iterator[Bench]:
    servers = request.getfixturevalue("clickhouse")
    with HttpProxy(servers[0].url) as proxy:
        urls = (servers[0].url, servers[-1].url, proxy.url)
        clients = [ClickHouseClient(Connection((url,), compression="none")) for url in urls]
        table = TableName(DATABASE, f"state_{uuid.uuid4().hex}")
        stores = [KeeperMapStore(c, table, path=f"/contract/{table.table}") for c in clients]
        for client, store in zip(clients[:2], stores, strict=False):
            client.command(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
            store.prepare()
        yield Bench(
            store=stores[0],
            other=stores[1],
            faulty=stores[2],
            lose_answer=lambda: proxy.inject(HttpFault.DROP_ANSWER, match=MARKER),
            fired=lambda: proxy.fired[HttpFault.DROP_ANSWER],
        )
        for client in clients[:2]:
            client.command(f"DROP TABLE {table} SYNC")
        for client in clients:
            client.close()


BENCHES: dict[str, Callable[[pytest.FixtureRequest], Iterator[Bench]]] = {
    "memory": _memory,
    "zookeeper": _zookeeper,
    "keepermap": _keepermap,
}


def rows(count: int, attempt: str, body: str = "body", sink: str = "sink") -> list[StoredRow]:
    return [StoredRow(f"{sink}/topic/{i}/database.table", attempt, f'{{"{body}":{i}}}') for i in range(count)]


def swaps(old: list[StoredRow], attempt: str, body: str = "new") -> list[Swap]:
    return [Swap(r.attempt, StoredRow(r.key, attempt, f'{{"{body}":"{r.key}"}}')) for r in old]


def stored(store: StateStore, sink: str = "sink") -> list[StoredRow]:
    return sorted(store.load(sink).values(), key=lambda r: r.key)


def check_servers_share_state(urls: Sequence[str], database: str) -> None:
    """KeeperMap through two servers: each sees what the other one wrote, and the older of two writes is refused."""
    table = TableName(database, f"state_{uuid.uuid4().hex}")
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(ClickHouseClient(Connection((url,))))) for url in urls]
        first, second = (KeeperMapStore(client, table, path=f"/tests/{table.table}") for client in clients)
        for store in (first, second):
            store.prepare()
        old = rows(500, "a1")
        assert first.create(old)
        assert not second.create(rows(1, "b1"))
        assert second.swap(swaps(old, "a2"))
        assert not first.swap(swaps(old, "a3"))
        assert stored(first) == made(swaps(old, "a2"))


def made(changes: list[Swap]) -> list[StoredRow]:
    return sorted((s.row for s in changes), key=lambda r: r.key)
