"""Who the driver works with, as Protocols: tasks, the target tables, and whoever watches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from chsink.batch.model import Ack, Assignment, PlannedBatch
from statemachine.ranges import TopicPartition
from statemachine.records import Mark, StateKey, StateRecord
from statemachine.table import Decision


class PieceRunner(Protocol):
    """Has assignments carried out by tasks (Spark's, or the simulator's); returns one ack per task."""

    def from_batch(self, batch: PlannedBatch, assignments: Sequence[Assignment]) -> Sequence[Ack]:
        """Feed the assignments from the micro-batch at hand, whose tasks own one topic-partition each."""

    def from_kafka(self, assignments: Sequence[Assignment]) -> Sequence[Ack]:
        """Feed each assignment by reading exactly its range from Kafka, through the same transform."""


class Target(Protocol):
    """What the driver asks the target tables about deduplication."""

    def check_unchanged(self, table: str) -> None:
        """AlteredError when the table is no longer the one that was looked at when the job started."""

    def check_fits(self, table: str, chunks: int) -> None:
        """PreflightError when the table cannot remember a batch of so many chunks."""

    def marks(self, table: str, layout: str | None = None) -> tuple[Mark, ...]:
        """What the table holds now, on each shard of a layout (by fingerprint, None for the present one)."""

    def must_probe(self, key: StateKey, record: StateRecord) -> bool:
        """Whether tokens of this in-doubt range may have left the window, so that pieces must be looked for by offset.
        Raises HaltError when they may have and the table does not allow looking.
        """

    def holds_foreign(self, key: StateKey, record: StateRecord) -> bool:
        """Whether rows of the topic-partition are there that this sink cannot have sent: probing may meet them too."""

    def is_late(self, key: StateKey, record: StateRecord) -> bool:
        """Whether ``deadline_ms`` has passed."""

    def deadline_ms(self, key: StateKey, record: StateRecord) -> int:
        """The wall clock after which no piece of the range may be sent any more."""


class Observer(Protocol):
    """Is told what happens; must not fail."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Times a phase of the batch."""

    def landed(self, acks: Sequence[Ack]) -> None:
        """Pieces landed and are confirmed."""

    def decided(self, batch: PlannedBatch, decisions: Mapping[TopicPartition, Decision]) -> None:
        """A batch was decided."""

    def state(self, records: Mapping[StateKey, StateRecord]) -> None:
        """The records as they now stand."""
