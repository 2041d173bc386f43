"""What a driver works with: the ranges that it assigns, and as Protocols what the target remembers, and observers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from chsink.batch.model import Ack, PlannedBatch
from chsink.batch.roles import BatchTasks
from chsink.driver.pace import TableLimit
from chsink.statemachine.parts import Mark
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey, StateRecord
from chsink.statemachine.table import Decision


@dataclass(frozen=True, slots=True)
class Assignment:
    """One range to land, exactly as its record says.

    ``layout`` is the recorded shard layout (JSON).  With ``record.doubt.probe``, tokens may have left the deduplication
    window: each piece is looked for by its offsets first.  No send starts after ``deadline_ms`` (wall clock).  What
    lies below ``log_start`` is not asked of Kafka.  ``again``: the range was in doubt, so others may have sent of it.
    ``alone``: all rows of its offsets should be its own.
    """

    key: StateKey
    record: StateRecord
    layout: str
    deadline_ms: int
    log_start: int = 0
    again: bool = False
    alone: bool = False

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose range."""
        return self.key.topic_partition

    @property
    def range(self) -> OffsetRange:
        """The recorded range."""
        return self.record.range

    @property
    def held(self) -> OffsetRange:
        """See :class:`chsink.batch.model.Assigned`."""
        return OffsetRange(min(max(self.range.start, self.log_start), self.range.end), self.range.end)


PieceRunner = BatchTasks[Assignment]
"""The tasks that insert pieces."""

Looked = dict[tuple[str, str], tuple[Mark, int]]
"""What tables hold, and when they were altered last (s), by URL of the shard and name of the table."""


class Window(Protocol):
    """What the target tables can tell the driver about deduplication."""

    def check_unchanged(self, tables: Iterable[str]) -> None:
        """AlteredError when one of the tables is no longer the one that was described when the job started."""

    def check_nothing_landed(self, topic: str, table: str, partitions: Collection[int]) -> None:
        """PreflightError when the table has rows of partitions of which nothing was ever announced."""

    def limit(self, table: str) -> TableLimit:
        """What the table allows one round.  PreflightError if it does not deduplicate, or forgets within one insert."""

    def marks(self, tables: Iterable[str], layout: str | None = None) -> dict[str, tuple[Mark, ...]]:
        """By table: its marks now, on each shard of a layout (by fingerprint, None for the current one), and behind
        them the mark of the table of dead letters, if there is one.
        """

    def letters_mark(self) -> Mark | None:
        """What the table of dead letters holds now, None where they go elsewhere."""

    def must_probe(self, key: StateKey, record: StateRecord, looked: Looked | None = None) -> bool:
        """Whether tokens of this range in doubt may have left the window, so that its pieces must be probed by offset.
        Raises HaltError if so and the table cannot be probed.  Waits for nothing.

        ``looked`` is what was seen for other ranges at this time: many ranges are one look at each table.
        """

    def wait_for_inserts(self, key: StateKey, record: StateRecord) -> None:
        """Return once no server is running an insert of the range."""

    def holds_foreign(self, key: StateKey, record: StateRecord) -> bool:
        """Whether the table has rows of the topic-partition that this sink cannot have sent: a probe may count them."""

    def is_alone(self, record: StateRecord) -> bool:
        """Whether all rows of the range's offsets should be its own: no earlier topic of this name reached them, and
        the job does not accept other rows.
        """

    def deadline_ms(self) -> int:
        """The wall-clock time in ms after which a task that is given a range now sends no piece of it."""


# --- watching ------------------------------------------------------------------------------------------------------


class Observer(Protocol):
    """Receives what happens; must not fail."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Times a phase of the batch."""

    def landed(self, by_table: Mapping[str, Sequence[Ack]]) -> None:
        """Pieces landed and are confirmed."""

    def decided(self, batch: PlannedBatch, decisions: Mapping[StateKey, Decision]) -> None:
        """A batch was decided, for the tables of one lane."""

    def settling(self, records: Iterable[StateRecord]) -> None:
        """Ranges in doubt are about to be read again, which may take as long as a batch."""

    def state(self, records: Mapping[StateKey, StateRecord]) -> None:
        """The records as they now stand."""
