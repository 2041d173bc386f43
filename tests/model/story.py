"""What both halves of the conformance check play: a few starts of one job, and what goes wrong in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from chsink.statemachine.records import Phase, StateRecord

LOST, UNANSWERED = "request lost", "answer lost"


@dataclass(frozen=True, slots=True)
class Run:
    """One start of the job.

    ``start``: with a new checkpoint that begins there; ``limit``: offsets a batch.  ``restart``: the server was
    restarted before it; ``log_start``: where Kafka's log begins by then; ``recreated``: the topic was, with so many
    records.  ``dies_at``: (call, n) kills it at the n-th
    such call, before the call does anything.  ``wrong``: what becomes of the n-th such call.
    """

    start: int | None = None
    limit: int = 4
    restart: bool = False
    log_start: int = 0
    recreated: int = 0
    dies_at: tuple[str, int] | None = None
    wrong: dict[tuple[str, int], str] = field(default_factory=dict)

    def dies(self, calls: Sequence[str]) -> bool:
        """Whether the last of these calls is the one at which it dies."""
        return self.dies_at == _nth(calls)

    def outcome(self, calls: Sequence[str]) -> str:
        """What becomes of the last of these calls, in the model's words; "" where nothing goes wrong."""
        what = self.wrong.get(_nth(calls)) if calls else None
        return "" if what is None else f"{'insert' if calls[-1].startswith('task') else 'store'}: {what}"


def _nth(calls: Sequence[str]) -> tuple[str, int]:
    return (calls[-1], calls.count(calls[-1])) if calls else ("", 0)


@dataclass(frozen=True, slots=True)
class Story:
    """Offsets ``[0, end)`` of one topic-partition, and the starts of a job that lands them, ``round_offsets`` a round."""

    runs: tuple[Run, ...]
    end: int = 8
    chunk_offsets: int = 2
    shards: int = 2
    on_gap: Literal["halt", "record"] = "halt"
    round_offsets: int | None = None


def of_record(record: StateRecord) -> str:
    """What of a stored record is compared."""
    if record.phase is Phase.EMPTY:
        return "EMPTY"
    gaps = "".join(f" gap {gap}" for gap in record.gaps)
    return f"{record.phase} {record.range}{' probe' if record.doubt.probe else ''}{gaps}"
