"""Dead letters in a Kafka topic: one transaction for each chunk that has any, found again after a crash.

Rules:
- A transaction holds a chunk's dead letters, and moves the offset of the source's topic-partition in a group of its own
  to the chunk's end.  So the group says up to which offset they were delivered; nobody joins it.
- Group and transactional id are of one table: a record may be a dead letter of one table and a row of another.
- A transactional id stands for one topic-partition and table.  What opening one means, and a commit without an answer:
  :mod:`chsink.kafka.transactions`.
- The offset carries a note: which life of the partition it is of (epoch, incarnation, nonce).  Of another life, the
  offset says nothing about this one; of a newer life, this sender is outdated and delivers nothing.
- A group that holds no offset says nothing about a range in doubt: Kafka forgets the offsets of a group that is not
  used, and a person may delete it.  Then the topic itself is searched, for the whole range: its chunks were delivered
  in their order, so the last dead letter that is there says how far they were.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException

from chsink import failpoints
from chsink.dlq.letters import DELETED_ID
from chsink.dlq.place import TRANSACTION_MS, LettersTopic
from chsink.dlq.search import delivered_until
from chsink.driver.roles import Assignment
from chsink.errors import halts, services
from chsink.kafka.transactions import TransactionalProducer, consumer_options, group_offsets
from chsink.ports import Clock, InsertResult
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey, StateRecord

ATTEMPTS = 5
_log = logging.getLogger("chsink.librdkafka.dead_letters")
_log.setLevel(logging.CRITICAL)  # what it has to say is raised
_REFUSALS = (
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.INVALID_RECORD,
)
"""Errors that another try does not change."""


@dataclass(frozen=True, slots=True, order=True)
class Life:
    """Which life of a topic-partition a record is of: a later one is greater."""

    epoch: int
    incarnation: int
    nonce: str

    @staticmethod
    def of(record: StateRecord) -> Life:
        """Of an announced range."""
        return Life(record.epoch, record.life.incarnation, record.life.nonce)

    @staticmethod
    def read(note: str) -> Life:
        """The inverse of ``str``.  ValueError for what this sink did not write."""
        epoch, incarnation, nonce = note.split(" ")
        return Life(int(epoch), int(incarnation), nonce)

    def __str__(self) -> str:
        return f"{self.epoch} {self.incarnation} {self.nonce}"

    def outdates(self, other: Life) -> bool:
        """Whether the other one is an earlier life, not this one."""
        return self.nonce != other.nonce and (self.epoch, self.incarnation) > (other.epoch, other.incarnation)


class _Open:
    """An open producer of one topic-partition and table, and the group's offset as it has been since."""

    def __init__(self, place: LettersTopic, key: StateKey) -> None:
        """Fence every older sender, then read the group.  Raises KafkaException."""
        self._tp = tp = key.topic_partition
        self._consumer = Consumer(consumer_options(place.options, place.group_of(key.table)))
        self._producer = _producer(place, key)
        self.offset, self.note = group_offsets(self._consumer, [tp], place.timeout_s)[tp]

    def close(self) -> None:
        """Release the connections; an open transaction is ended by the next sender, or by Kafka."""
        self._consumer.close()

    def send(self, letters: list[dict[str, Any]], end: int, life: Life) -> None:
        """The letters and the group's offset in one transaction.  Raises KafkaException."""
        self._producer.begin(letters)
        self._producer.move(self._consumer, {self._tp: end}, str(life))
        failpoints.reach("task.in_dead_letters")
        self._producer.commit()
        self.remember(end, life)

    def remember(self, end: int | None, life: Life) -> None:
        """Up to which offset the dead letters of this life were delivered; None if none were."""
        if end is not None:
            self.offset, self.note = end, str(life)


def _producer(place: LettersTopic, key: StateKey) -> TransactionalProducer:
    """Fence every older sender."""
    return TransactionalProducer(
        {**place.options, "message.max.bytes": 1_000_000_000},  # the topic says which are too large
        place.transactional_id(key),
        place.topic,
        timeout_s=place.timeout_s,
        transaction_ms=TRANSACTION_MS,
        logger=_log,
    )


class TopicLetters:
    """:class:`chsink.dlq.letters.Delivery` of one task, whose producer opens with the first chunk that needs it."""

    def __init__(self, place: LettersTopic, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self._open: _Open | None = None

    def close(self) -> None:
        """Release the connections."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def deliver(
        self,
        assignment: Assignment,
        chunk: int,  # noqa: ARG002 - its offsets name it
        offsets: OffsetRange,
        letters: pa.RecordBatch,
    ) -> InsertResult:
        """See :class:`chsink.dlq.letters.Delivery`."""
        tp, reason = assignment.topic_partition, ""
        for attempt in range(ATTEMPTS):
            try:
                return self._deliver(assignment, offsets, letters)
            except KafkaException as error:
                self.close()
                reason = error.args[0].str()
                if error.args[0].code() in _REFUSALS:
                    raise halts.DEAD_LETTER_REFUSED(
                        tp=tp, offsets=offsets, topic=self._place.topic, reason=reason
                    ) from error
                self._clock.sleep(attempt)
        raise services.DEAD_LETTERS_UNSENT(tp=tp, topic=self._place.topic, tries=ATTEMPTS, reason=reason)

    def _deliver(self, assignment: Assignment, offsets: OffsetRange, letters: pa.RecordBatch) -> InsertResult:
        life = Life.of(assignment.record)
        if self._open is None:
            self._open = _Open(self._place, assignment.key)
        if self._open.offset is None and assignment.again:
            self._open.remember(delivered_until(self._place, assignment.key, life.nonce, assignment.record.range), life)
        reached = self._open.offset if self._is_ours(life, assignment.key) else None
        if reached is not None and reached >= offsets.end:
            return InsertResult(0, 0, 0)
        rows = [row for row in letters.to_pylist() if reached is None or row["_kafka_offset"] >= reached]
        sent = [letter_of(row, life.nonce) for row in rows]
        self._open.send(sent, offsets.end, life)
        return InsertResult(len(sent), sum(len(s["value"] or b"") for s in sent), 0)

    def _is_ours(self, life: Life, key: StateKey) -> bool:
        """Whether the group's offset is of this life.  HaltError CHS-335 where it is of a newer one."""
        assert self._open is not None
        tp, group = key.topic_partition, self._place.group_of(key.table)
        if self._open.offset is None:
            return False
        try:
            noted = Life.read(self._open.note)
        except ValueError:
            raise halts.DEAD_LETTERS_GROUP(tp=tp, group=group, note="another program wrote it") from None
        if noted.outdates(life):
            note = (
                f"epoch {noted.epoch}, incarnation {noted.incarnation}; this sender: {life.epoch}, {life.incarnation}"
            )
            raise halts.DEAD_LETTERS_GROUP(tp=tp, group=group, note=note)
        return noted.nonce == life.nonce


@contextmanager
def open_letters(place: LettersTopic, clock: Clock) -> Iterator[TopicLetters]:
    """For one task."""
    letters = TopicLetters(place, clock)
    try:
        yield letters
    finally:
        letters.close()


def move_on(place: LettersTopic, key: StateKey, record: StateRecord, until: int) -> None:
    """Let the group say, for the life of ``record``, that all dead letters below ``until`` were delivered.  Older
    senders are fenced.  Raises KafkaException.
    """
    opened = _Open(place, key)
    try:
        opened.send([], until, Life.of(record))
    finally:
        opened.close()


def letter_of(row: Mapping[str, Any], nonce: str) -> dict[str, Any]:
    """A dead letter as arguments of a producer: the record as it was, and what happened as further headers."""
    where = f"column {row['column']!r}: " if row["column"] else ""
    headers: list[tuple[str, bytes | None]] = [(h["key"], h["value"]) for h in row["headers"]]
    more = {
        "__connect.errors.topic": row["_kafka_topic"],
        "__connect.errors.partition": row["_kafka_partition"],
        "__connect.errors.offset": row["_kafka_offset"],
        "__connect.errors.connector.name": row["sink"],
        "__connect.errors.stage": "KAFKA_CONSUME" if row["error_id"] == DELETED_ID else "VALUE_CONVERTER",
        "__connect.errors.exception.class.name": "HaltError" if row["error_id"] == DELETED_ID else "BadValueError",
        "__connect.errors.exception.message": where + row["reason"],
        "chsink.sink": row["sink"],
        "chsink.table": row["table"],
        "chsink.topic": row["_kafka_topic"],
        "chsink.partition": row["_kafka_partition"],
        "chsink.offset": row["_kafka_offset"],
        "chsink.timestamp_ms": row["timestamp_ms"],
        "chsink.timestamp_type": row["timestamp_type"],
        "chsink.column": row["column"],
        "chsink.error_id": row["error_id"],
        "chsink.reason": row["reason"],
        "chsink.nonce": nonce,
    }
    headers += [(name, str(value).encode()) for name, value in more.items()]
    return {
        "key": row["key"],
        "value": row["value"],
        "headers": headers,
        "timestamp": max(0, row["timestamp_ms"]),
    }
