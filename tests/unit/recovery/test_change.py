"""A command that changes state, on a store that has a table to which no route leads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.connections import Connections
from chsink.clickhouse.landing import new_ledger
from chsink.clock import SystemClock
from chsink.config import Config
from chsink.driver.ledger import Ledger, read_records
from chsink.errors import PreflightError
from chsink.kafka.admin import KafkaAdmin
from chsink.ports import StoredRow
from chsink.recovery.change import carry_out, claim, find
from chsink.recovery.decide import plan_reset
from chsink.state.memory import MemoryStore
from chsink.statemachine import writes
from chsink.statemachine.choices import Mixed, joining, mixed_choices
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Phase, StateKey

JOB: dict[str, Any] = {
    "sink": {"name": "s"},
    "kafka": {"bootstrap": "localhost:9092"},
    "clickhouse": {"endpoints": ["http://a:8123"]},
    "route": [{"topic": "t", "table_by": {"header": "kind", "tables": {"x": "here"}}}],
}
NEVER_ASKED = KafkaAdmin({"bootstrap.servers": "localhost:9"}, timeout_s=1)
HERE, GONE = StateKey("s", "t", 0, "default.here"), StateKey("s", "t", 0, "default.gone")
OTHER = StateKey("s", "t", 1, "default.gone")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    config = Config.from_mapping(JOB, source="job.toml", environ={})
    with closing(Connections(config)) as connections:
        yield Cluster(config, SystemClock(), connections)


@pytest.fixture
def store(cluster: Cluster) -> MemoryStore:
    """Table ``gone`` has no route any more, and was left."""
    store = MemoryStore()
    ledger: Ledger = new_ledger(cluster, store, "the job")
    ledger.claim([HERE, GONE, OTHER], cluster.layouts)
    said = writes.Announcement("id", Sending(10, next(iter(cluster.layouts)), "decoder=1,table_by=1"), Seen(1))
    for key, end in {HERE: 1000, GONE: 100, OTHER: 100}.items():
        range_, record = OffsetRange(0, end), ledger.records[key]
        ledger.write({key: writes.before(record, range_, said, epoch=ledger.epoch, attempt="b", fresh=True)})
        ledger.write({key: writes.after(ledger.records[key], epoch=ledger.epoch, attempt="a")})
    ledger.write({k: writes.left(ledger.records[k], epoch=ledger.epoch, attempt="l") for k in (GONE, OTHER)})
    return store


class Lagging(MemoryStore):
    """A replica of the Keeper that shows an earlier state until it has to catch up."""

    def __init__(self, rows: dict[str, StoredRow], past: dict[str, StoredRow]) -> None:
        super().__init__()
        self._rows, self.past = rows, past

    def load(self, sink: str) -> dict[str, StoredRow]:
        return dict(self.past) or super().load(sink)

    def catch_up(self, row: StoredRow) -> None:
        self.past = {}


def test_nothing_is_decided_by_a_state_that_is_over(cluster: Cluster, store: MemoryStore) -> None:
    """⚑ The message of a refusal names rows to delete: of the range before, they had landed."""
    past = store.load("s")
    ledger: Ledger = new_ledger(cluster, store, "the job")
    ledger.claim([HERE], cluster.layouts)
    said = writes.Announcement("id", ledger.records[HERE].sent, Seen(2))
    newest = writes.before(ledger.records[HERE], OffsetRange(1000, 1010), said, epoch=2, attempt="c", fresh=True)
    ledger.write({HERE: newest})
    lagging = Lagging(store.load("s"), past)
    assert read_records(lagging, "s")[HERE].range == OffsetRange(0, 1000)
    assert find(lagging, "s", "t", [0], "default.here")[HERE].range == OffsetRange(1000, 1010)


def test_a_table_that_was_left_is_reset_like_any_other(cluster: Cluster, store: MemoryStore) -> None:
    """Not refused with CHS-323: nobody but the command itself has changed the record."""
    written = carry_out(cluster, store, plan_reset(cluster, store, "t", []), "reset")
    assert {record.phase for record in written.values()} == {Phase.EMPTY}
    assert written.keys() == {HERE, GONE, OTHER}


def test_a_table_is_reset_for_all_its_topics(cluster: Cluster, store: MemoryStore) -> None:
    """Tables of other topics are not spoken of."""
    more = StateKey("s", "u", 0, "default.gone"), StateKey("s", "v", 0, "default.elsewhere")
    new_ledger(cluster, store, "the job").claim([HERE, GONE, OTHER, *more], cluster.layouts)
    change = plan_reset(cluster, store, None, [], table="default.gone")
    assert change.found.keys() == {GONE, OTHER, more[0]}
    assert "the recorded ranges of t, u (3 partitions) in default.gone" in change.says[0]
    assert not any("default.elsewhere" in said for said in change.says)
    with pytest.raises(PreflightError, match=r"CHS-320.*default\.none"):
        plan_reset(cluster, store, None, [], table="default.none")


def test_nor_is_one_to_which_a_route_leads_again(cluster: Cluster, store: MemoryStore) -> None:
    tables = {"x": "here", "y": "gone"}
    config = Config.from_mapping({**JOB, "route": [{"topic": "t", "table_by": {"header": "kind", "tables": tables}}]})
    again = cluster.anew(config)
    written = carry_out(again, store, plan_reset(again, store, "t", [0]), "reset")
    assert {record.phase for record in written.values()} == {Phase.EMPTY}
    assert read_records(store, "s")[OTHER].table_by.left


def test_a_command_takes_up_no_table_that_was_left(cluster: Cluster, store: MemoryStore) -> None:
    """Else a command that is refused or dies leaves a table that waits, without a route, for what it will never get."""
    carry_out(cluster, store, plan_reset(cluster, store, "t", [1]), "reset")
    assert read_records(store, "s")[GONE].table_by.left


def mixed(store: MemoryStore) -> Mixed | None:
    """What a start halts for (CHS-309) whose only table is ``here``."""
    records = {key.table: record for key, record in read_records(store, "s").items() if key.partition == 0}
    return mixed_choices(records, {HERE.table: "decoder=1,table_by=1"})


@pytest.mark.parametrize("table", ["renamed", "gone"])
def test_no_table_waits_for_one_that_is_reset_and_has_no_route(
    cluster: Cluster, store: MemoryStore, table: str
) -> None:
    """⚑ ``recover`` of a renamed table dies after its claim, and the rename is undone; or a person forgets a table that
    was left.  It had still to pass what another one passed before ``table_by`` changed, so CHS-309 ended each start,
    and undoing the change was no way out.
    """
    key = replace(GONE, table=f"default.{table}")
    ledger = claim(cluster, store, "recover", [StateKey("s", "t", 0, "default.renamed")] if table == "renamed" else [])
    here = ledger.records[HERE]
    ledger.write({HERE: replace(here, start=500, attempt="c", table_by=replace(here.table_by, since=500))})
    assert (mixed(store) is None) == (table == "gone")

    change = plan_reset(cluster, store, "t", [0], table=key.table)
    carry_out(cluster, store, change, "reset")

    assert f"no route leads to {key.table}" in " ".join(change.says)
    assert mixed(store) is None
    records = read_records(store, "s")
    assert not joining(records, [key], {key.topic_table}), "where a route leads to it, it is read from the beginning"
    assert not writes.adopt(records[key], epoch=99, attempt="x", routed=True).table_by.left


def test_its_own_claim_lets_no_table_join_the_others(cluster: Cluster, store: MemoryStore) -> None:
    """Else ``recover`` of a table with a new name finds a record there, and blames another process (CHS-323)."""
    tables = {"x": "here", "y": "renamed"}
    config = Config.from_mapping({**JOB, "route": [{"topic": "t", "table_by": {"header": "kind", "tables": tables}}]})
    renamed = StateKey("s", "t", 0, "default.renamed")
    ledger = claim(cluster.anew(config), store, "recover", [renamed])
    assert ledger.records[renamed].phase is Phase.EMPTY
