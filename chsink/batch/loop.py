"""Hands micro-batches to one lander, one after the other: when to open it, when to open it again, and how to end.

Rules:
- A lander is open for one run of one stream.  Another run, an error, an altered table, or an unknown topic means that
  it has to be opened again.
- After an error, nothing that is cached may be trusted: the next batch opens the lander again, and reads everything.
- The loop ends between two batches; a start and a batch exclude each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import Generic, Protocol, TypeVar

import structlog

from chsink.batch.model import Assigned, PlannedBatch
from chsink.batch.roles import BatchTasks, ExactReads, Landing
from chsink.errors import AlteredError, UnavailableError, stream
from chsink.statemachine.rounds import Ranges

MOST_ADAPTED = 100
"""How often one batch may adapt its tables: tasks report missing columns before they send any piece of a chunk."""
A = TypeVar("A", bound=Assigned)
S = TypeVar("S")


class Ended(Exception):
    """The loop was asked to end: this batch is not begun, and the next start takes it."""


class MicroBatch(Protocol[A, S]):
    """The micro-batch at hand, as its source gives it."""

    @property
    def run(self) -> object:
        """What distinguishes the run of the stream that this batch belongs to."""

    @property
    def planned(self) -> PlannedBatch:
        """The ranges that it will read."""

    def stream(self) -> S:
        """The stream that the batch is of."""

    def tasks(self, landing: Landing[A], stream: S) -> BatchTasks[A]:
        """What runs the lander's tasks over this batch; exact reads are made from ``stream``."""


class BatchLoop(Generic[A, S]):
    """``open_landing`` opens the lander for a stream, ``topics`` are those that have a route since it was opened;
    ``finished`` is called after a batch, ``failed`` after one that raised.  ``adapt`` changes a table as the error asks
    for; whether it did.  ``pass_over`` says whether planned ranges that have no route even then hold no record; it
    may raise what else is known of them.
    """

    def __init__(
        self,
        open_landing: Callable[[S], Landing[A]],
        finished: Callable[[PlannedBatch], None],
        topics: Callable[[], Collection[str]],
        log: structlog.typing.FilteringBoundLogger,
        failed: Callable[[BaseException], None],
        *,
        adapt: Callable[[AlteredError], bool] = lambda _: False,
        pass_over: Callable[[Ranges], bool] = lambda _: False,
    ) -> None:
        self.failure: BaseException | None = None
        self._open_landing = open_landing
        self._finished = finished
        self._topics = topics
        self._log = log
        self._failed = failed
        self._adapt = adapt
        self._pass_over = pass_over
        self._landing: Landing[A] | None = None
        self._stream: S | None = None
        self._run: object = None
        self._lock = threading.Lock()
        self._ending = False

    def start(self, stream: S, reads: Callable[[Landing[A], S], ExactReads[A]]) -> None:
        """Open the lander and settle what is in doubt.  The next batch may be of any run."""
        self._ending = False
        with self._lock:
            self._open(stream)
            self._adapting(lambda: stream, lambda landing, stream: landing.lander.settle_all(reads(landing, stream)))
            self._run = None

    def land(self, at_hand: Callable[[], MicroBatch[A, S]]) -> None:
        """Land one micro-batch.  ``at_hand`` raises ChsinkError when it is not known what the batch is.

        Raises :class:`Ended` when the loop was asked to end before it.
        """
        with self._lock:
            if self._ending:
                raise Ended
            with self._failing():
                self._take(at_hand())

    def end_after_batch(self, wait_s: float) -> bool:
        """Take no further batch, and wait up to ``wait_s`` for the current one.  Whether it is done."""
        self._ending = True
        done = self._lock.acquire(timeout=wait_s)
        if done:
            self._lock.release()
        return done

    def check_owned(self) -> None:
        """FencedError when a newer driver owns the sink; nothing while that cannot be known."""
        if self._landing is not None:
            with suppress(UnavailableError):
                self._landing.lander.check_owned()

    def _take(self, batch: MicroBatch[A, S]) -> None:
        run, planned = batch.run, batch.planned
        if self._landing is None or self._run not in (None, run):
            self._open(batch.stream())
        elif appeared := self._unrouted(planned):
            self._log.info("new topics found", topics=appeared)
            self._open(batch.stream())
        self._run = run
        if unrouted := self._unrouted(planned):
            ranges = {tp: r for tp, r in planned.ranges.items() if tp.topic in unrouted and not r.is_empty}
            if not self._pass_over(ranges):
                raise stream.TOPIC_NOT_ROUTED(topics=", ".join(unrouted))
        routed = set(self._topics())
        planned = replace(planned, ranges={tp: r for tp, r in planned.ranges.items() if tp.topic in routed})
        self._adapting(
            batch.stream, lambda landing, stream: landing.lander.process(planned, batch.tasks(landing, stream))
        )
        self._finished(planned)

    def _unrouted(self, planned: PlannedBatch) -> list[str]:
        """A topic of which nothing is planned needs no route yet."""
        return sorted({tp.topic for tp, r in planned.ranges.items() if not r.is_empty} - set(self._topics()))

    def _adapting(self, stream: Callable[[], S], act: Callable[[Landing[A], S], None]) -> None:
        """Act.  If a table was altered, open the lander and act again: once, or ``MOST_ADAPTED`` times if adapted."""
        for opened in count():
            assert self._landing is not None and self._stream is not None
            try:
                act(self._landing, self._stream)
            except AlteredError as altered:
                self._log.warning(altered.message, id=altered.id, next="checking the table again")
                most = MOST_ADAPTED if self._adapt(altered) else 1
                if opened >= most:
                    raise
                self._open(stream())
            else:
                return

    def _open(self, stream: S) -> Landing[A]:
        self._landing = None
        landing = self._open_landing(stream)
        self._landing, self._stream = landing, stream
        return landing

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.failure = error
            self._landing = None
            self._failed(error)
            raise
