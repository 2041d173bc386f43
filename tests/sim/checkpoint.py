"""Simulated Spark checkpoint: the offset log that plans a batch before it runs, and the query that follows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chsink.batch.model import PlannedBatch
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.sim.hub import Hub
from tests.sim.kafka import Kafka


class SparkDied(Exception):
    """The query failed for a reason of Spark's own: *data loss*, *concurrent query* or *task failed*."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(slots=True)
class Checkpoint:
    """What Spark keeps on a file system: where the source began, planned ends of each batch, and which are done."""

    initial: dict[TopicPartition, int] | None = None
    offsets: list[dict[TopicPartition, int]] = field(default_factory=list)
    commits: set[int] = field(default_factory=set)

    def copy_until(self, batches: int) -> Checkpoint:
        """A backup made after so many batches."""
        return Checkpoint(self.initial, self.offsets[:batches], {n for n in self.commits if n < batches})


@dataclass(slots=True)
class Query:
    """One process's view of the checkpoint.  ``limit`` is maxOffsetsPerTrigger, per partition.

    It reads the log once; then it goes on from memory, and dies when somebody else logged its next batch.
    """

    hub: Hub
    kafka: Kafka
    checkpoint: Checkpoint
    limit: int
    at: int = 0
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    again: dict[TopicPartition, int] | None = None

    def start(self, starting: Mapping[TopicPartition, int]) -> None:
        """Begin where the checkpoint ends; ``starting`` serves a new one."""
        self.hub.pause()
        if self.checkpoint.initial is None:
            self.checkpoint.initial = dict(starting)
        log = self.checkpoint.offsets
        self.at = len(log)
        if self.at and self.at - 1 not in self.checkpoint.commits:
            self.at -= 1
            self.again = log[self.at]
        self.starts = log[self.at - 1] if self.at else self.checkpoint.initial

    def next_batch(self) -> PlannedBatch | None:
        """The plan of the next batch, logged before it runs; None when there is nothing new."""
        self.hub.pause()
        ends = self.again
        if ends is None:
            ends = self._plan()
            if ends is None:
                return None
            self.hub.pause()
            if self.at != len(self.checkpoint.offsets):
                raise SparkDied("concurrent query")
            self.checkpoint.offsets.append(ends)
        self.again = ends
        initial = self.checkpoint.initial or {}
        ranges = {tp: OffsetRange(self.starts.get(tp, 0), end) for tp, end in sorted(ends.items())}
        history = frozenset(tp for tp, r in ranges.items() if r.start > initial.get(tp, 0))
        return PlannedBatch(self.at, ranges, history)

    def commit(self) -> None:
        """The batch is done."""
        self.hub.pause()
        self.checkpoint.commits.add(self.at)
        self.at += 1
        self.starts, self.again = self.again or {}, None

    def _plan(self) -> dict[TopicPartition, int] | None:
        ends = {}
        for tp in self.kafka.all():
            start, end = self.starts.get(tp, 0), self.kafka.log(tp).end
            if end < start:
                raise SparkDied("data loss")
            ends[tp] = min(end, start + self.limit)
        return None if all(ends[tp] == self.starts.get(tp, 0) for tp in ends) else ends
