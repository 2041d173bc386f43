"""Keeps a coordinator of one mirror running in a thread of its own, beside the query that hands over.

Rules:
- A coordinator that fails is closed, and another one starts after a growing pause: it keeps nothing that it cannot
  read again.  Only an error that a person has to fix, or a newer driver, ends the coordination.
- The first coordinator starts in the caller's thread.  All else happens in the thread of this module; other threads
  only send it requests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from dataclasses import replace
from time import monotonic

import structlog

from chsink.errors import ChsinkError, UnavailableError, services
from chsink.mirror.control import ControlUnanswered, Fenced, NotSent, at_once
from chsink.mirror.coordinator import Coordinator
from chsink.mirror.failures import as_error
from chsink.mirror.known_tables import Hole
from chsink.mirror.opening import OpenMirror
from chsink.mirror.owner import Claims
from chsink.mirror.stop_reasons import Hanging, Stuck
from chsink.mirror.tables import CatalogFailed
from chsink.ports import Clock
from chsink.statemachine.ranges import TopicPartition

PAUSES_S = (0.5, 1, 2, 5, 10, 30)
"""Pauses before another coordinator is started; the last one repeats."""
START_ATTEMPTS = 3
"""Attempts to start the first coordinator, while an older driver that has not yet seen the claim fences it."""
OWNER_S = 5.0
"""Seconds between two checks of who owns the mirror."""
TICK_S, LAST_TICK_S = 1.0, 0.2
LAST_INTERVAL_MS = 1_000
LAST_FAILURES = 5
"""Failures in a row, after the query ended, at which the coordination gives up."""
KNOWN = (ChsinkError, CatalogFailed, Fenced, NotSent, ControlUnanswered)


class Coordination:
    """``reread`` hands over a hole; ``after_round`` is called in the coordinator's thread after each round.  ``pool``
    opens producers in parallel.  ``under_way``: the topic-partitions that the query hands over now.  ``apart``: another
    process hands over.
    """

    def __init__(
        self,
        mirror: OpenMirror,
        reread: Callable[[Hole], None],
        clock: Clock,
        log: structlog.typing.FilteringBoundLogger,
        *,
        after_round: Callable[[], None] = lambda: None,
        pool: Callable[[], Executor] = at_once,
        under_way: Callable[[], Collection[TopicPartition]] = tuple,
        apart: bool = False,
    ) -> None:
        self.failure: ChsinkError | None = None
        self._mirror, self._reread, self._clock, self._log = mirror, reread, clock, log
        self._after_round, self._pool, self._under_way = after_round, pool, under_way
        place = (mirror.names.coordinator_id, mirror.names.owner_group)
        self._claims = Claims(mirror.names, place, clock, log, what="coordinating", apart=apart)
        self._coordinator: Coordinator | None = None
        self._new_partitions, self._wake = threading.Event(), threading.Event()
        self._last = False
        self._deadline: float | None = None
        self._looked = 0.0
        self._thread = threading.Thread(target=self._run, name="mirror-coordinator", daemon=True)

    # --- asked by other threads ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the first coordinator, which settles where topic-partitions start.  Raises ChsinkError."""
        for attempt in range(START_ATTEMPTS):
            try:
                self._coordinator = self._opened()
            except Exception as error:
                if not isinstance(error, Fenced) or attempt + 1 == START_ATTEMPTS:
                    ends = as_error(error, self._mirror.names)
                    raise ends or services.MIRROR_NOT_COORDINATED(reason=_words(error)) from error
            else:
                return

    def begin(self) -> None:
        """Start the thread that commits."""
        self._thread.start()

    def finish(self, wait_s: float | None) -> None:
        """Ask the thread to commit what was handed over and end, within ``wait_s``; None: without a limit, and after
        all backfills that were asked for.
        """
        self._deadline = None if wait_s is None else monotonic() + wait_s
        self._last = True
        self._wake.set()
        coordinator = self._coordinator
        if coordinator is not None:
            coordinator.reader.wake()

    def join(self, wait_s: float) -> bool:
        """Wait up to ``wait_s`` for the thread; returns whether it has ended, with or without ``failure``."""
        if self._thread.ident is None:
            return True
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Release connections, after the end."""
        self._drop()
        self._claims.close()

    def check_owned(self) -> None:
        """Raise FencedError if another driver has claimed the mirror; do nothing while Kafka does not answer."""
        self._claims.check()

    def take_up(self) -> None:
        """Ask the thread to settle topic-partitions that the group does not know."""
        self._new_partitions.set()

    def held_until(self, tp: TopicPartition) -> int | None:
        """The highest end of what a table holds of a topic-partition; None while no coordinator knows."""
        coordinator = self._coordinator
        return None if coordinator is None else coordinator.tables.held_until(tp)

    # --- its own thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        failed = 0
        while self.failure is None:
            try:
                if self._coordinator is None:
                    self._coordinator = self._opened()
                if self._work(self._coordinator):
                    failed = 0
                if self._ended(self._coordinator):
                    return
            except Exception as error:
                self._drop()
                self.failure = self._ended_by(error, failed)
                failed += 1

    def _work(self, coordinator: Coordinator) -> bool:
        """Do one step; returns whether it ended a round."""
        if self._last:
            coordinator.pace = replace(coordinator.pace, interval_ms=LAST_INTERVAL_MS)
        if self._new_partitions.is_set():
            self._new_partitions.clear()
            coordinator.take_up()
        rounds = coordinator.rounds
        coordinator.tick(LAST_TICK_S if self._last else TICK_S)
        if monotonic() - self._looked >= OWNER_S:
            self._looked = monotonic()
            self.check_owned()
            self._claims.renew(coordinator.sender)
        if coordinator.rounds == rounds:
            return False
        self._after_round()
        return True

    def _ended(self, coordinator: Coordinator) -> bool:
        if not self._last or self._late():
            return self._last
        return not coordinator.behind() and not (self._deadline is None and coordinator.fills_back())

    def _late(self) -> bool:
        return self._deadline is not None and monotonic() >= self._deadline

    def _ended_by(self, error: Exception, failed: int) -> ChsinkError | None:
        """The error that ends the mirror; None, after a pause, to start another coordinator."""
        ends = as_error(error, self._mirror.names)
        if ends is not None and (isinstance(error, Stuck | Hanging) or not isinstance(ends, UnavailableError)):
            return ends
        if ends is not None and ends.name == services.MIRROR_TABLES_BEGIN.name:
            return ends
        if self._last and (failed >= LAST_FAILURES or self._late()):
            return services.MIRROR_NOT_COORDINATED(reason=_words(error))
        pause = PAUSES_S[min(failed, len(PAUSES_S) - 1)]
        trace = {} if isinstance(error, KNOWN) else {"exc_info": error}
        self._log.warning("the coordinator starts again", reason=_words(error), pause_s=pause, **trace)
        self._wake.wait(pause)
        self._wake.clear()
        return None

    # --- one coordinator ----------------------------------------------------------------------------------------------

    def _opened(self) -> Coordinator:
        """A coordinator that has claimed and settled."""
        mirror = self._mirror
        self._looked = monotonic()
        self._claims.claim()
        made = Coordinator(
            mirror.names,
            mirror.targets,
            mirror.kafka,
            clock=self._clock,
            pace=mirror.pace,
            reread=self._reread,
            log=self._log,
            at_latest=mirror.config.kafka.starting_offsets == "latest",
            matched=mirror.config.mirror.matched_topics,
            added_now=mirror.config.mirror.added_tables == "now",
            pool=self._pool,
            under_way=self._under_way,
            threads=mirror.threads,
        )
        try:
            made.start()
            self.check_owned()  # a driver that claimed meanwhile was fenced by this start, and starts again
        except BaseException:
            made.close()
            raise
        return made

    def _drop(self) -> None:
        if self._coordinator is not None:
            self._coordinator.close()
            self._coordinator = None


def _words(error: Exception) -> str:
    return error.message if isinstance(error, ChsinkError) else f"{type(error).__name__}: {error}"
