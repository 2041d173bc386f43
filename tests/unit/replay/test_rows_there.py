"""What a person's verdict on a replay's list is held against: rows of servers that all have ended their inserts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.shards import ShardTable
from chsink.clickhouse.window import DedupWindow
from chsink.errors import UnavailableError
from chsink.replay.run import Replay
from chsink.statemachine.parts import TopicLife, Unsettled
from chsink.statemachine.records import Phase, StateKey, StateRecord
from tests.unit.clickhouse.server import StoppedClock, table

KEY = StateKey("s", "t", 0, "db.t")
RECORD = StateRecord(Phase.BEFORE, 1, "a", 10, 13, life=TopicLife(nonce="n"), doubt=Unsettled(only=(10, 12)))
URLS = ("http://a", "http://b")


@dataclass
class Replica:
    """Runs an insert of the list while ``busy``; all of its log is worked off."""

    url: str
    busy: bool = False
    asked: list[str] = field(default_factory=list)
    all: list[Replica] = field(default_factory=list)

    def query(self, sql: str, _parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        asked = "running" if "system.processes" in sql else "current" if "system.replicas" in sql else "rows"
        self.asked.append(asked)
        answers: dict[str, list[tuple[Any, ...]]] = {
            "running": [(int(self.busy),)],
            "current": [(0, 7, 8, 0, 0, 2)],
            "rows": [],
        }
        return answers[asked]

    def each_replica(self) -> Sequence[Replica]:
        return self.all

    def once(self) -> Replica:
        return self


@pytest.fixture
def replicas() -> list[Replica]:
    made = [Replica(url) for url in URLS]
    made[0].all = made
    return made


def replay(replicas: list[Replica]) -> Replay:
    """A replay into one shard of two replicas, of which the first is in use."""
    client: Any = replicas[0]
    shard, clock = ShardTable(client, table("ReplicatedMergeTree"), URLS), StoppedClock()
    cluster: Any = SimpleNamespace(
        targets={KEY.topic_table: SimpleNamespace(shards=[shard])},
        client=lambda urls: replicas[URLS.index(urls[0])],
    )
    cluster.servers = lambda shards: Cluster.servers(cluster, shards)
    cluster.clock = clock
    unused: Any = None
    window = DedupWindow(lambda *_: [shard], clock, margin_s=30, insert_s=120)
    return Replay(cluster, unused, unused, unused, unused, window, unused, unused)


def test_no_replica_may_still_insert_what_a_person_says_never_landed(replicas: list[Replica]) -> None:
    """⚑ New tokens follow, so nothing else keeps the rows of a killed replay's insert from landing beside the next one's."""
    replicas[1].busy = True
    with pytest.raises(UnavailableError, match="CHS-710.*http://b"):
        replay(replicas)._offsets_there(KEY, RECORD)
    assert not any("rows" in one.asked for one in replicas), "no row is looked for before that"


def test_rows_that_are_there_are_there_on_two_replicas(replicas: list[Replica]) -> None:
    """⚑ One replica's rows may be given up by the others; a list that a person calls landed is never sent again."""
    assert replay(replicas)._offsets_there(KEY, RECORD) == {}
    assert all("current" in one.asked for one in replicas)
