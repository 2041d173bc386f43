"""One topic to several tables: a driver for each *lane*, one lane after the other, all on one ledger.

A lane holds at most one route of each topic: lane 0 the first route of each, lane 1 the second, and so on.  So within a
lane a topic-partition has one table, one record and one range, and the protocol is the same as without further tables.

Rules:
- One claim for all lanes: they share the ledger, and with it the epoch.
- A batch is done when each lane has landed it.  A lane decides from its own records alone, so a crash between two lanes
  is nothing new: the first one finds the batch landed, the second one lands it.
- A plan may read a topic again for one table.  Lanes that already have a re-planned range skip it.  So each lane knows
  the records of the others: what it has is no rewind then, and what it lacks is passed over if another lane has it.
- Between two lanes of a batch, records must not change their table (``statemachine.choices``): nothing is in doubt, so
  no lane notices by itself.
- A halt of one lane does not keep the others from landing.  All halts are raised as one.
- Another error ends the batch at once: the next start meets the halts again.
- Lane 0 has every topic, so it takes the records of the batch at hand.  A lane with fewer topics reads its own ranges
  from Kafka exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from chsink.batch.model import PlannedBatch
from chsink.batch.roles import ExactReads
from chsink.driver.driver import Destination, Driver
from chsink.driver.ledger import Ledger
from chsink.driver.roles import Assignment, PieceRunner
from chsink.errors import HaltError, halts
from chsink.errors.several import raise_all
from chsink.statemachine import writes
from chsink.statemachine.choices import mixed_choices
from chsink.statemachine.parts import TableChoice
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord, TopicTable


def in_lanes(destinations: Iterable[Destination]) -> list[dict[str, Destination]]:
    """The destinations of each lane by topic, in the given order; one empty lane where there are none."""
    lanes: list[dict[str, Destination]] = [{}]
    for destination in destinations:
        free = next((lane for lane in lanes if destination.topic not in lane), None)
        if free is None:
            lanes.append(free := {})
        free[destination.topic] = destination
    return lanes


def answering(lanes: Sequence[Mapping[str, Destination]], lane: int) -> Callable[[TopicTable], bool]:
    """For which tables of which topics a lane answers: its own; lane 0 also for those that no route leads to now."""
    routed = {(d.topic, d.table): at for at, each in enumerate(lanes) for d in each.values()}
    return lambda leads: routed.get(leads, 0) == lane


@dataclass(frozen=True, slots=True)
class Lanes:
    """:class:`chsink.batch.roles.Lander` over at least one driver, all on the same ``ledger``."""

    drivers: Sequence[Driver]
    from_first: bool = False
    """Whether a new table gets what Kafka still holds of its topics (``kafka.starting_offsets``)."""

    @property
    def ledger(self) -> Ledger:
        """The state rows of all lanes."""
        return self.drivers[0].ledger

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic, which lane 0 has."""
        return tuple(self.drivers[0].routes)

    def claim(self, layouts: Mapping[str, str]) -> None:
        """Claim the sink, with a row for every partition and table of its topics.

        PreflightError when a table has rows of a partition of which nothing was ever announced: the state was lost.
        """
        first = self.drivers[0]
        partitions = first.kafka.partitions(first.routes)
        keys = [driver.keys_of(partitions) for driver in self.drivers]
        self.ledger.claim([key for of_lane in keys for key in of_lane], layouts)
        for driver, of_lane in zip(self.drivers, keys, strict=True):
            driver.check_claimed(of_lane)
        first.observer.state(self.ledger.records)

    def check_owned(self) -> None:
        """FencedError CHS-801 when a newer driver owns the sink."""
        self.ledger.check_owned()

    def settle_all(self, runner: ExactReads[Assignment]) -> None:
        """Settle every range in doubt of the sink by exact reads.  Raises all halts as one, when others are settled."""
        self._each(lambda driver: driver.settle_all(runner))

    def process(self, batch: PlannedBatch, runner: PieceRunner) -> None:
        """Land the batch.  Idempotent: the same batch again changes nothing that landed."""
        assert {tp.topic for tp in batch.ranges} <= self.drivers[0].routes.keys(), "lane 0 has every topic"
        if self.ledger.chosen:  # before one table lands: the row of another, if it were made then, would begin behind
            self.ledger.ensure(key for driver in self.drivers for key in driver.keys_of(batch.ranges))
        read = {tp for tp, offsets in batch.ranges.items() if not offsets.is_empty}
        self._check_choices(read)

        def land(driver: Driver) -> None:
            mine = {tp: offsets for tp, offsets in batch.ranges.items() if tp.topic in driver.routes}
            others = {tp: tuple(map(self.ledger.records.get, self._others(tp, driver))) for tp in mine}
            history = batch.history | self._passed(mine, driver)
            todo = replace(batch, ranges=mine, history=history, others=others)
            driver.process(todo, runner, framed=read <= mine.keys())

        self._each(land)
        self._leave(read)

    def _passed(self, planned: Mapping[TopicPartition, OffsetRange], lane: Driver) -> frozenset[TopicPartition]:
        """Where a table has no range yet, and the plan begins behind records that it should get.

        Either another table of the topic had them before this checkpoint, or the table was reset and the checkpoint
        began at its old end: a state store whose reads lag can still give that.
        """
        records, suspects = self.ledger.records, []
        for key in lane.keys_of(planned):
            mine, tp = records.get(key), key.topic_partition
            begins, was_reset = planned[tp].start, mine is not None and mine.life.incarnation > 0
            if not begins or not (self.from_first or was_reset) or (mine is not None and mine.phase is not Phase.EMPTY):
                continue
            others = [records[other] for other in self._others(tp, lane) if other in records]
            had = any(r.phase is not Phase.EMPTY and r.life.first < begins for r in others)
            if had or was_reset:
                suspects.append(tp)
        starts = lane.kafka.log_starts(suspects) if suspects else {}
        return frozenset(tp for tp in suspects if starts[tp] < planned[tp].start)

    def _others(self, tp: TopicPartition, lane: Driver) -> list[StateKey]:
        """The keys of the topic-partition's tables in the other lanes."""
        return [key for driver in self.drivers if driver is not lane for key in driver.keys_of([tp])]

    @property
    def _pipelines(self) -> dict[str, dict[str, str]]:
        """For each topic, the present pipelines of the tables to which a route leads."""
        found: dict[str, dict[str, str]] = {}
        for driver in self.drivers:
            for topic, to in driver.routes.items():
                found.setdefault(topic, {})[to.table] = to.pipeline
        return found

    def _check_choices(self, read: Iterable[TopicPartition]) -> None:
        """HaltError where ``table_by`` changed in the middle of a batch (:mod:`chsink.statemachine.choices`)."""
        pipelines = self._pipelines
        found: dict[TopicPartition, dict[str, StateRecord]] = {tp: {} for tp in sorted(read)}
        for key, record in self.ledger.records.items():
            if key.topic_partition in found:
                found[key.topic_partition][key.table] = record
        halted = []
        for tp, records in found.items():
            mixed = mixed_choices(self._of_this_topic(tp, records), pipelines[tp.topic])
            if mixed is not None:
                known = {"tp": tp, "topic": tp.topic, "ahead": mixed.ahead, "behind": mixed.behind}
                halted.append(halts.CHOICE_CHANGED(range=mixed.offsets, **known))
        raise_all(halted)

    def _of_this_topic(self, tp: TopicPartition, records: Mapping[str, StateRecord]) -> dict[str, StateRecord]:
        """The records; of a topic that was deleted since, nothing has passed yet."""
        if len({r.life.topic_id for r in records.values() if r.life.topic_id is not None}) < 2:
            return dict(records)
        now = self.drivers[0].kafka.topic_ids([tp.topic])[tp.topic]
        gone = {table for table, r in records.items() if r.is_of_another(now)}
        unread = writes.empty(self.ledger.epoch, "-")
        return {
            table: replace(unread, table_by=TableChoice(left=r.table_by.left)) if table in gone else r
            for table, r in records.items()
        }

    def _leave(self, read: Container[TopicPartition]) -> None:
        """Once a batch has landed in all tables, mark those without a route as left: nothing waits for them."""
        pipelines = self._pipelines
        behind = {
            key: record
            for key, record in self.ledger.records.items()
            if key.topic_partition in read
            and key.table not in pipelines[key.topic]
            and not (record.table_by.left or record.in_doubt)
        }
        if behind:
            attempt, epoch = self.ledger.attempt(), self.ledger.epoch
            self.ledger.write({k: writes.left(r, epoch=epoch, attempt=attempt) for k, r in behind.items()})

    def _each(self, act: Callable[[Driver], None]) -> None:
        halted = []
        for driver in self.drivers:
            try:
                act(driver)
            except HaltError as error:
                halted.append(error)
        raise_all(halted)
