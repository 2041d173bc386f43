"""What a person's verdict on a replay's list is held against: rows of servers that all have ended their inserts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from chsink.clickhouse.shards import ShardTable
from chsink.clickhouse.window import DedupWindow
from chsink.errors import HaltError, UnavailableError
from chsink.ports import Unreachable
from chsink.replay.run import Replay
from chsink.statemachine.parts import TopicLife, Unsettled
from chsink.statemachine.records import Phase, StateKey, StateRecord
from tests.unit.clickhouse.server import StoppedClock, table

KEY = StateKey("s", "t", 0, "db.t")
RECORD = StateRecord(Phase.BEFORE, 1, "a", 10, 13, life=TopicLife(nonce="n"), doubt=Unsettled(only=(10, 12)))
URLS = ("http://a", "http://b")


@dataclass
class Replica:
    """Runs an insert of the list for as many questions as ``busy``; all of its log is worked off."""

    url: str
    busy: int = 0
    asked: list[str] = field(default_factory=list)
    all: list[Replica] = field(default_factory=list)
    gone: bool = False
    listed: bool = True

    def query(self, sql: str, _parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        if self.gone:
            raise Unreachable(self.url)
        asked = "running" if "system.processes" in sql else "current" if "system.replicas" in sql else "rows"
        self.asked.append(asked)
        answers: dict[str, list[tuple[Any, ...]]] = {
            "running": [(self.busy,)],
            "current": [(0, 7, 8, 0, 0, 2)],
            "rows": [],
        }
        self.busy -= asked == "running" and self.busy > 0
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


def replay(replicas: list[Replica], *, routed: bool = True, shows: bool = True) -> Replay:
    """A replay into one shard of two replicas, of which the first is in use."""
    client: Any = replicas[0]
    known = {} if shows else {"columns": ()}
    shard, clock = ShardTable(client, table("ReplicatedMergeTree", **known), URLS), StoppedClock()
    cluster: Any = SimpleNamespace(
        every_server=lambda _: [one for one in replicas if one.listed],
        former_servers=lambda _: [one for one in replicas if not one.listed],
        is_routed=lambda _: routed,
        clock=clock,
    )
    ledger: Any = SimpleNamespace(layout=lambda _: None)
    unused: Any = None
    window = DedupWindow(lambda *_: [shard], clock, margin_s=30, insert_s=120)
    return Replay(cluster, unused, ledger, unused, unused, window, unused, unused)


@pytest.mark.parametrize("routed", [True, False])
def test_no_replica_may_still_insert_what_a_person_says_never_landed(replicas: list[Replica], *, routed: bool) -> None:
    """⚑ New tokens follow, so nothing else keeps the rows of a killed replay's insert from landing beside the next one's."""
    replicas[1].busy = 1000
    with pytest.raises(UnavailableError, match="CHS-710.*http://b"):
        replay(replicas, routed=routed)._offsets_there(KEY, RECORD)
    assert not any("rows" in one.asked for one in replicas), "no row is looked for before that"


@pytest.mark.parametrize(("routed", "shows"), [(True, False), (False, True)])
def test_who_decided_while_a_server_inserted_looks_again(replicas: list[Replica], *, routed: bool, shows: bool) -> None:
    """⚑ Found by an adversary: the table shows no rows, so nobody waited, and each record had two."""
    replicas[1].busy = 2
    with pytest.raises(HaltError, match="CHS-336.*http://b was still inserting"):
        replay(replicas, routed=routed, shows=shows)._offsets_there(KEY, RECORD)
    assert replay(replicas, routed=routed, shows=shows)._offsets_there(KEY, RECORD) is None
    replicas[1].busy = 2
    assert replay(replicas)._offsets_there(KEY, RECORD) == {}, "that is looked for once the server has ended"


def test_a_list_can_be_called_landed_when_one_of_its_servers_is_gone(
    replicas: list[Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its shard was removed, and its server switched off: no verdict would ever settle it.  The others ask for it."""
    confirmed: list[StateKey] = []
    monkeypatch.setattr(Replay, "_confirm", lambda _, keys: confirmed.extend(keys))
    made = replay(replicas)
    made.sender, made.ledger.records = SimpleNamespace(mark=lambda *_: None), {KEY: RECORD}  # type: ignore[assignment]
    replicas[1].gone = True
    with pytest.raises(UnavailableError, match="CHS-709.*http://b"):
        made._offsets_there(KEY, RECORD)
    made._mark(KEY, RECORD)
    assert confirmed == [KEY]


def test_rows_that_are_there_are_there_on_two_replicas(replicas: list[Replica]) -> None:
    """⚑ One replica's rows may be given up by the others; a list that a person calls landed is never sent again."""
    assert replay(replicas)._offsets_there(KEY, RECORD) == {}
    assert all("current" in one.asked for one in replicas)


def test_a_replica_that_was_removed_is_waited_for_if_it_answers(replicas: list[Replica]) -> None:
    """⚑ It may still insert; if it is gone, nothing has to wait for it."""
    replicas[1].listed, replicas[1].busy = False, 1000
    with pytest.raises(UnavailableError, match="CHS-710.*http://b"):
        replay(replicas, shows=False)._offsets_there(KEY, RECORD)
    replicas[1].gone = True
    assert replay(replicas, shows=False)._offsets_there(KEY, RECORD) is None
