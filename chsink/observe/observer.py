"""Turns the driver's steps into log lines, metrics and progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Final, Literal, NamedTuple

import structlog

from chsink.batch.model import Ack, PlannedBatch, total
from chsink.errors import ChsinkError, HaltError
from chsink.observe.metrics import Metrics
from chsink.observe.progress import Progress
from chsink.observe.skipped import SkipReport
from chsink.observe.unknown_fields import UnknownFields
from chsink.ports import Clock
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import StateKey, StateRecord, TopicTable
from chsink.statemachine.table import Decision, StepKind

NAMED: Final = 5
"""If there are more tables, a log line gives their number instead of their names."""


_DONE: Final = {
    StepKind.WRITE: "land {}",
    StepKind.REINSERT: "send {} again, from this batch",
    StepKind.SETTLE: "send {} again, from Kafka",
    StepKind.RECORD_GAP: "record the gap {}",
    StepKind.SKIP: "skip {}, which was processed before",
}


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The newest batch that is done: when (ms since 1970), and the seconds of each of its phases, all rounds added."""

    batch_id: int
    at_ms: int
    offsets: int
    rows: int
    phases: Mapping[str, float]


class SparksCommit(NamedTuple):
    """When Spark had written its commit of a batch (ms since 1970), and how long that took (ms)."""

    ended_ms: int
    took_ms: int


class Shown:
    """What a status page in the same process shows of the job."""

    def __init__(self) -> None:
        self.last_batch: LastBatch | None = None
        self.end: ChsinkError | None = None
        """What ended the job, or ClickHouse's side of it, once it has ended."""
        self.over = False
        """Whether the whole job has ended, and the process stays."""

    def stays(self, error: ChsinkError) -> None:
        """The whole job has ended with this error, and the process stays."""
        self.end = self.end or error
        self.over = True


class JobObserver(Shown):
    """Implements :class:`chsink.driver.roles.Observer`; ``progress = "auto"`` says how fast each table lands."""

    def __init__(
        self,
        log: structlog.typing.FilteringBoundLogger,
        metrics: Metrics,
        clock: Clock,
        progress: Literal["auto", "never"] = "never",
    ) -> None:
        super().__init__()
        self.log = log
        self.metrics = metrics
        self._clock = clock
        self._skipped = SkipReport(log, clock)
        self._dead = SkipReport(log, clock, "records kept as dead letters")
        self._unknown = UnknownFields(metrics, log)
        self._times: dict[str, float] = {}
        self._landed: Counter[str] = Counter(rows=0)
        self._batch_times: dict[str, float] = {}
        self._batch_rows = 0
        self._records: Mapping[StateKey, StateRecord] = {}
        self._progress = Progress(log) if progress == "auto" else None

    def follows(self, commit_of: Callable[[int], SparksCommit | None]) -> None:
        """A batch begins.  Once it is done, ``commit_of`` can tell of its commit by Spark, by the batch's number."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """See :class:`chsink.driver.roles.Observer`."""
        began = perf_counter()
        with self.metrics.phase(name):
            yield
        seconds = perf_counter() - began
        self._times[name] = self._times.get(name, 0.0) + seconds
        self._batch_times[name] = self._batch_times.get(name, 0.0) + seconds

    def decided(self, batch: PlannedBatch, decisions: Mapping[StateKey, Decision]) -> None:
        """See :class:`chsink.driver.roles.Observer`."""
        self._times.clear()
        kinds = [s for d in decisions.values() for s in d.steps]
        offsets = sum(s.range.length for s in kinds if s.kind is StepKind.WRITE)
        tables = _named({key.table for key in decisions})
        odd = {
            f"{key.topic_partition} of {key.table}" if "tables" in tables else str(key.topic_partition): _done(decision)
            for key, decision in decisions.items()
            if not decision.because.startswith(("NEW/", "EMPTY"))
        }
        self.log.info(
            "batch planned", batch=batch.batch_id, **tables, offsets=offsets, **({"unusual": odd} if odd else {})
        )

    def landed(self, by_table: Mapping[str, Sequence[Ack]]) -> None:
        """See :class:`chsink.driver.roles.Observer`."""
        for table, mine in by_table.items():
            self.metrics.landed(table, mine)
        acks = [ack for mine in by_table.values() for ack in mine]
        sums = total(acks)
        phases = {f"{name}_s": round(seconds, 3) for name, seconds in self._times.items()}
        chunks = [c for ack in acks for c in ack.chunks]
        self._skipped.add_all((c.skipped, c.first_skipped) for c in chunks)
        self._dead.add_all((c.dead_letters, c.first_dead_letter) for c in chunks)
        for ack in acks:
            if ack.topic is not None:
                for chunk in ack.chunks:
                    self._unknown.add(ack.topic, chunk.unknown)
        odd = {"skipped": sums.skipped, "dead_letters": sums.dead_letters, "retries": sums.retries}
        said = {"rows": sums.rows, "inserts": sums.inserts, **{k: v for k, v in odd.items() if v}}
        self._landed.update(said)
        self._batch_rows += sums.rows
        self.log.info("landed", **_named(by_table), **said, **phases)

    def settling(self, records: Iterable[StateRecord]) -> None:
        """See :class:`chsink.driver.roles.Observer`."""
        lengths = [record.range.length for record in records]
        self.log.info("settling", ranges=len(lengths), offsets=sum(lengths))

    def state(self, records: Mapping[StateKey, StateRecord]) -> None:
        """See :class:`chsink.driver.roles.Observer`."""
        self._records = records
        self.metrics.state(records, self._clock.now_ms())
        if self._progress:
            self._progress.begins(records)

    def finished(self, batch: PlannedBatch, ends: Mapping[TopicPartition, int], routes: Collection[TopicTable]) -> None:
        """A batch is done in all tables of its topics; ``ends`` are Kafka's log ends."""
        self.metrics.batches.labels(self.metrics.sink).inc()
        offsets = sum(r.length for r in batch.ranges.values())
        now_ms, times = self._clock.now_ms(), {name: round(s, 3) for name, s in self._batch_times.items()}
        self.last_batch = LastBatch(batch.batch_id, now_ms, offsets, self._batch_rows, times)
        self._begin_batch()
        recorded = {tp: r.end for tp, r in batch.ranges.items()}
        tables: dict[str, list[str]] = {}
        for topic, table in routes:
            tables.setdefault(topic, []).append(table)
        for tp, end in ends.items():
            for table in tables.get(tp.topic, ()):
                record = self._records.get(StateKey(self.metrics.sink, tp.topic, tp.partition, table))
                self.metrics.behind(tp, table, end - (record.end if record else recorded[tp]))
        if self._progress:
            self._progress.done(self._records, ends, routes)

    def failed(self, error: BaseException) -> None:
        """A batch raised; halts are counted."""
        self._begin_batch()
        if isinstance(error, HaltError):
            self.metrics.halts.labels(self.metrics.sink).inc()

    def _begin_batch(self) -> None:
        self._batch_times.clear()
        self._batch_rows = 0

    def ended(self, signal: str) -> None:
        """The job ended without an error, because of a ``signal``, or "" because it read what the topics held."""
        self.log.info("ended", **self._landed, **({"signal": signal} if signal else {}))

    def close(self) -> None:
        """Log what is still unreported; remove what is drawn."""
        self._skipped.say(now=True)
        self._dead.say(now=True)
        if self._progress:
            self._progress.close()


def _done(decision: Decision) -> str:
    """What is done with a partition, in words."""
    words = [_DONE[step.kind].format(step.range) for step in decision.steps]
    if decision.halt is not None:
        words.append(f"halt with {decision.halt}")
    return "; ".join(words) or "nothing"


def _named(tables: Collection[str]) -> dict[str, str | int | list[str]]:
    """The tables of a log line: by name, if they are few."""
    if len(tables) == 1:
        return {"table": next(iter(tables))}
    return {"tables": sorted(tables) if len(tables) <= NAMED else len(tables)}
