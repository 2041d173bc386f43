"""The loop with a lander of its own kind: when it is opened, opened again, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
import structlog

from chsink.batch.loop import BatchLoop, Ended
from chsink.batch.model import Ack, PlannedBatch
from chsink.batch.roles import BatchTasks, ExactReads, Landing, TaskBody
from chsink.errors import AlteredError, ChsinkError, halts
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.rounds import Ranges

TP = TopicPartition("t", 0)
ALTERED = AlteredError("CHS-233", "altered", "start again")
HALT = halts.CHECKPOINT_DAMAGED(path="offsets/3", reason="is missing")


@dataclass(frozen=True)
class Wanted:
    """The least assignment."""

    topic_partition: TopicPartition
    range: OffsetRange

    @property
    def held(self) -> OffsetRange:
        return self.range


@dataclass
class Reads:
    """Runs no task: the lander below has it read what it names."""

    read: list[OffsetRange] = field(default_factory=list)

    def from_kafka(self, assignments: Sequence[Wanted]) -> list[Ack]:
        self.read += [a.range for a in assignments]
        return []

    def from_batch(self, batch: PlannedBatch, assignments: Sequence[Wanted]) -> list[Ack]:
        return self.from_kafka(assignments)


class Tasks:
    fields = ("topic", "partition", "offset")

    def body(self, assignments: Sequence[Wanted], planned: Mapping[TopicPartition, OffsetRange]) -> TaskBody:
        raise AssertionError


@dataclass
class Files:
    """A lander; ``failing`` is what its next batches raise."""

    failing: list[ChsinkError]
    landed: list[int]

    def settle_all(self, runner: ExactReads[Wanted]) -> None:
        runner.from_kafka([Wanted(TP, OffsetRange(0, 5))])

    def process(self, batch: PlannedBatch, runner: BatchTasks[Wanted]) -> None:
        if self.failing:
            raise self.failing.pop(0)
        runner.from_batch(batch, [Wanted(tp, r) for tp, r in batch.ranges.items()])
        self.landed.append(batch.batch_id)

    def check_owned(self) -> None:
        raise AssertionError


@dataclass(frozen=True)
class Batch:
    """A micro-batch of the run ``run``."""

    run: str
    planned: PlannedBatch
    reads: Reads

    def stream(self) -> str:
        return f"stream of {self.run}"

    def tasks(self, landing: Landing[Wanted], stream: str) -> Reads:
        return self.reads


@dataclass
class World:
    """A loop, and what happened to it."""

    failing: list[ChsinkError] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    topics: list[str] = field(default_factory=lambda: ["t"])
    appearing: list[str] = field(default_factory=list)
    adapting: bool = False
    known_of_unrouted: ChsinkError | None = None
    nothing_unrouted: bool = False
    unrouted: list[Ranges] = field(default_factory=list)
    landed: list[int] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    failed: list[BaseException] = field(default_factory=list)
    reads: Reads = field(default_factory=Reads)

    def __post_init__(self) -> None:
        self.loop = BatchLoop(
            self._open,
            lambda batch: self.finished.append(batch.batch_id),
            lambda: self.topics,
            structlog.get_logger(),
            failed=self.failed.append,
            adapt=lambda _: self.adapting,
            pass_over=self._pass_over,
        )

    def _pass_over(self, ranges: Ranges) -> bool:
        self.unrouted.append(ranges)
        if self.known_of_unrouted is not None:
            raise self.known_of_unrouted
        return self.nothing_unrouted

    def _open(self, stream: str) -> Landing[Wanted]:
        self.opened.append(stream)
        self.topics += self.appearing
        return Landing(Files(self.failing, self.landed), Tasks())

    def batch(self, number: int, run: str = "a", topic: str = "t") -> Callable[[], Batch]:
        ranges = {TopicPartition(topic, 0): OffsetRange(number, number + 1)}
        return lambda: Batch(run, PlannedBatch(number, ranges), self.reads)


def test_a_lander_is_open_for_one_run() -> None:
    world = World()
    for number, run in enumerate("aabb"):
        world.loop.land(world.batch(number, run))

    assert world.opened == ["stream of a", "stream of b"]
    assert world.landed == world.finished == [0, 1, 2, 3]


def test_a_topic_of_which_nothing_is_planned_needs_no_route() -> None:
    world = World()
    ranges = {TP: OffsetRange(0, 1), TopicPartition("empty", 0): OffsetRange(0, 0)}
    world.loop.land(lambda: Batch("a", PlannedBatch(0, ranges), world.reads))

    assert (world.opened, world.finished) == (["stream of a"], [0])
    assert world.reads.read == [OffsetRange(0, 1)]


def test_a_start_settles_and_the_first_run_goes_on_with_it() -> None:
    world = World()
    world.loop.start("stream of a", lambda _landing, _stream: world.reads)
    world.loop.land(world.batch(5))

    assert world.opened == ["stream of a"]
    assert world.reads.read == [OffsetRange(0, 5), OffsetRange(5, 6)]


def test_after_a_failure_it_is_opened_again() -> None:
    world = World([HALT])
    with pytest.raises(type(HALT)):
        world.loop.land(world.batch(0))
    world.loop.land(world.batch(0))

    assert world.failed == [HALT] and world.loop.failure is HALT
    assert (len(world.opened), world.landed) == (2, [0])


def test_an_altered_table_opens_it_again_within_the_batch_once() -> None:
    world = World([ALTERED])
    world.loop.land(world.batch(0))
    assert (len(world.opened), world.landed, world.failed) == (2, [0], [])

    world.failing += [ALTERED, ALTERED]
    with pytest.raises(AlteredError):
        world.loop.land(world.batch(1))


def test_a_table_that_is_adapted_opens_it_again_as_often_as_that_happens() -> None:
    world = World([ALTERED] * 5, adapting=True)
    world.loop.land(world.batch(0))
    assert (len(world.opened), world.landed) == (6, [0])

    world.failing += [ALTERED] * 1_000
    with pytest.raises(AlteredError):
        world.loop.land(world.batch(1))


def test_a_table_that_is_adapted_while_a_start_settles() -> None:
    world = World(adapting=True)

    class Altering(Reads):
        def from_kafka(self, assignments: Sequence[Wanted]) -> list[Ack]:
            if len(world.opened) < 3:
                raise ALTERED
            return super().from_kafka(assignments)

    reads = Altering()
    world.loop.start("stream of a", lambda _landing, _stream: reads)
    assert (len(world.opened), reads.read) == (3, [OffsetRange(0, 5)])


def test_a_topic_that_appears_opens_the_lander_again() -> None:
    world = World()
    world.loop.land(world.batch(0))
    world.appearing = ["new"]
    world.loop.land(world.batch(1, topic="new"))
    world.loop.land(world.batch(2, topic="new"))

    assert world.opened == ["stream of a", "stream of a"]
    assert world.finished == [0, 1, 2]


def test_a_topic_without_a_route_is_refused() -> None:
    world = World()
    with pytest.raises(ChsinkError, match="CHS-610"):
        world.loop.land(world.batch(0, topic="else"))
    assert world.landed == []


def test_a_topic_without_a_route_is_passed_over_where_nothing_of_it_can_be_read() -> None:
    """⚑ It waits for its first record, and the other topics go on."""
    world = World(nothing_unrouted=True)
    ranges = {TP: OffsetRange(0, 1), TopicPartition("else", 0): OffsetRange(0, 5)}
    world.loop.land(lambda: Batch("a", PlannedBatch(0, ranges), world.reads))
    assert (world.landed, world.finished) == ([0], [0])


def test_what_is_known_of_ranges_without_a_route_is_said_instead() -> None:
    """⚑ CHS-610 named a way out that led nowhere for a topic that waits, and whose records Kafka has deleted."""
    world = World(known_of_unrouted=HALT)
    none, some = TopicPartition("else", 0), TopicPartition("else", 1)
    ranges = {TP: OffsetRange(0, 1), none: OffsetRange(7, 7), some: OffsetRange(0, 5)}
    with pytest.raises(type(HALT)) as halted:
        world.loop.land(lambda: Batch("a", PlannedBatch(0, ranges), world.reads))

    assert halted.value is HALT
    assert (world.unrouted, world.landed) == ([{some: OffsetRange(0, 5)}], [])


def test_it_ends_between_two_batches_and_may_start_again() -> None:
    world = World()
    assert world.loop.end_after_batch(1)
    with pytest.raises(Ended):
        world.loop.land(world.batch(0))
    assert world.opened == []

    world.loop.start("stream of a", lambda _landing, _stream: world.reads)
    world.loop.land(world.batch(0))
    assert world.landed == [0]
