"""A person decides about a range while one of its servers is gone, and another one still runs an insert of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, cast

import pytest

from chsink.clickhouse.client import ClickHouseClient
from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.connections import Connections
from chsink.clickhouse.landing import new_ledger
from chsink.clickhouse.shards import ShardTable
from chsink.clickhouse.window import OUTLAST_S
from chsink.config import Config
from chsink.driver.ledger import Ledger, read_records
from chsink.errors import UnavailableError, shards
from chsink.kafka.admin import KafkaAdmin
from chsink.ports import ResultRow, Unanswered
from chsink.recovery.change import carry_out, claim
from chsink.recovery.decide import plan_reset, plan_resolve
from chsink.recovery.landed_rows import wait_for_any_insert
from chsink.state.memory import MemoryStore
from chsink.statemachine import writes
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Phase, StateKey

JOB = {
    "sink": {"name": "s"},
    "kafka": {"bootstrap": "localhost:9092"},
    "clickhouse": {"endpoints": ["http://a:8123"], "insert_timeout_s": 60},
    "route": [{"topic": "t", "table": "d.t"}],
}
KEY = StateKey("s", "t", 0, "d.t")


@dataclass
class Clock:
    ms: int = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def steady_ms(self) -> int:
        return self.ms

    def sleep(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


@dataclass
class Server:
    """Runs an insert of the range, or under tokens that begin with ``head``, for ``busy_s``; one that is gone gives no
    answer.
    """

    url: str
    clock: Clock
    busy_s: float = 0
    gone: bool = False
    begun_ms: int = Clock.ms
    head: str = ""

    def query(self, _sql: str, parameters: Mapping[str, object] | None = None) -> list[ResultRow]:
        if self.gone:
            raise Unanswered("connection reset")
        asked = not self.head or parameters == {"head": self.head}
        return [(int(asked and self.clock.ms < self.begun_ms + self.busy_s * 1000),)]


class TwoReplicas(Cluster):
    """One of them is gone."""

    def __init__(self, config: Config, clock: Clock, connections: Connections, busy_s: float) -> None:
        super().__init__(config, clock, connections)
        self.two = Server("http://a:8123", clock, gone=True), Server("http://b:8123", clock, busy_s)

    def servers(self, _shards: Iterable[ShardTable]) -> list[ClickHouseClient]:
        return self.every_server(None)

    def every_server(self, _layout: str | None) -> list[ClickHouseClient]:
        return cast("list[ClickHouseClient]", [*self.two])


def in_doubt(cluster: Cluster) -> MemoryStore:
    store = MemoryStore()
    ledger: Ledger = new_ledger(cluster, store, "the job")
    ledger.claim([KEY], cluster.layouts)
    said = writes.Announcement("id", Sending(10, next(iter(cluster.layouts))), Seen(1))
    ledger.write({KEY: writes.before(ledger.records[KEY], OffsetRange(0, 9), said, epoch=1, attempt="b", fresh=True)})
    return store


@pytest.fixture
def cluster_of() -> Iterator[Callable[[float], TwoReplicas]]:
    config = Config.from_mapping(JOB, source="job.toml", environ={})
    with closing(Connections(config)) as connections:
        yield lambda busy_s: TwoReplicas(config, Clock(), connections, busy_s)


@pytest.mark.parametrize(("gone", "waits_s"), [(False, 20), (True, OUTLAST_S)])
def test_a_reset_waits_for_each(cluster_of: Callable[[float], TwoReplicas], waits_s: int, *, gone: bool) -> None:
    """⚑ Its rows would come after a person deleted those that are there, and then land again.  ⚑ Found by an adversary:
    those of the one that gives no answer did.
    """
    cluster = cluster_of(20)
    cluster.two[0].gone = gone
    store = in_doubt(cluster)
    carry_out(
        cluster,
        store,
        plan_reset(cluster, store, "t", []),
        "reset",
    )
    assert read_records(store, "s")[KEY].phase is Phase.EMPTY
    assert 0 <= cluster.clock.now_ms() - Clock.ms - waits_s * 1000 < 1000


def test_all_is_there_and_nothing_can_be_counted(
    cluster_of: Callable[[float], TwoReplicas], monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ A person was believed at once, where no route leads to the table: the rows of the insert came afterwards."""
    cluster = cluster_of(20)
    cluster.two[0].gone = False
    store = in_doubt(cluster)
    monkeypatch.setattr(cluster, "is_routed", lambda _: False)
    plan = plan_resolve(cluster, store, cast("KafkaAdmin", None), "t", [], "landed", pipeline=lambda _: "")
    carry_out(cluster, store, plan, "resolve")
    assert read_records(store, "s")[KEY].phase is Phase.AFTER
    assert 0 <= cluster.clock.now_ms() - Clock.ms - 20_000 < 1000


@pytest.mark.parametrize("starts", [0, 1])
def test_one_that_its_named_shard_has_lost_is_waited_for(starts: int) -> None:
    """⚑ Found by an adversary: a claim after the change of the job file forgot it, and its rows landed twice."""
    clusters = []
    with ExitStack() as stack:
        for replicas in (["http://b:8123"], []):
            endpoint = {"url": "http://a:8123", "replicas": replicas, "name": "one"}
            job = {**JOB, "clickhouse": {"endpoints": [endpoint]}}
            config = Config.from_mapping(job, source="job.toml", environ={})
            clusters.append(Cluster(config, Clock(), stack.enter_context(closing(Connections(config)))))
        store = in_doubt(clusters[0])
        for _ in range(starts + 1):
            ledger = claim(clusters[1], store, "resolve", [KEY])
        record = ledger.records[KEY]
        [former] = clusters[1].former_servers(ledger.layout(record.sent.layout))
        assert former.url == "http://b:8123"
        ledger.write({KEY: writes.after(record, epoch=ledger.epoch, attempt="c")})
        ledger = claim(clusters[1], store, "resolve", [KEY])
        assert clusters[1].former_servers(ledger.layout(record.sent.layout)) == []


@pytest.mark.parametrize("head", ["s:t:", "s~replay:t:"])
def test_recover_waits_for_replays_too(cluster_of: Callable[[float], TwoReplicas], head: str) -> None:
    """⚑ Found by an adversary: the state of the replay was lost with the job's, and its rows came after the look."""
    cluster = cluster_of(20)
    [gone, busy] = cluster.two
    gone.gone, busy.head = False, head
    wait_for_any_insert(cluster, MemoryStore(), "s", "t", [])
    assert cluster.clock.now_ms() >= Clock.ms + 20_000


def test_recover_waits_for_a_replica_that_was_removed(
    cluster_of: Callable[[float], TwoReplicas], monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ Found by an adversary: its insert ended after the command, and each record had two rows."""
    cluster = cluster_of(0)
    [removed, listed] = cluster.two
    store = in_doubt(cluster)
    monkeypatch.setattr(cluster, "servers", lambda _: [listed])
    monkeypatch.setattr(cluster, "former_servers", lambda layout: [removed] if layout else [])
    wait_for_any_insert(cluster, store, "s", "t", [])
    assert 0 <= cluster.clock.now_ms() - Clock.ms - OUTLAST_S * 1000 < 1000


def test_recover_waits_where_a_layout_does_not_say_who_was_removed(
    cluster_of: Callable[[float], TwoReplicas], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An earlier version's, or one whose shards have changed names: the command went no further (CHS-407, CHS-409)."""
    caplog.set_level(logging.WARNING, "chsink")
    cluster = cluster_of(0)
    for one in cluster.two:
        one.gone = False
    store = in_doubt(cluster)

    def unreadable(layout: str | None) -> Any:
        raise shards.UNREADABLE_LAYOUT(reason="KeyError")

    monkeypatch.setattr(cluster, "former_servers", unreadable)
    wait_for_any_insert(cluster, store, "s", "t", [])
    assert 0 <= cluster.clock.now_ms() - Clock.ms - OUTLAST_S * 1000 < 1000
    assert "CHS-407" in caplog.text


def test_nothing_is_decided_while_it_goes_on(cluster_of: Callable[[float], TwoReplicas]) -> None:
    cluster = cluster_of(1000)
    store = in_doubt(cluster)
    with pytest.raises(UnavailableError, match=r"CHS-710.*http://b:8123"):
        carry_out(
            cluster,
            store,
            plan_reset(cluster, store, "t", []),
            "reset",
        )
