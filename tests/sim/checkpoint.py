"""Simulated Spark checkpoint: the offset log that plans a batch before it runs, and the query that follows it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from chsink.batch.model import PlannedBatch
from chsink.findings import Finding
from chsink.spark.offset_log import planned_batch
from chsink.spark.starting import FIRST, NEXT
from chsink.statemachine.ranges import TopicPartition
from tests.sim.hub import Hub
from tests.sim.kafka import Kafka


class SparkDied(Exception):
    """The query failed for a reason of Spark's own: *data loss*, *concurrent query* or *task failed*."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(slots=True)
class Checkpoint:
    """Spark's files: the offsets where the source began, the planned ends of each batch, and the completed batches."""

    initial: dict[TopicPartition, int] | None = None
    offsets: list[dict[TopicPartition, int]] = field(default_factory=list)
    commits: set[int] = field(default_factory=set)
    where: str = "checkpoint"

    # --- as chsink reads it: :class:`chsink.spark.checkpoint.Folder` ------------------------------------------------

    def write_problem(self) -> Finding | None:
        """It can be written."""
        return None

    def names(self, part: str) -> list[str]:
        """Names of the files in a subfolder."""
        return [str(n) for n in (range(len(self.offsets)) if part == "offsets" else sorted(self.commits))]

    def text(self, path: str) -> str | None:
        """A file as Spark writes it."""
        part, _, name = path.partition("/")
        if part == "offsets":
            return f"v1\n{{}}\n{_by_topic(self.offsets[int(name)])}" if int(name) < len(self.offsets) else None
        if part == "commits":
            return "v1\n{}" if int(name) in self.commits else None
        if part == "sources":
            return None if self.initial is None else f"v1\n{_by_topic(self.initial)}"
        return None if self.initial is None else '{"id": "query"}'

    # --- as people copy it ------------------------------------------------------------------------------------------

    def copy_until(self, batches: int) -> Checkpoint:
        """A backup made after so many batches."""
        return Checkpoint(self.initial, self.offsets[:batches], {n for n in self.commits if n < batches})


def _by_topic(offsets: Mapping[TopicPartition, int]) -> str:
    by: dict[str, dict[str, int]] = {}
    for tp, offset in offsets.items():
        by.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return json.dumps(by)


@dataclass(slots=True)
class Query:
    """One process's view of the checkpoint.  ``limit`` is maxOffsetsPerTrigger, per partition.

    It reads the log once, then continues from memory, and dies if another process has logged its next batch.
    """

    hub: Hub
    kafka: Kafka
    checkpoint: Checkpoint
    limit: int
    at: int = 0
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    again: dict[TopicPartition, int] | None = None

    def start(self, starting: str) -> None:
        """Begin where the checkpoint ends; a new one begins at ``starting`` (the source's ``startingOffsets``)."""
        self.hub.pause()
        if self.checkpoint.initial is None:
            asked = {TopicPartition(t, int(p)): o for t, by in json.loads(starting).items() for p, o in by.items()}
            self.checkpoint.initial = {tp: self._resolved(tp, offset) for tp, offset in asked.items()}
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
        return planned_batch(self.checkpoint, self.at)

    def _resolved(self, tp: TopicPartition, offset: int) -> int:
        log = self.kafka.log(tp)
        return {FIRST: log.start, NEXT: log.end}.get(offset, offset)

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
