"""A person decides about a range while one of its servers is gone, and another one still runs an insert of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import cast

import pytest

from chsink.clickhouse.client import ClickHouseClient
from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.connections import Connections
from chsink.clickhouse.landing import new_ledger
from chsink.clickhouse.shards import ShardTable
from chsink.clickhouse.window import DedupWindow
from chsink.config import Config
from chsink.driver.ledger import Ledger
from chsink.errors import UnavailableError
from chsink.ports import ResultRow, Unanswered
from chsink.recovery.change import carry_out
from chsink.recovery.decide import plan_reset
from chsink.recovery.landed_rows import wait_for_any_insert
from chsink.state.memory import MemoryStore
from chsink.statemachine import writes
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey

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

    def window(self, _stored_layout: Callable[[str], str | None] = lambda _: None) -> DedupWindow:
        return DedupWindow(lambda *_: (), self.clock, 1, 60)

    def servers(self, _shards: Iterable[ShardTable]) -> list[ClickHouseClient]:
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


def test_the_one_that_answers_is_waited_for(cluster_of: Callable[[float], TwoReplicas]) -> None:
    """⚑ Its rows would come after a person deleted those that are there, and then land again."""
    cluster = cluster_of(20)
    store = in_doubt(cluster)
    carry_out(
        cluster,
        store,
        plan_reset(cluster, store, "t", []),
        "reset",
    )
    assert cluster.clock.now_ms() >= Clock.ms + 20_000


@pytest.mark.parametrize("head", ["s:t:", "s~replay:t:"])
def test_recover_waits_for_replays_too(cluster_of: Callable[[float], TwoReplicas], head: str) -> None:
    """⚑ Found by an adversary: the state of the replay was lost with the job's, and its rows came after the look."""
    cluster = cluster_of(20)
    [gone, busy] = cluster.two
    gone.gone, busy.head = False, head
    wait_for_any_insert(cluster, "s", "t", [])
    assert cluster.clock.now_ms() >= Clock.ms + 20_000


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
