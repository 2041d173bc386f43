"""State stores when the network or the service fails: nothing is taken for what it is not."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.notation.sql import TableName
from chsink.ports import StoreUnavailable
from chsink.state.keepermap import KeeperMapStore
from chsink.state.zookeeper import ZooKeeperStore
from chsink.state.zookeeper_access import ZooKeeperAccess
from tests.contract.benches import MARKER, Bench, made, open_bench, rows, stored, swaps
from tests.support.proxies import HttpFault, HttpProxy, TcpFault, TcpProxy

if TYPE_CHECKING:
    from chsink.embedded.zookeeper import EmbeddedZooKeeper


@pytest.fixture(params=["zookeeper", "keepermap"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from open_bench(request.param, request)


def test_an_applied_write_whose_answer_was_lost_is_found_applied(bench: Bench) -> None:
    assert bench.faulty is not None
    new = rows(3, "a1", MARKER)
    bench.faulty.load("sink")
    bench.lose_answer()
    assert bench.faulty.create(new)
    assert bench.fired() == 1
    change = swaps(new, "a2", MARKER)
    bench.lose_answer()
    assert bench.faulty.swap(change)
    assert bench.fired() == 2
    assert stored(bench.store) == made(change)


@pytest.mark.parametrize("bench", ["keepermap"], indirect=True)
def test_a_keepermap_that_may_be_behind_says_so(bench: Bench) -> None:
    """⚑ Without the answer, what is read next may be a state that is over."""
    assert bench.faulty is not None
    old = rows(3, "a1", MARKER)
    bench.store.create(old)
    bench.lose_answer()
    with pytest.raises(StoreUnavailable):
        bench.faulty.catch_up(old[0])
    assert bench.fired() == 1
    bench.faulty.catch_up(old[0])
    assert stored(bench.store) == old


@pytest.mark.parametrize("bench", ["keepermap"], indirect=True)
def test_a_keepermap_write_that_never_arrived_is_unknown(bench: Bench, request: pytest.FixtureRequest) -> None:
    assert isinstance(bench.store, KeeperMapStore)
    server = request.getfixturevalue("clickhouse")[0]
    old = rows(3, "a1")
    bench.store.create(old)
    with HttpProxy(server.url) as proxy:
        client = ClickHouseClient(Connection((proxy.url,), compression="none"))
        store = KeeperMapStore(client, bench.store.table, path="/unused")
        for fault in (
            HttpFault.DROP_REQUEST,
            HttpFault.CUT_REQUEST,
            HttpFault.STATUS_503,
            HttpFault.STATUS_429,
            HttpFault.ERROR_IN_BODY,
        ):
            proxy.inject(fault, match="UPDATE")
            assert not store.swap(swaps(old, f"a2-{fault}")), fault
            assert proxy.fired[fault] == 1
        assert store.swap(swaps(old, "a3"))
        for fault in (HttpFault.CUT_ANSWER, HttpFault.DROP_ANSWER):
            proxy.inject(fault, match="SELECT", times=2)  # the client itself asks a read once more
            with pytest.raises(StoreUnavailable):
                store.load("sink")
            assert proxy.fired[fault] > 0
            proxy.heal()
        client.close()


def test_a_keepermap_that_is_away_is_unavailable() -> None:
    client = ClickHouseClient(Connection(("http://127.0.0.1:9",), connect_timeout_s=1))
    store = KeeperMapStore(client, TableName("d", "t"), path="/unused")
    with pytest.raises(StoreUnavailable):
        store.load("sink")
    assert not store.create(rows(1, "a1"))


def test_a_zookeeper_that_is_away_is_unavailable_in_time() -> None:
    store = ZooKeeperStore(ZooKeeperAccess("127.0.0.1:9"), timeout_s=1)
    started = time.monotonic()
    with pytest.raises(StoreUnavailable):
        store.load("sink")
    assert not store.create(rows(1, "a1"))
    assert not store.swap(swaps(rows(1, "a1"), "a2"))
    assert time.monotonic() - started < 15
    store.close()


def session_of(store: ZooKeeperStore) -> object:
    assert store._client is not None and store._client.client_id is not None
    return store._client.client_id[0]


def test_a_zookeeper_session_that_ended_is_replaced(request: pytest.FixtureRequest) -> None:
    hosts = request.getfixturevalue("zookeeper").hosts
    with TcpProxy(hosts) as proxy:
        store = ZooKeeperStore(
            ZooKeeperAccess(proxy.hosts), root=f"/contract/{uuid.uuid4().hex}", timeout_s=30, session_s=1
        )
        old = rows(3, "a1")
        assert store.create(old)
        session = session_of(store)
        proxy.partition()
        store.timeout_s = 0.5
        assert not store.swap(swaps(old, "lost"))
        with pytest.raises(StoreUnavailable):
            store.load("sink")
        time.sleep(3)
        proxy.heal()
        store.timeout_s = 30
        assert stored(store) == old
        change = swaps(old, "a2")
        assert store.swap(change)
        assert session_of(store) != session
        assert proxy.fired[TcpFault.PARTITION] > 0
        assert stored(store) == made(change)
        store.close()


def test_a_keepermap_without_its_keeper_is_unavailable(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    from chsink.embedded.clickhouse import EmbeddedClickHouse

    impatient = "<zookeeper><operation_timeout_ms>500</operation_timeout_ms></zookeeper>"
    proxy = TcpProxy(zookeeper.hosts)
    with EmbeddedClickHouse(tmp_path / "c", zookeeper=proxy.hosts, extra_xml=impatient) as server:
        client = ClickHouseClient(Connection((server.url,)))
        store = KeeperMapStore(client, TableName("default", "state"), path=f"/contract/{uuid.uuid4().hex}", timeout_s=5)
        with proxy:
            store.prepare()
            assert store.create(rows(3, "a1"))
        with pytest.raises(StoreUnavailable):
            store.load("sink")
        with pytest.raises(StoreUnavailable):
            store.catch_up(rows(1, "a1")[0])
        assert not store.swap(swaps(rows(3, "a1"), "a2"))
        with pytest.raises(StoreUnavailable):
            store.prepare()
        assert proxy.fired[TcpFault.CUT] > 0
        client.close()
