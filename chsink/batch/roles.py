"""What a batch works with, as Protocols: the lander, the tasks, what the target remembers, and observers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from chsink.batch.model import Ack, Assigned, Assignment, PlannedBatch
from chsink.batch.pace import TableLimit
from chsink.statemachine.parts import Mark
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey, StateRecord
from chsink.statemachine.table import Decision

if TYPE_CHECKING:
    import pyarrow as pa

A = TypeVar("A", bound=Assigned)
A_co = TypeVar("A_co", bound=Assigned, covariant=True)
A_contra = TypeVar("A_contra", bound=Assigned, contravariant=True)

# --- tasks ---------------------------------------------------------------------------------------------------------

TaskBody = Callable[[int, "Iterable[pa.RecordBatch]"], Ack]
"""What one task does: (its number, its records) → its acknowledgement.  Picklable; see :mod:`chsink.batch.task`."""


class Tasks(Protocol[A_contra]):
    """A lander's side of a task."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The stream's columns that the tasks read."""

    def body(self, assignments: Sequence[A_contra], planned: Mapping[TopicPartition, OffsetRange]) -> TaskBody:
        """The work of every task of one action, of which each finds its own topic-partition in it."""


class ExactReads(Protocol[A_contra]):
    """Runs tasks over an exact read."""

    def from_kafka(self, assignments: Sequence[A_contra]) -> Sequence[Ack]:
        """Feed each assignment by an exact read of its range from Kafka, through the same transform.  One ack each."""


class BatchTasks(ExactReads[A_contra], Protocol[A_contra]):
    """Runs tasks over the micro-batch at hand.  Made for one batch."""

    def from_batch(self, batch: PlannedBatch, assignments: Sequence[A_contra]) -> Sequence[Ack]:
        """Feed the assignments from the micro-batch.  One ack for each range that it reads."""


# --- landers -------------------------------------------------------------------------------------------------------


class Lander(Protocol[A_co]):
    """Where records go, and how it is known that they went there once.  Owned by one driver, for one stream."""

    def settle_all(self, runner: ExactReads[A_co]) -> None:
        """Finish what an earlier run left in doubt.  Raises ChsinkError when a person must decide."""

    def process(self, batch: PlannedBatch, runner: BatchTasks[A_co]) -> None:
        """Land the batch.  Idempotent: the same batch again changes nothing that landed.

        AlteredError: what was sent so far has landed, and the lander has to be opened again.
        """

    def check_owned(self) -> None:
        """FencedError when a newer driver owns what this one lands to."""


@dataclass(frozen=True, slots=True)
class Landing(Generic[A]):
    """A lander that is open for one stream, and the tasks that work for it."""

    lander: Lander[A]
    tasks: Tasks[A]


# --- the landing protocol of BEFORE and AFTER ------------------------------------------------------------------------

PieceRunner = BatchTasks[Assignment]
"""The tasks that insert pieces."""


Looked = dict[tuple[str, str], Mark]
"""What tables hold, by URL of the shard and name of the table: filled by each look."""


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
