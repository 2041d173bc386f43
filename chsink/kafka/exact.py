"""Reads every record of an offset range once, in the columns of Spark's Kafka source, without a trace in Kafka.

Rules:
- The parts tile the range, so they tell for every offset whether a reader gets a record there.  An offset without a
  record is a transaction marker, an aborted record, or a record that compaction removed.
- Offsets that Kafka deleted before they were read, and offsets beyond the end of the log, are parts of their own,
  marked ``gone``: nothing is known about them.
- The consumer is assigned its offsets and never commits: no group is joined, and a running job notices nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition

from chsink.config import Config
from chsink.errors import services
from chsink.kafka.idle import Idle, next_messages
from chsink.kafka.records import record_batch
from chsink.kafka.refusals import unreadable
from chsink.statemachine.ranges import OffsetRange, TopicPartition

PART_RECORDS: Final = 50_000
PART_BYTES: Final = 16 << 20
MOST_AT_ONCE: Final = 5_000
FETCH_KBYTES: Final = 16_384
"""How much the client reads ahead."""


@dataclass(frozen=True, slots=True)
class Part:
    """The records that a reader gets in ``range``.  With ``gone``, nobody knows which records were there."""

    range: OffsetRange
    records: pa.RecordBatch
    gone: bool = False


@dataclass(slots=True)
class _Taken:
    """The messages of the next part."""

    messages: list[Message[bytes, bytes]] = field(default_factory=list)
    size: int = 0

    @property
    def room(self) -> int:
        """How many messages to request next: fewer if they are large, to bound the memory."""
        if not self.messages:
            return min(50, PART_RECORDS)
        by_size = (PART_BYTES - self.size) // max(1, self.size // len(self.messages))
        return max(1, min(MOST_AT_ONCE, PART_RECORDS - len(self.messages), by_size))

    @property
    def full(self) -> bool:
        return len(self.messages) >= PART_RECORDS or self.size >= PART_BYTES

    def add(self, message: Message[bytes, bytes]) -> None:
        self.messages.append(message)
        self.size += len(message)


class ExactReader:
    """Reads ranges with the job's options and isolation level, under the name of a group that it does not join.

    ``log_start`` says where a partition's log starts now.

    Each wait for a record is bounded by ``timeout_s`` in which nothing is read.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        group: str,
        isolation_level: str,
        timeout_s: float,
        log_start: Callable[[TopicPartition], int],
    ) -> None:
        self._idle = Idle(timeout_s)
        self._log_start = log_start
        own = {
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": isolation_level,
            "queued.max.messages.kbytes": FETCH_KBYTES,
            **self._idle.options,
        }
        self._consumer = Consumer({**options, **own}, logger=logging.getLogger("chsink.librdkafka"))

    def read(self, tp: TopicPartition, offsets: OffsetRange) -> Iterator[Part]:
        """The range, part by part, ascending.  CHS-702 when Kafka does not answer."""
        at = offsets.start
        while at < offsets.end:
            self._consumer.assign([ClientPartition(tp.topic, tp.partition, at)])
            for part in self._until_lost(tp, OffsetRange(at, offsets.end)):
                at = part.range.end
                yield part
            if at < offsets.end:  # Kafka deleted records ahead of the reader
                start = min(max(at, self._log_start(tp)), offsets.end)
                if start == at:
                    raise services.KAFKA_UNREADABLE(tp=tp, reason=f"offset {at} is out of range")
                yield _gone(at, start)
                at = start

    def close(self) -> None:
        """Release the connection."""
        self._consumer.close()

    def _until_lost(self, tp: TopicPartition, offsets: OffsetRange) -> Iterator[Part]:
        """The parts of the range; ends early where Kafka no longer has the next offset."""
        at, taken = offsets.start, _Taken()
        self._idle.ended()
        while at < offsets.end:
            messages = next_messages(self._consumer, taken.room)
            passed = self._position(tp, at) if not messages else at
            for message in messages:
                error = message.error()
                if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                    yield from _part(at, passed, taken)
                    return
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise unreadable(error, tp)
                offset = _offset(message)
                if error is not None:
                    yield from _last(at, max(passed, min(offset, offsets.end)), offsets.end, taken)
                    return
                if offset < offsets.end:
                    taken.add(message)
                passed = min(offset + 1, offsets.end)
                if passed >= offsets.end:
                    break
            if taken.full or passed >= offsets.end:
                yield from _part(at, min(passed, offsets.end), taken)
                at, taken = min(passed, offsets.end), _Taken()
            if messages:
                self._idle.ended()
            elif self._idle.too_long():
                raise self._idle.error(tp, passed)

    def _position(self, tp: TopicPartition, at: int) -> int:
        """The reader's position when it gets no message: the client skips transaction markers silently."""
        return max(at, self._consumer.position([ClientPartition(tp.topic, tp.partition)])[0].offset)


def open_exact_reader(config: Config, log_start: Callable[[TopicPartition], int]) -> ExactReader:
    """A reader for a job's topics."""
    kafka = config.kafka
    group = f"chsink-{config.sink.name}/verify"
    return ExactReader(kafka.client_options(), group, kafka.isolation_level, kafka.timeout_s, log_start)


def _part(start: int, end: int, taken: _Taken) -> Iterator[Part]:
    if start < end:
        yield Part(OffsetRange(start, end), record_batch(taken.messages))


def _last(start: int, reached: int, end: int, taken: _Taken) -> Iterator[Part]:
    """The part that was read before the end of the log, then the part beyond it."""
    yield from _part(start, reached, taken)
    if reached < end:
        yield _gone(reached, end)


def _gone(start: int, end: int) -> Part:
    return Part(OffsetRange(start, end), record_batch([]), gone=True)


def _offset(message: Message[bytes, bytes]) -> int:
    offset = message.offset()
    assert offset is not None
    return offset
