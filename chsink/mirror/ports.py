"""What workers, lander and coordinator need of Kafka besides :class:`chsink.ports.KafkaCluster`, as Protocols.

:class:`chsink.mirror.control.Names` makes them.  :mod:`chsink.mirror.control` has the real ones, the simulator its own;
one contract suite runs against both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, Self

from chsink.ports import KafkaCluster
from chsink.statemachine.ranges import TopicPartition


class KafkaTopics(KafkaCluster, Protocol):
    """A cluster that lists its topics, for patterns."""

    def topics(self) -> list[str]:
        """The names of all topics.  UnavailableError if Kafka does not answer."""


class GroupReader(Protocol):
    """Reads a group's offsets without waiting: a transaction that has just been committed may not show yet."""

    def committed(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The group's offsets, None where it has none.  Raises ``Unanswered``."""

    def notes(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """What was stored with the offsets, "" where nothing was.  Raises ``Unanswered``."""

    def close(self) -> None:
        """Release the connection."""


class EventSender(Protocol):
    """An open producer of one transactional id.  Opening it fenced every older one.  ``note`` is stored with each
    offset that it commits.
    """

    note: str

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def send(self, key: str, values: Sequence[bytes], offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the events and the group's offsets in one transaction.  Events of one ``key`` keep their order.

        Raises ``Fenced``, ``NotSent``, ``Unanswered``.
        """

    def beside(self, group: str) -> Self:
        """The same producer, whose transactions move offsets of another group."""

    def committed(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The group's offsets, None where it has none, once no transaction is moving them.  Raises ``Unanswered``."""

    def notes(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """What was stored with the offsets, "" where nothing was.  Raises ``Unanswered``."""

    def close(self) -> None:
        """Release the connection."""


class EventReader(Protocol):
    """Reads committed events of the control topic, from positions of its own."""

    def logs(self) -> dict[int, tuple[int, int]]:
        """The first and the next offset of each partition, open transactions included.  Raises ``Unanswered``."""

    def read_from(self, positions: Mapping[int, int]) -> None:
        """Continue at these offsets, by partition."""

    def poll(self, timeout_s: float) -> list[tuple[int, int, bytes]]:
        """The next committed events: (partition, offset, value).  Returns once there is one, after ``timeout_s``, or
        when it is woken.  Raises ``Unanswered``.
        """

    def wake(self) -> None:
        """End the waiting poll, or else the next one.  For calls from other threads."""

    def uncommitted(self, partition: int, offset: int) -> tuple[str, bytes] | None:
        """Key and value at an offset, also of an open transaction; None where there is none.  Raises ``Unanswered``."""

    def positions(self, start: Mapping[int, int]) -> dict[int, int]:
        """The next offset of each partition, past markers and aborted events; ``start`` where nothing was read yet."""

    def close(self) -> None:
        """Release the connection."""
