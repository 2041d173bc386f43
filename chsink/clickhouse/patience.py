"""Trying a statement again: which errors may pass, for how long, how often.  Inserts and questions share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from chsink.ports import Clock, Queries, ServerRefused, Unanswered

TOO_MANY_PARTS = 252
TRANSIENT = {
    3: "UNEXPECTED_END_OF_FILE",
    32: "ATTEMPT_TO_READ_AFTER_EOF",
    159: "TIMEOUT_EXCEEDED",
    160: "TOO_SLOW",
    202: "TOO_MANY_SIMULTANEOUS_QUERIES",
    203: "NO_FREE_CONNECTION",
    209: "SOCKET_TIMEOUT",
    210: "NETWORK_ERROR",
    236: "ABORTED",
    241: "MEMORY_LIMIT_EXCEEDED",
    242: "TABLE_IS_READ_ONLY",
    243: "NOT_ENOUGH_SPACE",
    TOO_MANY_PARTS: "TOO_MANY_PARTS",
    279: "ALL_CONNECTION_TRIES_FAILED",
    285: "TOO_FEW_LIVE_REPLICAS",
    286: "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE",
    289: "REPLICA_IS_NOT_IN_QUORUM",
    319: "UNKNOWN_STATUS_OF_INSERT",
    394: "QUERY_WAS_CANCELLED",
    425: "SYSTEM_ERROR",
    439: "CANNOT_SCHEDULE_TASK",
    473: "DEADLOCK_AVOIDED",
    999: "KEEPER_EXCEPTION",
}
"""Codes that another try may pass: overload, memory, timeouts, disk space, read-only replicas, Keeper."""


def transient(error: BaseException) -> bool:
    """Whether sending the same statement again may help."""
    if isinstance(error, Unanswered):
        return True
    if not isinstance(error, ServerRefused):
        return False
    if error.code == TOO_MANY_PARTS and "single INSERT block" in error.message:
        return False
    return error.code is None or error.code in TRANSIENT


def tries(clock: Clock, retry_for_s: float, say: Callable[[str], None] = lambda _: None) -> Retrying:
    """Tries until one is answered, fails for good, or ``retry_for_s`` have passed; pauses grow and are jittered."""
    give_up = clock.now_ms() + retry_for_s * 1000

    def before_sleep(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        say(f"{type(error).__name__}: {error}")

    return Retrying(
        retry=retry_if_exception(transient),
        stop=lambda _: clock.now_ms() >= give_up,
        wait=wait_random_exponential(0.2, 10),
        sleep=clock.sleep,
        before_sleep=before_sleep,
        reraise=True,
    )


@dataclass(frozen=True, slots=True)
class PatientQueries:
    """:class:`chsink.ports.Queries` that are asked again while a server is away for a moment."""

    client: Queries
    clock: Clock
    retry_for_s: float

    @property
    def url(self) -> str:
        """The replica in use."""
        return self.client.url

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Rows of a SELECT."""
        rows: list[tuple[Any, ...]] = tries(self.clock, self.retry_for_s)(self.client.query, sql, parameters)
        return rows
