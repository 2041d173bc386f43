"""What one look found, before it becomes a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chsink.dlq.reasons import LetterGroup
from chsink.errors import ChsinkError, without_values
from chsink.observe.observer import LastBatch
from chsink.observe.pace import TableSpeed
from chsink.statemachine.records import TopicTable
from chsink.status.model import SinkStatus

if TYPE_CHECKING:
    from chsink.mirror.status import MirrorStatus, TableStatus  # its packages are an extra


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that could not be read, or that ended.  ``id`` and ``fix`` are empty if it is no error of chsink's."""

    id: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.id}: {self.message}" if self.id else self.message


def failure_of(error: Exception) -> Failure:
    """Any error, for people."""
    if isinstance(error, ChsinkError):
        return Failure(error.id, error.message, error.hint)
    return Failure("", f"{type(error).__name__}: {without_values(str(error))}")


@dataclass(frozen=True, slots=True)
class JobView:
    """What a job that runs in this process says of itself.  ``end`` holds why ClickHouse's side ended, each with its
    fix.  ``ending`` says that both sides of the job have ended.
    """

    last_batch: LastBatch | None = None
    end: tuple[Failure, ...] = ()
    ending: bool = False


@dataclass(frozen=True, slots=True)
class Letters:
    """The dead letters, or why they could not be read.  ``place`` is the topic or the table that holds them."""

    place: str
    groups: Sequence[LetterGroup] = ()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class MirrorPicture:
    """The mirror's tables, or why they could not be read."""

    status: MirrorStatus | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """``status`` is the last one that could be read, ``failure`` why the newest could not.  ``watched_s``: for how many
    seconds speeds were measured, None at the first look.  ``history``: records landed per second, of each look.
    """

    sink: str
    at_ms: int
    status: SinkStatus | None = None
    failure: Failure | None = None
    speeds: Sequence[TableSpeed] = ()
    watched_s: float | None = None
    history: Mapping[TopicTable, Sequence[float]] = field(default_factory=dict)
    letters: Letters | None = None
    mirror: MirrorPicture | None = None
    job: JobView | None = None

    @property
    def tables(self) -> Sequence[TableStatus]:
        """The mirror's; none where nothing is known of them."""
        return () if self.mirror is None or self.mirror.status is None else self.mirror.status.tables
