"""The control topic and the sink's groups: every write is a Kafka transaction, every read sees committed ones only.

Rules:
- A transactional id stands for one role: a topic-partition's worker, its re-reader, the coordinator.  See
  :mod:`chsink.kafka.transactions` for what opening a producer does, and for commits without an answer.
- Each request to the coordinator has a transactional id of its own: many may ask at once, and none fences another.
- The group has no members, so only these producers move it.
- Each hand-over opens a producer of its own, because opening fences.  Reading a group fences nobody, so one client in
  a process reads for all hand-overs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Event
from time import monotonic
from typing import Any, Self

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from chsink import failpoints
from chsink.kafka.transactions import GroupOffset, TransactionalProducer, consumer_options, group_offsets
from chsink.mirror.ports import EventReader, EventSender, GroupReader
from chsink.statemachine.ranges import TopicPartition

TRANSACTION_MS = 20_000
"""How long a hanging transaction may hold up readers; by default, less than a round waits for answers."""
POLL_S = 0.1
"""How long one call of the client waits for events: with more time, it would wait for many events."""
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)


AT_ONCE = 16
"""Producers that one process opens at the same time: each mostly waits for Kafka."""


class Fenced(Exception):
    """A newer producer of this transactional id was opened: this one is refused from now on."""


class ControlUnanswered(Exception):
    """Kafka did not answer: whether a transaction was committed is not known."""


class NotSent(Exception):
    """The transaction was aborted: its events never become visible."""


@dataclass(frozen=True)
class Names:
    """One sink's names on Kafka.  ``topic`` is the control topic, ``group`` holds the offsets up to which records were
    handed over, and ``options`` are librdkafka's.

    The names of sinks and topics have no slash, so no two roles share an id or a group.
    """

    options: Mapping[str, str] = field(repr=False)
    topic: str
    group: str
    timeout_s: float

    @property
    def control_group(self) -> str:
        """The coordinators' group, which holds the next events that they need."""
        return f"{self.group}/control"

    @property
    def owner_group(self) -> str:
        """The group that holds the claim of the coordinating driver (:mod:`chsink.mirror.owner`)."""
        return f"{self.group}/owner"

    def worker_id(self, tp: TopicPartition) -> str:
        """The transactional id of the worker that hands over this topic-partition."""
        return f"{self.group}/{tp.topic}/{tp.partition}"

    def reread_id(self, tp: TopicPartition) -> str:
        """The transactional id of the worker that reads holes of this topic-partition again."""
        return f"{self.worker_id(tp)}/again"

    @property
    def coordinator_id(self) -> str:
        """The transactional id of the coordinator."""
        return f"{self.group}/coordinator"

    @property
    def driver_id(self) -> str:
        """The transactional id of the driver that hands over, if its coordinator runs apart."""
        return f"{self.group}/driver"

    @property
    def driver_group(self) -> str:
        """The group that holds this driver's claim."""
        return f"{self.group}/driver"

    @property
    def groups(self) -> tuple[str, ...]:
        """All of them.  None has members."""
        return self.group, self.control_group, self.owner_group, self.driver_group

    @property
    def trying_id(self) -> str:
        """The transactional id by which it is tried whether this user may use such ids."""
        return f"{self.group}/trying"

    def sender(self, transactional_id: str, group: str) -> EventSender:
        """Open a producer of the id, whose transactions move offsets of ``group``.

        Raises :class:`ControlUnanswered`.
        """
        return ControlSender(self, transactional_id, group)

    def tell(self, key: str, value: bytes) -> None:
        """Send one event to the coordinator.  It may arrive although this raises :class:`NotSent` or
        :class:`ControlUnanswered`.
        """
        self.sender(f"{self.group}/asking/{uuid.uuid4()}", self.control_group).send(key, [value], {})

    def reader(self) -> EventReader:
        """A reader of the control topic."""
        return ControlReader(self)

    def offsets(self, group: str = "") -> GroupReader:
        """A reader of the offsets of ``group`` (default: the sink's group) that does not wait for open transactions."""
        return GroupOffsets(self, group or self.group)


class _Offsets:
    """Reads the offsets of a consumer's group."""

    def __init__(self, names: Names, consumer: Consumer) -> None:
        self._names, self._consumer = names, consumer

    def committed(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The group's offsets, None where it has none.  Raises :class:`ControlUnanswered`."""
        return {tp: found.offset for tp, found in self._asked(tps).items()}

    def notes(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """What was stored with the offsets, "" where nothing was.  Raises :class:`ControlUnanswered`."""
        return {tp: found.note for tp, found in self._asked(tps).items()}

    def _asked(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        try:
            return group_offsets(self._consumer, tps, self._names.timeout_s)
        except KafkaException as error:
            raise ControlUnanswered(str(error)) from error


class ControlSender(_Offsets):
    """An open producer of one transactional id.  A context manager; closing it aborts what is open."""

    def __init__(self, names: Names, transactional_id: str, group: str) -> None:
        """Fence every older producer of the id.  Raises :class:`ControlUnanswered`."""
        self.note = ""
        """Stored with each offset that is committed from now on."""
        super().__init__(names, _of_process(tuple(sorted(names.options.items())), group))
        self._role = "coordinator" if group == names.control_group else "worker"
        try:
            self._producer = TransactionalProducer(
                {**names.options, "linger.ms": 0},
                transactional_id,
                names.topic,
                timeout_s=names.timeout_s,
                transaction_ms=TRANSACTION_MS,
            )
        except KafkaException as error:
            raise ControlUnanswered(str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing to release: librdkafka ends the producer's threads with the object."""

    def send(self, key: str, values: Sequence[bytes], offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the events and the group's offsets in one transaction.  Events of one ``key`` keep their order.

        Raises :class:`Fenced`, :class:`NotSent`, :class:`ControlUnanswered`.
        """
        try:
            self._producer.begin({"value": value, "key": key} for value in values)
            if offsets:
                self._producer.move(self._consumer, offsets, self.note)
        except KafkaException as error:
            raise self._aborted(error) from error
        if values:  # a start that settles the group reports nothing
            failpoints.reach(f"{self._role}.in_transaction")
        self._commit()

    def beside(self, group: str) -> Self:
        """The same producer, whose transactions move offsets of another group."""
        other = copy(self)
        other._consumer = _of_process(tuple(sorted(self._names.options.items())), group)
        return other

    def _commit(self) -> None:
        """Repeat the commit while Kafka says that this may help: it returns the outcome of the first request."""
        for attempt in range(3):
            try:
                self._producer.commit()
            except KafkaException as error:
                cause = error.args[0]
                if cause.txn_requires_abort():
                    raise self._aborted(error) from error
                if cause.code() in _FENCED:
                    raise Fenced(str(error)) from error
                if not cause.retriable() or attempt == 2:
                    raise ControlUnanswered(str(error)) from error
            else:
                return

    def _aborted(self, error: KafkaException) -> Exception:
        """End a transaction that cannot be committed; returns the exception to raise."""
        if error.args[0].code() in _FENCED:
            return Fenced(str(error))
        try:
            self._producer.abort()
        except KafkaException as second:
            return Fenced(str(second)) if second.args[0].code() in _FENCED else ControlUnanswered(str(second))
        return NotSent(str(error))


@lru_cache(maxsize=8)
def _of_process(options: tuple[tuple[str, str], ...], group: str) -> Consumer:
    """The one client of a group in this process: connecting takes longer than a request."""
    return Consumer(consumer_options(dict(options), group))


def at_once() -> Executor:
    """Threads for several producers that work in parallel."""
    return ThreadPoolExecutor(AT_ONCE)


class GroupOffsets(_Offsets):
    """Reads a group's offsets without waiting for open transactions, and so without their offsets."""

    def __init__(self, names: Names, group: str) -> None:
        # no record is read: with this level, the broker answers at once with the last committed offsets
        options = {**consumer_options(names.options, group), "isolation.level": "read_uncommitted"}
        super().__init__(names, Consumer(options))

    def close(self) -> None:
        """Release the connection."""
        self._consumer.close()


class ControlReader:
    """Reads the control topic from given positions on.  It joins no group: it keeps its own positions."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._consumer = Consumer(consumer_options(names.options, names.control_group))
        self._woken = Event()
        self._admin = AdminClient(dict(names.options))

    def close(self) -> None:
        """Release the connection."""
        self._consumer.close()

    def logs(self) -> dict[int, tuple[int, int]]:
        """The first and the next offset of each partition, open transactions included.

        Raises :class:`ControlUnanswered`.
        """
        topic = self._names.topic
        try:
            # not by the reader: the broker answers it only after its fetch, which waits for records
            found = self._admin.list_topics(topic, timeout=self._names.timeout_s)
            partitions = [ClientPartition(topic, number) for number in found.topics[topic].partitions]
            starts = self._ask(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
            ends = self._ask(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        except KafkaException as error:
            raise ControlUnanswered(str(error)) from error
        if not starts:  # otherwise the empty topic would count as read to its end, and every range as a hole
            raise ControlUnanswered(f"topic {topic} does not exist")
        return {number: (starts[number], ends[number]) for number in starts}

    def _ask(self, partitions: Sequence[ClientPartition], spec: Any) -> dict[int, int]:
        asked = self._admin.list_offsets(
            dict.fromkeys(partitions, spec),
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=self._names.timeout_s,
        )
        return {tp.partition: future.result().offset for tp, future in asked.items()}

    def read_from(self, positions: Mapping[int, int]) -> None:
        """Continue at these offsets, by partition."""
        self._consumer.assign([ClientPartition(self._names.topic, p, at) for p, at in positions.items()])

    def poll(self, timeout_s: float) -> list[tuple[int, int, bytes]]:
        """See :class:`chsink.mirror.ports.EventReader`."""
        until = monotonic() + timeout_s
        while True:
            left = until - monotonic()
            found = self._consumed(max(0.0, min(left, POLL_S)))
            if found or left <= POLL_S or self._woken.is_set():
                self._woken.clear()
                return found

    def wake(self) -> None:
        """See :class:`chsink.mirror.ports.EventReader`."""
        self._woken.set()

    def _consumed(self, timeout_s: float) -> list[tuple[int, int, bytes]]:
        found = []
        for message in self._consumer.consume(1000, timeout_s):
            if message.error() is not None:
                raise ControlUnanswered(str(message.error()))
            value, partition, offset = message.value(), message.partition(), message.offset()
            assert partition is not None and offset is not None
            found.append((partition, offset, value if isinstance(value, bytes) else b""))
        return found

    def uncommitted(self, partition: int, offset: int) -> tuple[str, bytes] | None:
        """Key and value at an offset, also of an open transaction, if there are any.

        Raises :class:`ControlUnanswered`.
        """
        options = consumer_options(self._names.options, self._names.control_group)
        with closing(Consumer({**options, "isolation.level": "read_uncommitted"})) as consumer:
            consumer.assign([ClientPartition(self._names.topic, partition, offset)])
            message = consumer.poll(self._names.timeout_s)
        if message is None:
            return None
        if message.error() is not None:
            raise ControlUnanswered(str(message.error()))
        if message.offset() != offset:
            return None
        key, value = message.key(), message.value()
        return key.decode(errors="replace") if isinstance(key, bytes) else "", value if isinstance(
            value, bytes
        ) else b""

    def positions(self, start: Mapping[int, int]) -> dict[int, int]:
        """The next offset of each partition, past markers and aborted events; ``start`` where nothing was read yet."""
        asked = [ClientPartition(self._names.topic, p) for p in start]
        return {tp.partition: max(tp.offset, start[tp.partition]) for tp in self._consumer.position(asked)}
