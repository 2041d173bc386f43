"""What a batch works with, as Protocols: the lander, and its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from chsink.batch.model import Ack, Assigned, PlannedBatch
from chsink.statemachine.ranges import OffsetRange, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

A = TypeVar("A", bound=Assigned)
A_co = TypeVar("A_co", bound=Assigned, covariant=True)
A_contra = TypeVar("A_contra", bound=Assigned, contravariant=True)

# --- tasks ---------------------------------------------------------------------------------------------------------


class TaskBody(Protocol):
    """What one task does.  Picklable; see :mod:`chsink.batch.task`."""

    def __call__(self, task: int, batches: Iterable[pa.RecordBatch], *, again: bool = False) -> Ack:
        """Its number and its records → its acknowledgement.  ``again``: another attempt may have done some of it."""


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
