"""What a look at a job finds.  Imports nothing heavy: commands name its columns in their help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from chsink.as_typed import as_typed
from chsink.status.last_verify import LastVerify


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One topic-partition.  ``age_s``: since BEFORE was written; ``lag`` counts offsets, ``lag_s`` is the age of the
    oldest record among them, both None when unknown; ``skipped`` and ``dead_letters`` count the records of this
    incarnation without a row, ``unknown_fields`` by name the sampled records that have a field without a column.
    """

    topic: str
    partition: int
    table: str
    phase: str
    start: int
    end: int
    age_s: float | None
    lag: int | None
    lag_s: float | None
    skipped: int
    dead_letters: int
    epoch: int
    incarnation: int
    unknown_fields: Mapping[str, int]

    @property
    def in_doubt(self) -> bool:
        """Whether its last range was announced and is not confirmed."""
        return self.phase == "BEFORE"


@dataclass(frozen=True, slots=True)
class ReplayInDoubt:
    """A list of dead letters that a `chsink dlq replay` announced and did not confirm."""

    topic: str
    partition: int
    table: str
    dead_letters: int


@dataclass(frozen=True, slots=True)
class NextHalt:
    """Why the next start, or the next batch, would halt."""

    id: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """One sink.  ``owner`` is the driver that claimed it last (driver, epoch, since); it need not run.

    ``lag_unknown`` says why there is no ``lag``, None where there is.  ``halts`` are those that the recorded state and
    Kafka imply; a start may find others, in the tables.  ``verified`` is what ``chsink verify`` found last, None if it
    is not known.  ``replays`` are those of dead letters that are in doubt.
    """

    sink: str
    owner: Mapping[str, Any] | None
    partitions: tuple[PartitionStatus, ...]
    in_doubt: int
    lag: int | None
    lag_unknown: str | None
    skipped: int
    dead_letters: int
    halts: tuple[NextHalt, ...]
    verified: LastVerify | None = None
    replays: tuple[ReplayInDoubt, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For a program: what ``chsink status --json`` prints."""
        return {**asdict(self), "halts": [{**asdict(halt), "fix": as_typed(halt.fix)} for halt in self.halts]}
