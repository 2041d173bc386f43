"""Where a new checkpoint starts: what was recorded, never what another partition suggests."""

from __future__ import annotations

from typing import Literal

import pytest

from chsink.clock import SystemClock
from chsink.driver.ledger import Ledger
from chsink.spark.starting import FIRST, NEXT, starting_offsets
from chsink.state.memory import MemoryStore
from chsink.statemachine import writes
from chsink.statemachine.parts import Seen, Sending, TopicLife
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey, StateRecord

SAID = writes.Announcement("id", Sending(10, "layout", "pipeline"), Seen(1000))
EMPTY = writes.empty(1, "a")
Configured = Literal["earliest", "latest"]


def landed(end: int, topic_id: str = "id") -> StateRecord:
    said = writes.Announcement(topic_id, Sending(10, "layout", "pipeline"), Seen(1000))
    return writes.after(
        writes.before(EMPTY, OffsetRange(0, end), said, epoch=1, attempt="b", fresh=True), epoch=1, attempt="c"
    )


def key(partition: int, topic: str = "t", table: str = "d.t") -> StateKey:
    return StateKey("s", topic, partition, table)


def start_of(record: StateRecord | None, configured: Configured, *, log_start: int = 0, others: bool = True) -> int:
    """Where partition 1 of a topic starts; partition 0 has landed something, if there are ``others``."""
    tp, other = TopicPartition("t", 1), TopicPartition("t", 0)
    records = {**({key(0): landed(7)} if others else {}), **({} if record is None else {key(1): record})}
    offsets = starting_offsets(records, [("t", "d.t")], {"t": "id"}, {other: 0, tp: log_start}, configured)
    return offsets["t"]["1"]


@pytest.mark.parametrize("configured", ["earliest", "latest"])
def test_a_recorded_end_is_gone_on_from(configured: Configured) -> None:
    assert start_of(landed(5), configured) == 5
    assert start_of(landed(5), configured, log_start=9) == 9


@pytest.mark.parametrize(("configured", "start"), [("earliest", FIRST), ("latest", NEXT)])
def test_a_partition_that_was_there_at_the_first_start_keeps_to_the_configuration(
    configured: Configured, start: int
) -> None:
    """Before any partition of the topic has landed a record."""
    assert start_of(EMPTY, configured, others=False) == start
    assert start_of(None, configured, others=False) == start


@pytest.mark.parametrize("configured", ["earliest", "latest"])
def test_a_lost_checkpoint_passes_over_nothing(configured: Configured) -> None:
    """⚑ Records may have come to a partition that had none when the sink first started at its end."""
    assert start_of(EMPTY, configured) == FIRST


@pytest.mark.parametrize("configured", ["earliest", "latest"])
def test_a_lost_checkpoint_passes_over_nothing_of_a_topic_that_was_idle(configured: Configured) -> None:
    """⚑ The topic had no record yet when the sink first started at its end; then others landed, and records came."""
    records, routes = {key(0): landed(7), key(0, "idle"): EMPTY}, [("t", "d.t"), ("idle", "d.t")]
    offsets = starting_offsets(records, routes, {"idle": "id"}, {TopicPartition("idle", 0): 0}, configured)
    assert offsets == {"idle": {"0": FIRST}}


@pytest.mark.parametrize("configured", ["earliest", "latest"])
@pytest.mark.parametrize("others", [True, False])
def test_after_a_reset_the_first_offset_comes_first(configured: Configured, *, others: bool) -> None:
    """⚑ Found by an adversary: each new checkpoint began at "latest" again, and passed over what had come since."""
    assert start_of(writes.reset(landed(5), epoch=2, attempt="r"), configured, others=others) == FIRST


@pytest.mark.parametrize("configured", ["earliest", "latest"])
def test_a_partition_or_topic_that_appeared_later_is_read_from_its_first_offset(configured: Configured) -> None:
    assert start_of(None, configured) == FIRST
    assert start_of(writes.empty(1, "a", TopicLife(late=True)), configured) == FIRST
    assert start_of(writes.empty(1, "a", TopicLife(late=True)), configured, others=False) == FIRST
    assert start_of(landed(5, "another id"), configured) == FIRST


@pytest.mark.parametrize("configured", ["earliest", "latest"])
def test_brokers_that_hide_ids_do_not_make_a_topic_look_recreated(configured: Configured) -> None:
    """⚑ Read from its first offset, it would halt for good: offsets that `latest` passed over are in no processed region."""
    tp = TopicPartition("t", 0)

    starts = starting_offsets({key(0): landed(5)}, [("t", "d.t")], {"t": None}, {tp: 0}, configured)

    assert starts == {"t": {"0": 5}}


def test_a_new_topic_of_an_old_sink_keeps_to_the_configuration() -> None:
    records, routes = {key(0, "old"): landed(7)}, [("old", "d.t"), ("new", "d.t")]

    offsets = starting_offsets(records, routes, {"new": "id"}, {TopicPartition("new", 0): 0}, "latest")

    assert offsets == {"new": {"0": NEXT}}


@pytest.mark.parametrize(
    ("second", "configured", "start"),
    [
        (landed(3), "latest", 3),
        (landed(9), "latest", 5),
        (None, "latest", 5),
        (None, "earliest", FIRST),
        (writes.empty(1, "a", TopicLife(late=True)), "latest", FIRST),
        (landed(7, "another id"), "latest", FIRST),
    ],
)
def test_a_topic_starts_where_the_first_of_its_tables_needs_it(
    second: StateRecord | None, configured: Configured, start: int
) -> None:
    """⚑ One record for each table: what one of them has says nothing about the other."""
    records = {key(0): landed(5), **({key(0, table="d.u"): second} if second else {})}
    routes = [("t", "d.t"), ("t", "d.u")]

    assert starting_offsets(records, routes, {"t": "id"}, {TopicPartition("t", 0): 0}, configured) == {
        "t": {"0": start}
    }


def test_a_new_topic_that_a_pattern_matches_is_read_from_its_first_offset_once_the_sink_has_run() -> None:
    new = {TopicPartition("new", 0): 0}

    def start(records: dict[StateKey, StateRecord]) -> int:
        return starting_offsets(records, [("new", "d.n")], {"new": "id"}, new, "latest", matched=["new"])["new"]["0"]

    old = StateKey("s", "old", 0, "d.t")
    assert start({old: landed(7)}) == FIRST
    assert start({old: writes.empty(1, "a", TopicLife(late=False))}) == FIRST
    assert start({}) == NEXT
    assert start({StateKey("s", "new", 0, "d.n"): writes.empty(1, "a", TopicLife(late=False))}) == NEXT


def test_a_claim_records_which_partitions_came_late() -> None:
    store = MemoryStore()
    keys = [StateKey("s", "t", 0, "d.t"), StateKey("s", "t", 1, "d.t"), StateKey("s", "new", 0, "d.n")]
    first, second = (Ledger(store, "s", name, SystemClock(), iter("abcdefgh").__next__) for name in ("one", "two"))

    first.claim(keys[:1], {})
    second.new_attempt = iter("ijklmnop").__next__
    second.claim(keys, {})

    assert [second.records[k].life.late for k in keys] == [False, True, False]


@pytest.mark.parametrize("first", [[], ["old"]])
def test_a_new_topic_of_a_pattern_begins_at_its_first_record_also_if_it_was_claimed_and_nothing_landed(
    first: list[str],
) -> None:
    """⚑ A crash, or a halt of another topic in the batch, after the claim and before anything of the new topic."""
    store = MemoryStore()
    new, ids = StateKey("s", "new", 0, "d.n"), iter("abcdefghijklmnop")
    for topics in (first, [*first, "new"]):
        ledger = Ledger(store, "s", "one", SystemClock(), ids.__next__, matched=topics)
        ledger.claim([StateKey("s", topic, 0, f"d.{topic[0]}") for topic in topics], {})
    routes, held = [("new", "d.n"), ("old", "d.o")], {new.topic_partition: 0}
    offsets = starting_offsets(ledger.records, routes, {"new": "id"}, held, "latest", matched=["new", "old"])
    assert offsets["new"]["0"] == (FIRST if first else NEXT)
