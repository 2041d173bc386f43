"""Turns the driver's steps into log lines, metrics and a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Literal

import structlog
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from chsink.batch.model import Ack, PlannedBatch, total
from chsink.errors import HaltError
from chsink.observe.metrics import Metrics
from chsink.observe.skipped import SkipReport
from chsink.observe.unknown import UnknownFields
from chsink.ports import Clock
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import StateKey, StateRecord
from chsink.statemachine.table import Decision, StepKind


class JobObserver:
    """Implements :class:`chsink.batch.roles.Observer`; ``progress = "auto"`` draws a bar on a terminal."""

    def __init__(
        self,
        log: structlog.typing.FilteringBoundLogger,
        metrics: Metrics,
        clock: Clock,
        progress: Literal["auto", "never"] = "never",
    ) -> None:
        self.log = log
        self.metrics = metrics
        self._clock = clock
        self._skipped = SkipReport(log, clock)
        self._dead = SkipReport(log, clock, "records kept as dead letters")
        self._unknown = UnknownFields(metrics, log)
        self._times: dict[str, float] = {}
        self._bar = _bar() if progress == "auto" and sys.stderr.isatty() else None
        self._task = self._bar.add_task("landing", total=None) if self._bar else None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """See :class:`chsink.batch.roles.Observer`."""
        began = perf_counter()
        with self.metrics.phase(name):
            yield
        self._times[name] = self._times.get(name, 0.0) + perf_counter() - began

    def decided(self, batch: PlannedBatch, decisions: Mapping[TopicPartition, Decision]) -> None:
        """See :class:`chsink.batch.roles.Observer`."""
        self._times.clear()
        kinds = [s for d in decisions.values() for s in d.steps]
        offsets = sum(s.range.length for s in kinds if s.kind is StepKind.WRITE)
        odd = {str(tp): d.because for tp, d in decisions.items() if not d.because.startswith(("NEW/", "EMPTY"))}
        self.log.info("batch planned", batch=batch.batch_id, offsets=offsets, **({"unusual": odd} if odd else {}))

    def landed(self, by_table: Mapping[str, Sequence[Ack]]) -> None:
        """See :class:`chsink.batch.roles.Observer`."""
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
        self.log.info("landed", rows=sums.rows, inserts=sums.inserts, **{k: v for k, v in odd.items() if v}, **phases)
        if self._bar and self._task is not None:
            self._bar.advance(self._task, sums.records)

    def state(self, records: Mapping[StateKey, StateRecord]) -> None:
        """See :class:`chsink.batch.roles.Observer`."""
        self.metrics.state(records, self._clock.now_ms())

    def finished(self, batch: PlannedBatch, ends: Mapping[TopicPartition, int]) -> None:
        """A batch is done; ``ends`` are Kafka's log ends."""
        self.metrics.batches.labels(self.metrics.sink).inc()
        recorded = {tp: r.end for tp, r in batch.ranges.items()}
        self.metrics.lags(ends, recorded)
        if self._bar and self._task is not None:
            behind = sum(max(0, end - recorded.get(tp, 0)) for tp, end in ends.items())
            done = next(t.completed for t in self._bar.tasks if t.id == self._task)
            self._bar.update(self._task, total=done + behind)

    def failed(self, error: BaseException) -> None:
        """A batch raised; halts are counted."""
        if isinstance(error, HaltError):
            self.metrics.halts.labels(self.metrics.sink).inc()

    def close(self) -> None:
        """Say what is left to say; take the bar away."""
        self._skipped.say(now=True)
        self._dead.say(now=True)
        if self._bar:
            self._bar.stop()


def _bar() -> Progress:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    bar.start()
    return bar
