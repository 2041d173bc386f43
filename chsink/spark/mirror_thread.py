"""The mirror in a thread beside ClickHouse's side of the job.  Neither stops the other."""

from __future__ import annotations

import threading
from time import monotonic
from typing import Self

import structlog
from pyspark.sql import SparkSession

from chsink.config import Config
from chsink.errors import ChsinkError, UnavailableError, services
from chsink.observe.logs import log_end
from chsink.observe.metrics import MirrorMetrics
from chsink.spark.mirror import BEGINS, MirrorRun
from chsink.stop import END_S, StopSignals

PAUSES_S = (1, 5, 30)
"""Before the mirror starts again after an outage; the last one repeats."""
STEADY_S = 300.0
"""After a run of this length, the pauses begin with the first one again."""
POLL_S = 0.5


class MirrorBeside:
    """A context manager.  After an outage, the mirror starts again, until :meth:`join` says that nothing else runs.

    ``failure`` is the error that the mirror ended with.
    """

    def __init__(
        self,
        config: Config,
        spark: SparkSession,
        stop: StopSignals,
        log: structlog.typing.FilteringBoundLogger,
        metrics: MirrorMetrics,
    ) -> None:
        self.failure: ChsinkError | None = None
        self.ending = False
        self._config, self._spark, self._signals = config, spark, stop
        self._log, self._metrics = log.bind(side="mirror"), metrics
        self._last = threading.Event()
        self._give_up: float | None = None
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self.join(last=True)

    @property
    def received(self) -> str:
        """Why the mirror has to end, "" while it does not."""
        return self._signals.received or ("the other side's end" if self.ending else "")

    @property
    def times(self) -> int:
        """How often a signal arrived."""
        return self._signals.times

    def end(self) -> None:
        """Ask the mirror to end after its current batch."""
        self.ending = True

    def join(self, *, last: bool) -> None:
        """Wait until the mirror has ended.  If it is the ``last`` to run, an outage ends it, too.  The wait for one
        that was asked to end is over after ``END_S``: the process may end then, as if it had been killed.
        """
        if last:
            self._last.set()
        while self._thread.is_alive():
            self._thread.join(POLL_S)
            if last and self.received:
                self._give_up = self._give_up or monotonic() + END_S
                if monotonic() >= self._give_up:
                    self._log.error("the mirror did not stop", waited_s=END_S, because="a service may not answer")
                    return

    def _run(self) -> None:
        failed = 0
        while True:
            began = monotonic()
            self.failure = self._once()
            if self.failure is not None and self.failure.name in BEGINS and not self.received:
                continue
            if not isinstance(self.failure, UnavailableError) or self._last.is_set() or self.received:
                break
            failed = 0 if monotonic() - began > STEADY_S else failed
            pause = PAUSES_S[min(failed, len(PAUSES_S) - 1)]
            failed += 1
            self._log.warning("the mirror starts again", id=self.failure.id, reason=self.failure.message, pause_s=pause)
            if self._wait(pause):
                break
        if self.failure is not None:
            log_end(self._log, "the mirror", self.failure, look="chsink mirror status")

    def _once(self) -> ChsinkError | None:
        try:
            with MirrorRun(self._config, self._spark, self._log, self._metrics) as run:
                run.run(self)
        except ChsinkError as error:
            return error
        except Exception as error:  # a thread's error would be lost
            self._log.exception("the mirror failed")
            return services.MIRROR_NOT_COORDINATED(reason=f"{type(error).__name__}: {error}")
        return None

    def _wait(self, pause_s: float) -> bool:
        """Whether the mirror shall not start again."""
        until = monotonic() + pause_s
        while monotonic() < until:
            if self.received or self._last.wait(POLL_S):
                return True
        return False
