"""One topic to several tables: lanes that share a ledger, of which none answers for another one's ranges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chsink.batch.model import PlannedBatch
from chsink.driver.driver import Destination, Driver
from chsink.driver.lanes import Lanes, answering, in_lanes
from chsink.errors import ChsinkError, HaltError, halts, services
from chsink.statemachine.parts import Sending, TopicLife
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord
from chsink.statemachine.table import Facts, Halt, Policy, decide

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def to(topic: str, table: str) -> Destination:
    return Destination(topic, table, 10, "layout", "pipeline")


LANES = in_lanes([to("t", "d.a"), to("u", "d.a"), to("t", "d.b"), to("t", "d.c")])


def test_a_lane_has_one_table_of_a_topic() -> None:
    tables = [{topic: d.table for topic, d in lane.items()} for lane in LANES]
    assert tables == [{"t": "d.a", "u": "d.a"}, {"t": "d.b"}, {"t": "d.c"}]
    assert in_lanes([]) == [{}]


def test_a_range_in_doubt_is_of_one_lane() -> None:
    """⚑ Each lane settles its own; what no route leads to any more is lane 0's, which halts."""
    unused: Any = None
    in_doubt = StateRecord(Phase.BEFORE, 1, "a", 10, 20, life=TopicLife("id"), sent=Sending(4))
    keys = [StateKey("s", "t", 0, table) for table in ("d.a", "d.b", "d.c", "d.gone")]
    ledger: Any = SimpleNamespace(records=dict.fromkeys(keys, in_doubt))
    drivers = [
        Driver(ledger, lane, unused, unused, unused, unused, unused, unused, answers_for=answering(LANES, at))
        for at, lane in enumerate(LANES)
    ]
    mine = [[key.table for key in driver.in_doubt()] for driver in drivers]
    assert mine == [["d.a", "d.gone"], ["d.b"], ["d.c"]]


@dataclass
class Lane:
    """A driver that records what it was asked, and raises what it is told to."""

    routes: dict[str, Destination]
    error: ChsinkError | None = None
    asked: list[tuple[set[TopicPartition], bool]] = field(default_factory=list)
    halts: dict[TopicPartition, Halt | None] = field(default_factory=dict)
    history: set[TopicPartition] = field(default_factory=set)
    ledger: Any = field(default_factory=lambda: SimpleNamespace(records={}, epoch=1, chosen=()))
    kafka: Any = None

    def process(self, batch: PlannedBatch, _runner: object, *, framed: bool = True) -> None:
        self.asked.append((set(batch.ranges), framed))
        self.history = set(batch.history)
        for key in self.keys_of(batch.ranges):
            tp, facts = key.topic_partition, Facts("id", others=batch.others[key.topic_partition])
            self.halts[tp] = decide(self.ledger.records.get(key), batch.ranges[tp], facts, Policy()).halt
        if self.error:
            raise self.error

    def keys_of(self, partitions: Iterable[TopicPartition]) -> list[StateKey]:
        known = [tp for tp in partitions if tp.topic in self.routes]
        return [StateKey("s", tp.topic, tp.partition, self.routes[tp.topic].table) for tp in known]

    def settle_all(self, _runner: object) -> None:
        self.process(PlannedBatch(0, {}), None)


def lanes(*errors: ChsinkError | None) -> tuple[Lanes, list[Lane]]:
    made = [Lane(lane, error) for lane, error in zip(LANES, errors, strict=True)]
    return Lanes(cast("list[Driver]", made)), made


@pytest.mark.parametrize(("length", "framed"), [(5, False), (0, True)])
def test_a_lane_takes_the_batch_at_hand_if_it_has_all_topics_with_records(length: int, framed: bool) -> None:
    together, each = lanes(None, None, None)
    batch = PlannedBatch(1, {T0: OffsetRange(0, 5), T1: OffsetRange(0, 0), U0: OffsetRange(0, length)})
    together.process(batch, cast("Any", None))
    assert [lane.asked for lane in each] == [[({T0, T1, U0}, True)], [({T0, T1}, framed)], [({T0, T1}, framed)]]


def test_a_halt_keeps_no_other_lane_and_all_are_raised_as_one() -> None:
    """⚑ With one command for each of the partitions, whichever lane they halted in."""
    gone = [halts.LAYOUT_LOST(tp=tp, table=table, layout="x") for tp, table in ((T0, "d.a"), (T1, "d.c"))]
    together, each = lanes(gone[0], None, gone[1])
    with pytest.raises(HaltError) as raised:
        together.settle_all(cast("Any", None))
    assert all(lane.asked for lane in each)
    assert raised.value.message == f"{gone[0].message}; the same for {T1}: d.c"


def test_another_error_ends_the_batch() -> None:
    together, each = lanes(None, services.TARGET_UNANSWERED(error="x"), None)
    with pytest.raises(ChsinkError, match="CHS-7"):
        together.process(PlannedBatch(1, {T0: OffsetRange(0, 5)}), cast("Any", None))
    assert [len(lane.asked) for lane in each] == [1, 1, 0]


@pytest.mark.parametrize(("end", "again"), [(0, True), (5, True), (6, False)])
def test_what_is_read_again_for_another_table_is_no_rewind(end: int, again: bool) -> None:
    """⚑ Nor after a crash between the two tables, when the other one has just landed it.  What all tables have passed is
    a rewind as ever.
    """
    together, each = lanes(None, None, None)
    landed = StateRecord(Phase.AFTER, 1, "a", 10, 20, life=TopicLife("id"), sent=Sending(4))
    keys = [key for lane in each for key in lane.keys_of([T0, T1])]
    slow = replace(landed, start=0, end=end) if end else StateRecord(Phase.EMPTY, 1, "a")
    records = dict.fromkeys(keys, landed) | {StateKey("s", "t", 0, "d.b"): slow}
    for driver in each:
        driver.ledger.records.update(records)
    together.process(PlannedBatch(1, {T0: OffsetRange(0, 5), T1: OffsetRange(0, 5)}), cast("Any", None))
    rewound = {T0: None if again else Halt.REWOUND, T1: Halt.REWOUND}
    assert [lane.halts for lane in each] == [rewound, rewound | {T0: None}, rewound]


def test_older_offsets_that_no_table_has_are_no_other_tables() -> None:
    """⚑ CHS-305 holds for each table: also for the second one, once the first has landed the batch."""
    together, each = lanes(None, None, None)
    landed = StateRecord(Phase.AFTER, 1, "a", 10, 20, life=TopicLife("id", first=5), sent=Sending(4))
    records = {key: landed for lane in each for key in lane.keys_of([T0])}
    for driver in each:
        driver.ledger.records.update(records)
    together.process(PlannedBatch(1, {T0: OffsetRange(2, 30)}), cast("Any", None))
    assert [lane.halts for lane in each] == [{T0: Halt.OUTSIDE_PROCESSED}] * 3


@pytest.mark.parametrize(
    ("began", "log_start", "from_first", "lacks"),
    [(0, 0, True, True), (0, 50, True, False), (0, 0, False, False), (50, 0, True, False)],
)
def test_a_new_table_does_not_begin_behind_records_that_kafka_holds(
    began: int, log_start: int, from_first: bool, lacks: bool
) -> None:
    """⚑ The checkpoint's first offset may lie behind what the topic's other tables had before: it shows no history."""
    kafka: Any = SimpleNamespace(log_starts=lambda tps: dict.fromkeys(tps, log_start))
    together, each = lanes(None, None, None)
    landed = StateRecord(Phase.AFTER, 1, "a", began, 90, life=TopicLife("id", first=began), sent=Sending(4))
    for lane in each:
        lane.kafka = kafka
        lane.ledger.records |= dict.fromkeys(each[0].keys_of([T0]), landed)
    replace(together, from_first=from_first).process(PlannedBatch(1, {T0: OffsetRange(50, 95)}), cast("Any", None))
    assert [lane.history for lane in each] == [set(), *[{T0} if lacks else set()] * 2]


@pytest.mark.parametrize(("incarnation", "log_start", "lacks"), [(1, 0, True), (1, 50, False), (0, 0, False)])
@pytest.mark.parametrize("from_first", [True, False])
def test_a_table_that_was_reset_does_not_begin_where_it_was_before(
    incarnation: int, log_start: int, lacks: bool, from_first: bool
) -> None:
    """⚑ A state store whose reads lag gave the new checkpoint the end from before the reset: all else was lost."""
    _, (first, *_) = lanes(None, None, None)
    first.kafka = SimpleNamespace(log_starts=lambda tps: dict.fromkeys(tps, log_start))
    alone = Lanes(cast("list[Driver]", [first]), from_first)
    reset = StateRecord(Phase.EMPTY, 1, "a", life=TopicLife(None, incarnation=incarnation))
    first.ledger.records |= dict.fromkeys(first.keys_of([T0]), reset)
    alone.process(PlannedBatch(1, {T0: OffsetRange(50, 95)}), cast("Any", None))
    assert first.history == ({T0} if lacks else set())


def chosen(table: str, pipeline: str) -> Lane:
    return Lane({"t": replace(to("t", table), pipeline=pipeline)})


def share(each: list[Lane], records: dict[str, StateRecord]) -> Lanes:
    """Lanes over these drivers, and a ledger with these records of partition 0."""
    store = {StateKey("s", "t", 0, table): record for table, record in records.items()}
    ledger = SimpleNamespace(records=store, epoch=1, chosen=(), attempt=lambda: "left", write=store.update)
    for lane in each:
        lane.ledger = ledger
    return Lanes(cast("list[Driver]", each))


LAST = StateRecord(
    Phase.AFTER, 1, "a", 10, 20, life=TopicLife("id"), sent=Sending(pipeline="decoder=0,table_by=old,table=2")
)
PLAN = PlannedBatch(1, {T0: OffsetRange(10, 20)})


def test_no_lane_is_asked_where_records_would_change_their_table_within_a_batch() -> None:
    """⚑ One lane has landed the batch under one ``table_by``; nothing is in doubt."""
    each = [chosen("d.a", "decoder=1,table_by=new"), chosen("d.b", "decoder=1,table_by=other")]
    together = share(each, {"d.a": LAST, "d.b": replace(LAST, start=0, end=10)})
    with pytest.raises(
        HaltError, match=r"offsets \[10, 20\) were announced for table d\.a but not yet for table d\.b"
    ) as e:
        together.process(PLAN, cast("Any", None))
    assert e.value.id == "CHS-309"
    assert not any(lane.asked for lane in each)


def test_a_partition_without_records_is_compared_when_it_has_some() -> None:
    """Nothing lands there now, and a batch that other partitions need would never be done."""
    each = [chosen("d.a", "decoder=1,table_by=new"), chosen("d.b", "decoder=1,table_by=other")]
    together = share(each, {"d.a": LAST, "d.b": replace(LAST, start=0, end=10)})
    together.process(PlannedBatch(1, {T0: OffsetRange(20, 20), T1: OffsetRange(0, 5)}), cast("Any", None))
    assert all(lane.asked for lane in each)
    with pytest.raises(HaltError, match="CHS-309"):
        together.process(PlannedBatch(2, {T0: OffsetRange(20, 25)}), cast("Any", None))


def test_a_topic_that_was_recreated_has_passed_nothing() -> None:
    """⚑ Table b is still at the deleted topic's end, which says nothing of the new one's records."""
    each = [chosen("d.a", "table_by=new"), chosen("d.b", "table_by=other")]
    anew = replace(LAST, start=0, end=5, life=replace(LAST.life, topic_id="now"))
    together = share(each, {"d.a": anew, "d.b": LAST})
    for lane in each:
        lane.kafka = SimpleNamespace(topic_ids=lambda topics: dict.fromkeys(topics, "now"))
    with pytest.raises(HaltError, match=r"offsets \[0, 5\)"):
        together.process(PlannedBatch(1, {T0: OffsetRange(0, 5)}), cast("Any", None))


def test_a_table_without_a_route_is_left_once_a_batch_has_landed_in_all_others() -> None:
    """⚑ Until then its batch is to land in it, too."""
    each = [chosen("d.a", "table_by=old")]
    together = share(each, {"d.a": LAST, "d.gone": replace(LAST, start=0, end=10)})
    each[0].error = halts.LAYOUT_LOST(tp=T0, table="d.a", layout="x")
    with pytest.raises(HaltError, match="CHS-312"):
        together.process(PLAN, cast("Any", None))
    assert not any(record.table_by.left for record in together.ledger.records.values())
    each[0].error = None
    together.process(PLAN, cast("Any", None))
    assert {key.table for key, record in together.ledger.records.items() if record.table_by.left} == {"d.gone"}


def test_a_table_is_left_only_in_partitions_of_which_records_landed_without_it() -> None:
    """⚑ Elsewhere its last batch may have landed in the other tables only: what it lacks there must not be chosen anew."""
    together = share([chosen("d.a", "table_by=old")], {"d.a": LAST, "d.gone": LAST})
    gone = [StateKey("s", "t", partition, "d.gone") for partition in range(3)]
    together.ledger.records.update(dict.fromkeys(gone, LAST))
    together.process(PlannedBatch(1, {T0: OffsetRange(20, 30), T1: OffsetRange(20, 20)}), cast("Any", None))
    assert [together.ledger.records[key].table_by.left for key in gone] == [True, False, False]


def test_rows_of_all_lanes_are_made_before_one_lands() -> None:
    """⚑ The next start would take the row of the second table for that of a table that is named only now."""
    together, each = lanes(None, None, None)
    made: list[set[str]] = []
    each[0].ledger.chosen = {("t", "d.a"), ("t", "d.b")}
    each[0].ledger.ensure = lambda keys: made.append({key.table for key in keys})
    together.process(PLAN, cast("Any", None))
    assert made == [{"d.a", "d.b", "d.c"}]
