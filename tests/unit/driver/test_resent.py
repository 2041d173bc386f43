"""``table_by`` that comes, or comes again, to a job with a real ledger and real drivers: each record where it belongs."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from chsink.batch.model import Ack, ChunkAck, PlannedBatch
from chsink.driver.driver import Destination, Driver
from chsink.driver.lanes import Lanes, answering, in_lanes
from chsink.driver.ledger import Ledger
from chsink.driver.pace import TableLimit
from chsink.errors import HaltError
from chsink.state.memory import MemoryStore
from chsink.statemachine import writes
from chsink.statemachine.parts import Mark, Seen, Sending
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey
from chsink.statemachine.table import Policy, choice_of

TP = TopicPartition("t", 0)
ALL = {"d.a": "decoder=1"}
BY = {"d.a": "decoder=1,table_by=even", "d.b": "decoder=1,table_by=odd"}
"""Under it, d.a takes the even offsets."""
RAW = {"d.raw": "decoder=1"}
KAFKA: Any = SimpleNamespace(
    partitions=lambda _: [TP],
    topic_ids=lambda topics: dict.fromkeys(topics, "id"),
    log_starts=lambda tps: dict.fromkeys(tps, 0),
    log_ends=lambda tps: dict.fromkeys(tps, 1000),
)
WINDOW: Any = SimpleNamespace(
    check_unchanged=lambda _: None,
    check_nothing_landed=lambda *_: None,
    limit=lambda _: TableLimit(1000, 3600),
    marks=lambda tables, *_: dict.fromkeys(tables, (Mark(1, 1),)),
    letters_mark=lambda: None,
    must_probe=lambda *_: False,
    wait_for_inserts=lambda *_: None,
    holds_foreign=lambda *_: False,
    is_alone=lambda _: True,
    deadline_ms=lambda: 10**15,
)
OBSERVER: Any = SimpleNamespace(
    phase=lambda _: nullcontext(),
    **{name: lambda *_: None for name in ("landed", "decided", "settling", "state")},
)


class Job:
    """One sink, its store and its tables, through several starts."""

    def __init__(self) -> None:
        self.store, self.numbers, self.rows = MemoryStore(), count(), list[tuple[str, int]]()
        self.dies, self.dies_in = False, ""

    def start(self, pipelines: dict[str, str]) -> Lanes:
        clock: Any = SimpleNamespace(now_ms=lambda: next(self.numbers), steady_ms=lambda: 0, sleep=lambda _: None)
        chosen = {("t", table) for table, pipeline in pipelines.items() if choice_of(pipeline)}
        ledger = Ledger(self.store, "s", "driver", clock, lambda: f"a{next(self.numbers)}", chosen=chosen)
        lanes = in_lanes([Destination("t", table, 10, "layout", pipeline) for table, pipeline in pipelines.items()])
        drivers = [
            Driver(
                ledger,
                lane,
                KAFKA,
                WINDOW,
                clock,
                Policy(),
                OBSERVER,
                lambda topic, _layout, _recorded, lane=lane: lane[topic].pipeline,  # type: ignore[misc]
                answers_for=answering(lanes, at),
            )
            for at, lane in enumerate(lanes)
        ]
        started = Lanes(drivers, from_first=True)
        started.claim({"layout": "{}"})
        return started

    def from_kafka(self, assigned: Any) -> list[Ack]:
        if any(one.key.table == self.dies_in for one in assigned):
            raise KeyboardInterrupt
        return [self._land(one) for one in assigned]

    def from_batch(self, _batch: Any, assigned: Any) -> list[Ack]:
        if self.dies:
            raise KeyboardInterrupt
        return self.from_kafka(assigned)

    def _land(self, one: Any) -> Ack:
        takes_all = not choice_of(one.record.sent.pipeline)
        for offset in range(one.range.start, one.range.end):
            if takes_all or (offset % 2 == 0) == (one.key.table == "d.a"):
                self.rows.append((one.key.table, offset))
        return Ack(0, "t", 0, (ChunkAck(one.range.start, one.range.end),), None)

    def batch(self, started: Lanes, number: int) -> None:
        started.process(PlannedBatch(number, {TP: OffsetRange(number * 10, number * 10 + 10)}), self)


def test_a_range_to_be_sent_again_does_not_follow_a_table_by_that_came_since() -> None:
    """⚑ Its other tables begin behind the range: its records for them would be in no table.  Once the change is undone and
    the range has landed, the change may come again.
    """
    job, key = Job(), StateKey("s", "t", 0, "d.a")
    first = job.start(ALL)
    job.batch(first, 0)
    job.dies = True
    with pytest.raises(KeyboardInterrupt):
        job.batch(first, 1)
    job.dies = False
    doubtful = first.ledger.records[key]
    said = writes.Announcement(
        "id", Sending(10, "layout", ""), Seen(doubtful.seen.before_at, (Mark(1, 1),))
    )  # as `state resolve --resend`
    again = writes.resend(doubtful, said, most=1000, epoch=first.ledger.epoch, attempt="resent")
    first.ledger.write({key: again})
    with pytest.raises(HaltError, match="CHS-309.*table_by"):
        job.start(BY).settle_all(job)

    undone = job.start(ALL)
    undone.settle_all(job)
    job.batch(undone, 1)
    changed = job.start(BY)
    changed.settle_all(job)
    job.batch(changed, 2)

    assert sorted(offset for _, offset in job.rows) == list(range(30))
    assert {table for table, offset in job.rows if offset >= 20} == {"d.a", "d.b"}


def test_tables_that_were_left_together_come_back_together() -> None:
    """⚑ ``table_by`` went for a time, while another table got all records.  When it is back, and the job dies in the first of its
    tables, the second one still gets what the first one has announced.
    """
    job = Job()
    job.batch(job.start({**RAW, **BY}), 0)
    job.batch(job.start(RAW), 1)
    both = PlannedBatch(2, {TP: OffsetRange(10, 30)})  # a new checkpoint
    job.dies_in = "d.a"
    with pytest.raises(KeyboardInterrupt):
        job.start({**RAW, **BY}).process(both, job)
    job.dies_in = ""
    again = job.start({**RAW, **BY})
    again.settle_all(job)
    again.process(both, job)

    shared = [(table, offset) for table, offset in job.rows if table != "d.raw"]
    assert sorted(set(shared)) == sorted(("d.b" if offset % 2 else "d.a", offset) for offset in range(30))
