"""Traces of batches for OpenTelemetry, where its standard environment variables ask for them.

Rules:
- One trace for a batch: the span ``batch``, and one below it for each phase and for Spark's commit.  A phase outside
  of a batch, as when a start settles what was in doubt, is a trace of its own.
- A span has names and numbers: no record's value, no message of an error, no credential.
- Traces never end or fail a job: what keeps them from being made or sent is a line of the log.
- The packages of the extra ``otel`` are imported here only, and only where traces are asked for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final, Literal

import structlog

from chsink.batch.model import PlannedBatch
from chsink.errors import ChsinkError
from chsink.observe.metrics import Metrics
from chsink.observe.observer import JobObserver, SparksCommit
from chsink.ports import Clock
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import StateKey, TopicTable
from chsink.statemachine.table import Decision

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
OTLP: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
"""The exporter of each protocol, as its package registers it."""
LAST_SEND_S: Final = 5.0
"""How long the end of a job waits for a receiver that does not answer."""


class TracedObserver(JobObserver):
    """A :class:`JobObserver` that also makes spans."""

    def __init__(
        self,
        log: structlog.typing.FilteringBoundLogger,
        metrics: Metrics,
        clock: Clock,
        progress: Literal["auto", "never"],
        provider: TracerProvider,
    ) -> None:
        super().__init__(log, metrics, clock, progress)
        self._provider = provider
        self._tracer = provider.get_tracer("chsink")
        self._batch: Span | None = None
        self._done: tuple[int, Context] | None = None
        self._commit_of: Callable[[int], SparksCommit | None] = lambda _: None

    def follows(self, commit_of: Callable[[int], SparksCommit | None]) -> None:
        """See :class:`JobObserver`."""
        self._trace_commit()
        self._commit_of = commit_of

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """See :class:`JobObserver`.  The first ``plan`` begins the batch."""
        if name == "plan" and self._batch is None:
            self._batch = self._started("batch", None)
        span = self._started(name, self._inside(self._batch))
        try:
            with super().phase(name):
                yield
        except BaseException as error:
            _fail(span, error)
            raise
        finally:
            span.end()

    def decided(self, batch: PlannedBatch, decisions: Mapping[StateKey, Decision]) -> None:
        """See :class:`JobObserver`."""
        super().decided(batch, decisions)
        if self._batch is not None:
            self._batch.set_attributes(_planned(batch))

    def finished(self, batch: PlannedBatch, ends: Mapping[TopicPartition, int], routes: Collection[TopicTable]) -> None:
        """See :class:`JobObserver`."""
        super().finished(batch, ends, routes)
        span, self._batch = self._batch, None
        if span is None or self.last_batch is None:  # it had nothing to plan
            return
        epoch = max((record.epoch for record in self._records.values()), default=0)
        span.set_attributes(
            _planned(batch)
            | {"chsink.offsets": self.last_batch.offsets, "chsink.rows": self.last_batch.rows, "chsink.epoch": epoch}
        )
        span.end()
        context = self._inside(span)
        self._done = None if context is None else (batch.batch_id, context)

    def failed(self, error: BaseException) -> None:
        """See :class:`JobObserver`."""
        super().failed(error)
        if self._batch is not None:
            _fail(self._batch, error)
            self._batch.end()
            self._batch = None

    def close(self) -> None:
        """See :class:`JobObserver`.  Sends what is left."""
        super().close()
        self._trace_commit()
        last = threading.Thread(target=self._provider.shutdown, name="last traces", daemon=True)
        last.start()
        last.join(LAST_SEND_S)
        if last.is_alive():
            self.log.warning("the last traces were not sent", because="their receiver does not answer")

    def _trace_commit(self) -> None:
        """Add Spark's commit of the batch before to its trace."""
        done, self._done = self._done, None
        if done is None:
            return
        batch_id, context = done
        commit = None
        with suppress(Exception):  # Spark may be gone
            commit = self._commit_of(batch_id)
        if commit is not None:
            began_ms = commit.ended_ms - commit.took_ms
            self._started("commit", context, began_ms * 1_000_000).end(commit.ended_ms * 1_000_000)

    def _started(self, name: str, context: Context | None, at_ns: int | None = None) -> Span:
        from opentelemetry.context import Context

        sink = {"chsink.sink": self.metrics.sink}
        return self._tracer.start_span(name, context or Context(), attributes=sink, start_time=at_ns)

    def _inside(self, span: Span | None) -> Context | None:
        from opentelemetry.context import Context
        from opentelemetry.trace import set_span_in_context

        return None if span is None else set_span_in_context(span, Context())


def _planned(batch: PlannedBatch) -> dict[str, int]:
    return {"chsink.batch_id": batch.batch_id, "chsink.topic_partitions": len(batch.ranges)}


def _fail(span: Span, error: BaseException) -> None:
    """By the error's id: its message may be about a record."""
    from opentelemetry.trace import StatusCode

    name = error.id if isinstance(error, ChsinkError) else type(error).__name__
    span.set_attribute("error.type", name)
    span.set_status(StatusCode.ERROR, name)


def job_observer(
    log: structlog.typing.FilteringBoundLogger, metrics: Metrics, clock: Clock, progress: Literal["auto", "never"]
) -> JobObserver:
    """The observer of a job: with traces if the environment asks for them and their packages are there."""
    wanted = exporters(os.environ)
    try:
        if wanted:
            return TracedObserver(log, metrics, clock, progress, _provider(wanted))
    except Exception as error:
        log.warning("traces are off", reason=str(error), fix="see docs/operations.md#traces")
    return JobObserver(log, metrics, clock, progress)


def exporters(environ: Mapping[str, str]) -> list[str]:
    """The exporters that the environment asks for, as their packages register them; without an endpoint or the name of
    an exporter, none.
    """

    def first(names: Iterable[str]) -> str:
        return next((value for name in names if (value := environ.get(name, "").strip())), "")

    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    said = environ.get("OTEL_TRACES_EXPORTER", "") or ("otlp" if first(ENDPOINTS) else "")
    names = [name for part in said.split(",") if (name := part.strip()) not in ("", "none")]
    protocol = first(PROTOCOLS) or "http/protobuf"
    return [OTLP.get(protocol, f"otlp ({protocol})") if name == "otlp" else name for name in names]


def _provider(wanted: Iterable[str]) -> TracerProvider:
    """Of this job alone.  A program's own provider is not touched."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = OTELResourceDetector().detect().attributes.get("service.name", "chsink")
    provider = TracerProvider(resource=Resource.create({"service.name": name}), shutdown_on_exit=False)
    for exporter in wanted:
        registered = list(entry_points(group="opentelemetry_traces_exporter", name=exporter))
        if not registered:
            raise LookupError(f"no exporter {exporter} is installed")
        provider.add_span_processor(BatchSpanProcessor(registered[0].load()()))
    return provider
