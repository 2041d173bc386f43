"""Retries of statements: which errors are transient, for how long, how often.  Inserts and queries share it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from chsink.errors import without_values
from chsink.notation.codes import TOO_MANY_PARTS, TRANSIENT
from chsink.ports import Clock, Queries, Replicas, ResultRow, ServerRefused, Unanswered

_log = logging.getLogger(__name__)
LOG_EVERY_S = 10


def transient(error: BaseException) -> bool:
    """Whether sending the same statement again may help."""
    if isinstance(error, Unanswered):
        return True
    if not isinstance(error, ServerRefused):
        return False
    if error.code == TOO_MANY_PARTS and "single INSERT block" in error.message:
        return False
    return error.code is None or error.code in TRANSIENT


def retrying(clock: Clock, retry_for_s: float, what: str) -> Retrying:
    """Retries until an answer comes, an error is permanent, or ``retry_for_s`` have passed; pauses grow and are
    jittered.  Retries of ``what`` are logged.
    """
    give_up_ms = clock.steady_ms() + retry_for_s * 1000
    return Retrying(
        retry=retry_if_exception(transient),
        stop=lambda _: clock.steady_ms() >= give_up_ms,
        wait=wait_random_exponential(0.2, 10),
        sleep=clock.sleep,
        before_sleep=_RetryLog(what, clock, give_up_ms),
        reraise=True,
    )


@dataclass(slots=True)
class _RetryLog:
    """The first retry at once, then at most one line every ``LOG_EVERY_S``.  Runs on executors: the standard logger."""

    what: str
    clock: Clock
    give_up_ms: float
    next_ms: float = 0

    def __call__(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        now_ms = self.clock.steady_ms()
        if error is None or now_ms < self.next_ms:
            return
        self.next_ms = now_ms + LOG_EVERY_S * 1000
        until = datetime.fromtimestamp((self.clock.now_ms() + self.give_up_ms - now_ms) / 1000, UTC)
        reason = f"code {error.code}, {without_values(error.message)}" if isinstance(error, ServerRefused) else error
        _log.warning(
            "%s failed (attempt %d); retrying until %s: %s",
            self.what,
            state.attempt_number,
            until.isoformat(" ", "seconds"),
            reason,
        )


@dataclass(frozen=True, slots=True)
class RetryingQueries:
    """:class:`chsink.ports.Replicas` whose questions are retried while a server is away for a moment."""

    client: Replicas
    clock: Clock
    retry_for_s: float

    @property
    def url(self) -> str:
        """The replica in use."""
        return self.client.url

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[ResultRow]:
        """Rows of a SELECT."""
        again = retrying(self.clock, self.retry_for_s, f"a query at {self.url}")
        rows: list[ResultRow] = again(self.client.query, sql, parameters)
        return rows

    def each_replica(self) -> Sequence[Self]:
        """See :class:`chsink.ports.Replicas`."""
        return [replace(self, client=replica) for replica in self.client.each_replica()]

    def newest(self) -> Self:
        """See :class:`chsink.ports.Replicas`."""
        return replace(self, client=self.client.newest())

    def once(self) -> Queries:
        """See :class:`chsink.ports.Replicas`."""
        return self.client
