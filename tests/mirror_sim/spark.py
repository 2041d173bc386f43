"""Simulated Spark jobs of the mirror: tasks that are retried, run twice, and outlive their driver.

Every task runs the production :class:`chsink.mirror.task.MirrorTask` over what it reads from the simulated Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema

from chsink.batch.model import Ack, PlannedBatch
from chsink.batch.roles import TaskBody, Tasks
from chsink.formats.settings import Raw
from chsink.mirror.task import Share
from chsink.ports import Decoded
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.mirror_sim.catalog import data_file
from tests.mirror_sim.shared import value_of
from tests.sim.checkpoint import SparkDied
from tests.sim.hub import NEVER, Actor, Group
from tests.sim.kafka import uid_of
from tests.sim.tasks import MAX_ATTEMPTS, Attempt, Task

if TYPE_CHECKING:
    from tests.mirror_sim.world import World


class Runner:
    """:class:`chsink.batch.roles.BatchTasks` of one driver process."""

    def __init__(self, world: World, tasks: Tasks[Share]) -> None:
        self.world, self.tasks = world, tasks
        assert world.hub.current is not None
        self.driver = world.hub.current.group

    def from_batch(self, batch: PlannedBatch, assignments: Sequence[Share]) -> list[Ack]:
        """One task per planned topic-partition that is not empty."""
        ranges = {tp: r for tp, r in batch.ranges.items() if not r.is_empty}
        return _Job(self, self.tasks.body(assignments, ranges), exact=False).run(ranges)

    def from_kafka(self, assignments: Sequence[Share]) -> list[Ack]:
        """One task per assignment."""
        ranges = {a.topic_partition: a.held for a in assignments}
        return _Job(self, self.tasks.body(assignments, ranges), exact=True).run(ranges)


class _Job:
    """One action."""

    def __init__(self, runner: Runner, body: TaskBody, *, exact: bool) -> None:
        self.world, self.driver, self.body, self.exact = runner.world, runner.driver, body, exact
        self.waiting: Actor | None = None

    def run(self, ranges: Mapping[TopicPartition, OffsetRange]) -> list[Ack]:
        tasks = [Task(n, tp, r, self.exact) for n, (tp, r) in enumerate(sorted(ranges.items()))]
        for task in tasks:
            self._attempt(task)
        self.waiting = self.world.hub.current
        while True:
            for task in tasks:
                if task.error is not None:
                    raise task.error
            acks = [task.ack for task in tasks if task.ack is not None]
            if len(acks) == len(tasks):
                return acks
            self.world.hub.pause(NEVER)

    def _attempt(self, task: Task) -> None:
        """Start one more attempt, and sometimes a speculative one beside it."""
        world, hub, group = self.world, self.world.hub, Group("executor")
        task.attempts += 1
        task.running.append(group)

        def run() -> None:
            try:
                ack = self.body(task.number, self._read(task))
            except SparkDied as error:
                task.error = error
            else:
                task.ack = task.ack or Ack.from_json(ack.to_json())
            task.running.remove(group)
            world.gone(group)
            self._wake()

        def lost() -> None:
            """The executor died: Spark tries again, a few times."""
            task.running.remove(group)
            if task.ack is not None or task.running or task.error:
                return
            if task.attempts >= MAX_ATTEMPTS:
                task.error = SparkDied("task failed")
                self._wake()
            else:
                self._attempt(task)

        world.executors[id(group)] = Attempt(group, self.driver, lost)
        hub.spawn(group, run)
        if task.attempts < MAX_ATTEMPTS and hub.fault("speculative duplicate", 0.05):
            self._attempt(task)

    def _wake(self) -> None:
        if self.waiting is not None:
            self.waiting.wake = 0

    def _read(self, task: Task) -> Iterator[pa.RecordBatch]:
        """What a Kafka reader gives: the range's visible records, cut anyhow.  A streaming read fails when records are
        lost under it (failOnDataLoss); an exact read is taken to pass over them silently, which is worse.
        """
        world, tp, at = self.world, task.tp, task.range.start
        while at < task.range.end:
            world.hub.pause()
            self._disturb(task)
            log = world.kafka.log(tp)
            if not task.exact and (log.start > at or log.end < task.range.end):
                raise SparkDied("data loss")
            stop = min(task.range.end, at + 1 + int(world.hub.random.random() * 6))
            offsets = log.between(at, stop)
            if offsets:
                yield batch_of(world, tp, offsets)
            at = stop

    def _disturb(self, task: Task) -> None:
        """The worst events while a task reads: its records disappear."""
        world, tp = self.world, task.tp
        if world.hub.fault("retention under a read", 0.02 if task.exact else 0.001):
            log = world.kafka.log(tp)
            world.kafka.expire(tp, min(log.end, task.range.start + 1), lossy=True)
            world.reasons.add("records lost")
        if world.hub.fault("topic recreated under a read", 0.005 if task.exact else 0.0003):
            world.recreate(tp.topic)


def batch_of(world: World, tp: TopicPartition, offsets: Sequence[int]) -> pa.RecordBatch:
    """Records as a task gets them; ``uid`` names each for good."""
    serial = world.kafka.topics[tp.topic].serial
    uids = [uid_of(serial, tp.partition, offset) for offset in offsets]
    times = [world.kafka.times[uid] * 1000 for uid in uids]
    count = len(offsets)
    return pa.RecordBatch.from_arrays(
        [pa.array([tp.topic] * count), pa.array([tp.partition] * count, pa.int32()),
         pa.array(np.array(offsets, np.int64)), pa.array(times, pa.timestamp("us", "UTC")), pa.array(uids, pa.int64()),
         pa.array([world.named.keys.get(uid) or value_of(uid) for uid in uids], pa.binary())],
        names=["topic", "partition", "offset", "timestamp", "uid", "key"],
    )  # fmt: skip


class SimColumns:
    """In place of :class:`chsink.mirror.types.TableColumns`: every record fits."""

    schema, format, keys = Schema(), Raw(type="raw"), None
    names: Mapping[int, tuple[str, ...]] = MappingProxyType({})

    def of_no_table(self) -> SimColumns:
        """See :class:`chsink.mirror.types.TableColumns`."""
        return self

    def decode(self, batch: pa.RecordBatch) -> Decoded:
        """The records as they are."""
        return Decoded(batch, pa.array(range(batch.num_rows), pa.int64()))


class SimFiles:
    """In place of :class:`chsink.mirror.files.DataFiles`: ``rows_each`` rows a file, known to the catalog by name."""

    def __init__(self, world: World, attempt: UUID) -> None:
        self.world, self.attempt = world, attempt
        self.uids: list[int] = []

    held = 0

    def write(self, rows: Any) -> None:
        """Add rows."""
        self.uids += rows.column("uid").to_pylist()

    def close(self) -> list[DataFile]:
        """The files."""
        each, found = self.world.rows_each, []
        for number, at in enumerate(range(0, len(self.uids), each)):
            self.world.hub.pause()
            name, mine = f"{self.attempt}-{number}", tuple(self.uids[at : at + each])
            self.world.catalog.files[name] = mine
            found.append(data_file(name, len(mine)))
        return found
