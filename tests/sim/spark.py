"""Simulated Spark jobs: tasks that are retried, run twice, and outlive their driver.

Every task runs the production :func:`chsink.batch.task.run_task` over what it reads from the simulated Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chsink.batch.model import Ack, PlannedBatch
from chsink.batch.reader import ReadPlan, Span
from chsink.batch.task import run_task
from chsink.clickhouse.dead_letters import TableLetters
from chsink.clickhouse.landing import letters_topic
from chsink.clickhouse.pieces import Piece, PieceLander, Prepared, sent_again
from chsink.clickhouse.probe import only_of
from chsink.clickhouse.shards import InsertShard
from chsink.clickhouse.writer import ShardWriter
from chsink.dlq.fates import Fates
from chsink.dlq.letters import HEADERS, RECORD_FIELDS, Delivery
from chsink.dlq.topic import open_letters
from chsink.driver.roles import Assignment
from chsink.kafka.exact import Part
from chsink.ports import BadValue, BlockWriter, Clock
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.sim.checkpoint import SparkDied
from tests.sim.clickhouse import LETTERS, REQUEST_TIMEOUT_S, Client, Server
from tests.sim.events import recreate
from tests.sim.hub import NEVER, Actor, Group, Hub
from tests.sim.kafka import PARTITION, Kafka, uid_of
from tests.sim.services import MARGIN_S, clock_of, config_of, shards_of
from tests.sim.tasks import MAX_ATTEMPTS, Attempt, Task

if TYPE_CHECKING:
    from tests.sim.world import World

RETRY_FOR_S = 600


class _Future(Future[Any]):
    """Waits by the hub instead of by a lock."""

    def __init__(self, hub: Hub) -> None:
        super().__init__()
        self.hub = hub
        self.waiting: Actor | None = None

    def result(self, timeout: float | None = None) -> Any:
        self._wait()
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait()
        return super().exception(0)

    def _wait(self) -> None:
        while not self.done():
            self.waiting = self.hub.current
            self.hub.pause(NEVER)


class OneActor(Executor):
    """One more thread of the task's process for each chunk; the task hands over one at a time."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = _Future(self.hub)
        future.set_running_or_notify_cancel()  # what has begun cannot be cancelled: ``map`` tries it after an error
        assert self.hub.current is not None

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)
            if future.waiting is not None:
                future.waiting.wake = 0

        self.hub.spawn(self.hub.current.group, run)
        self.futures.append(future)
        return future

    def __exit__(self, *error: object) -> None:
        for future in self.futures:
            future.exception()


class Runner:
    """:class:`chsink.driver.roles.PieceRunner` of one driver process."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.hub: Hub = world.hub
        assert self.hub.current is not None
        self.driver = self.hub.current.group
        self.prepare = world.prepare
        self.fates = Fates(world.fate)
        self.place = letters_topic(config_of(world))
        self.waiting: Actor | None = None

    def from_batch(self, batch: PlannedBatch, assignments: Sequence[Assignment]) -> list[Ack]:
        """One task per planned topic-partition that is not empty."""
        ranges = {tp: r for tp, r in batch.ranges.items() if not r.is_empty}
        return self._job(ranges, assignments, exact=False)

    def from_kafka(self, assignments: Sequence[Assignment]) -> list[Ack]:
        """One task per assignment."""
        return self._job({a.key.topic_partition: a.held for a in assignments}, assignments, exact=True)

    def _job(
        self, ranges: Mapping[TopicPartition, OffsetRange], assignments: Sequence[Assignment], *, exact: bool
    ) -> list[Ack]:
        hub = self.hub
        assigned = {a.key.topic_partition: a for a in assignments}
        tasks = [Task(n, tp, r, exact) for n, (tp, r) in enumerate(sorted(ranges.items()))]
        for task in tasks:
            self._attempt(task, assigned, ranges)
        while True:
            self.waiting = hub.current
            if any(t.error for t in tasks):
                raise next(t.error for t in tasks if t.error)
            if all(t.ack is not None for t in tasks):
                return [t.ack for t in tasks if t.ack is not None]
            hub.pause(NEVER)

    def _attempt(
        self, task: Task, assigned: Mapping[TopicPartition, Assignment], planned: Mapping[TopicPartition, OffsetRange]
    ) -> None:
        """Start one more attempt, and sometimes a speculative one beside it.

        Where speculative copies may run, each attempt looks.  Here, only where a server is full: elsewhere, tokens are
        to show what they are worth.
        """
        looks = task.attempts or (
            self.hub.factor("speculative duplicate") and any(server.full for server in self.world.servers)
        )
        mine = sent_again(assigned) if looks else assigned
        task.attempts += 1
        group, clock = Group("executor"), clock_of(self.hub)
        task.running.append(group)
        self.world.executors.append(group)

        def run() -> None:
            try:
                spans = {tp: Span(a.range, a.record.sent.chunk_offsets) for tp, a in assigned.items()}
                plan = ReadPlan(planned, spans, max_chunk_bytes=10**9)
                world = self.world
                with self._letters(clock) as letters_for:
                    writer = partial(self._writer, clock)
                    land = PieceLander(mine, self.prepare, writer, world.kafka, self.fates, letters_for)
                    ack = run_task(task.number, self._read(task), plan, land, lambda: OneActor(self.hub))
            except SparkDied as error:
                task.error = error
            else:
                task.ack = task.ack or Ack.from_json(ack.to_json())
            self._ended(task, group)

        def lost() -> None:
            """The executor died: Spark tries again, a few times."""
            task.running.remove(group)
            if task.ack is not None or task.running or task.error:
                return
            if task.attempts >= MAX_ATTEMPTS:
                task.error = SparkDied("task failed")
                self._wake()
            else:
                self._attempt(task, assigned, planned)

        self.world.running[id(group)] = Attempt(group, self.driver, lost)
        self.hub.spawn(group, run)
        if task.attempts < MAX_ATTEMPTS and self.hub.fault("speculative duplicate", 0.03):
            self._attempt(task, assigned, planned)

    def _ended(self, task: Task, group: Group) -> None:
        task.running.remove(group)
        self.world.gone(group)
        self._wake()

    def _wake(self) -> None:
        if self.waiting is not None:
            self.waiting.wake = 0

    def _writer(self, clock: Clock, assignment: Assignment) -> BlockWriter:
        servers: list[Server] = self.world.servers[: shards_of(assignment.layout)]
        table, marks = assignment.key.table, assignment.record.seen.marks
        shards = [
            InsertShard(Client(server), server.describe(table), mark)
            for server, mark in zip(servers, marks[: len(servers)], strict=True)
        ]
        if self.fates.dead_letters and self.place is None:
            first = self.world.servers[0]
            place = InsertShard(Client(first), first.describe(LETTERS), marks[len(servers)], only_of(assignment.key))
            shards.append(place)
        return ShardWriter(shards, {}, clock, RETRY_FOR_S, REQUEST_TIMEOUT_S, MARGIN_S)

    @contextmanager
    def _letters(self, clock: Clock) -> Iterator[Callable[[Assignment, BlockWriter], Delivery]]:
        """How a task's dead letters are stored."""
        if self.place is None:
            yield lambda assignment, writer: TableLetters(writer, shards_of(assignment.layout))
            return
        with open_letters(self.place, clock) as kept:
            yield lambda *_: kept

    def _disturb(self, task: Task) -> None:
        """The worst events while a task reads: its records disappear."""
        world, tp = self.world, task.tp
        if self.hub.fault("retention under a read", 0.02 if task.exact else 0.002):
            log = world.kafka.log(tp)
            world.kafka.expire(tp, min(log.end, task.range.start + 1), lossy=True)
        if self.hub.fault("topic recreated under a read", 0.02 if task.exact else 0.002):
            self.hub.after(0, lambda: recreate(world, tp.topic))

    def _read(self, task: Task) -> Iterator[pa.RecordBatch]:
        """What a Kafka reader gives: the range's visible records, cut anyhow.  A streaming read fails when records are
        lost under it (failOnDataLoss); an exact read is taken to pass over them silently, which is worse.
        """
        kafka: Kafka = self.world.kafka
        at, end, tp = task.range.start, task.range.end, task.tp
        while at < end:
            self.hub.pause()
            self._disturb(task)
            log = kafka.log(tp)
            if not task.exact and (log.start > at or log.end < end):
                raise SparkDied("data loss")
            stop = min(end, at + 1 + int(self.hub.random.random() * 6))
            offsets = [o for o in log.visible if at <= o < stop]
            if offsets:
                serial = kafka.topics[tp.topic].serial
                yield batch_of(tp, offsets, serial)
            at = stop


class Reader:
    """:class:`chsink.kafka.exact.ExactReader`, as a command uses it."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka

    def read(self, tp: TopicPartition, offsets: OffsetRange) -> Iterator[Part]:
        """The range, cut anyhow."""
        at, hub = offsets.start, self._kafka.hub
        while at < offsets.end:
            hub.pause()
            log = self._kafka.log(tp)
            if at < log.start or at >= log.end:
                end = min(log.start, offsets.end) if at < log.start else offsets.end
                yield Part(OffsetRange(at, end), batch_of(tp, [], 0), gone=True)
            else:
                end = min(offsets.end, log.end, at + 1 + int(hub.random.random() * 20))
                serial = self._kafka.topics[tp.topic].serial
                yield Part(OffsetRange(at, end), batch_of(tp, log.between(at, end), serial))
            at = end

    def close(self) -> None:
        """There is no connection."""


def batch_of(tp: TopicPartition, offsets: list[int], serial: int) -> pa.RecordBatch:
    """Records as a task gets them; ``uid`` is the payload."""
    numbers = np.array(offsets, np.int64)
    uids = pa.array(numbers + uid_of(serial, tp.partition, 0))
    topic, partition, key, headers, time, kind = _same_in_all(tp, len(offsets))
    value = uids.cast(pa.string()).cast(pa.binary())
    return pa.RecordBatch.from_arrays(
        [topic, partition, pa.array(numbers), uids, key, value, headers, time, kind],
        names=["topic", "partition", "offset", "uid", *RECORD_FIELDS],
    )


@lru_cache(maxsize=512)
def _same_in_all(tp: TopicPartition, n: int) -> tuple[pa.Array, ...]:
    """Topic, partition, key, headers, timestamp and its type of ``n`` records."""
    return (
        pa.array([tp.topic] * n),
        pa.array([tp.partition] * n, pa.int32()),
        pa.nulls(n, pa.binary()),
        pa.nulls(n, HEADERS),
        pa.array([0] * n, pa.timestamp("us", "UTC")),
        pa.array([0] * n, pa.int32()),
    )


def prepare(records: pa.RecordBatch, assignment: Assignment, *, bad: int) -> Prepared:
    """Pieces by the recorded layout: shard = uid % shards.  Every ``bad``-th record has a value that does not fit."""
    uids = records.column("uid").to_numpy()
    shards = shards_of(assignment.layout)
    fits = uids % bad != 0
    rejected = tuple(BadValue(int(i), "n", "out of range") for i in np.flatnonzero(~fits))
    pieces = []
    for shard in range(shards):
        mine = uids[fits & (uids % shards == shard)]
        if len(mine):
            columns = [pa.array(mine), pa.array(mine % PARTITION)]
            pieces.append(Piece(shard, pa.RecordBatch.from_arrays(columns, names=["uid", "_kafka_offset"])))
    return Prepared(tuple(pieces), rejected)
