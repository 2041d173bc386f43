"""Reads a few records of a topic-partition, in the columns of Spark's Kafka source, without a trace in Kafka.

The consumer is assigned its offsets and never commits: no group is joined, and a running job notices nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Final

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition

from chsink.config import Config
from chsink.kafka.admin import KafkaAdmin
from chsink.kafka.idle import POLL_S, Idle
from chsink.kafka.records import record_batch
from chsink.kafka.refusals import unreadable
from chsink.statemachine.ranges import OffsetRange, TopicPartition

RECORDS_PER_BATCH: Final = 5_000
LAG_S: Final = 3.0
"""How long in all a sampler waits for what a follower, or a new leader, does not show yet."""


class Sampler:
    """Reads samples with the job's options and isolation level, under the name of a group that it does not join.  Each
    wait for a record is bounded by ``timeout_s`` in which nothing is read.
    """

    def __init__(self, options: Mapping[str, str], group: str, isolation_level: str, timeout_s: float) -> None:
        self._idle, self._lag_s = Idle(timeout_s), LAG_S
        own = {
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation_level,
            **self._idle.options,
        }
        self._consumer = Consumer({**options, **own}, logger=logging.getLogger("chsink.librdkafka"))

    def read(self, tp: TopicPartition, log: OffsetRange, count: int) -> Iterator[pa.RecordBatch]:
        """The first ``count`` records of the log and those at its last ``count`` offsets, each once, in order."""
        at = log.start
        for batch in self._window(tp, log, count):
            at = batch.column("offset")[-1].as_py() + 1
            yield batch
        tail = max(at, log.end - count)
        if tail < log.end:
            yield from self._window(tp, OffsetRange(tail, log.end), count)

    def holds(self, tp: TopicPartition, offsets: OffsetRange, *, readable: bool) -> bool:
        """Whether the range has a record that this isolation level shows: those of an aborted transaction, and markers,
        are none.  If it was ``readable`` up to its end, what Kafka does not show soon may be one.
        """
        self._consumer.assign([ClientPartition(tp.topic, tp.partition, offsets.start)])
        message = self._polled(tp, offsets.start)
        while readable and message.error() and _is_before(message, offsets.end) and self._lag_s > 0:
            self._lag_s -= POLL_S
            message = self._poll(tp) or message
        return (message.error() is None or readable) and _is_before(message, offsets.end)

    def close(self) -> None:
        """Release the connection."""
        self._consumer.close()

    def _window(self, tp: TopicPartition, offsets: OffsetRange, count: int) -> Iterator[pa.RecordBatch]:
        """At most ``count`` records of the range, of those that this isolation level shows."""
        self._consumer.assign([ClientPartition(tp.topic, tp.partition, offsets.start)])
        messages: list[Message[bytes, bytes]] = []
        read, at, at_end = 0, offsets.start, offsets.is_empty
        while not at_end:
            message = self._next(tp, at)
            if message is None or (offset := message.offset()) is None or offset >= offsets.end:
                break
            messages.append(message)
            read, at = read + 1, offset + 1
            at_end = read >= count or at >= offsets.end
            if len(messages) == RECORDS_PER_BATCH:
                yield record_batch(messages)
                messages = []
        if messages:
            yield record_batch(messages)

    def _next(self, tp: TopicPartition, offset: int) -> Message[bytes, bytes] | None:
        """The next record, None at the end of the log.  CHS-702 when Kafka does not answer."""
        message = self._polled(tp, offset)
        return message if message.error() is None else None

    def _polled(self, tp: TopicPartition, offset: int) -> Message[bytes, bytes]:
        """The next record, or the end of what Kafka shows of the log, with its offset."""
        self._idle.ended()
        while (message := self._poll(tp)) is None:
            if self._idle.too_long():
                raise self._idle.error(tp, offset)
        return message

    def _poll(self, tp: TopicPartition) -> Message[bytes, bytes] | None:
        """The same; None if there is neither yet."""
        message = self._consumer.poll(POLL_S)
        error = None if message is None else message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise unreadable(error, tp)
        return message


def _is_before(message: Message[bytes, bytes], end: int) -> bool:
    at = message.offset()
    return at is None or at < end


def holding(
    config: Config, ranges: Mapping[TopicPartition, OffsetRange], *, readable: bool = True
) -> Iterator[TopicPartition]:
    """Those whose range has a record that the job can read.

    ``readable``: the ranges were planned, so the job could read them to their ends, and the logs reach there.  A
    follower or new leader that lags may not show all of that now.  Of other ranges, what is not shown is of an open
    transaction.
    """
    if asked := {tp: offsets for tp, offsets in ranges.items() if not offsets.is_empty}:
        with closing(open_sampler(config)) as sampler:
            yield from (tp for tp, offsets in asked.items() if sampler.holds(tp, offsets, readable=readable))


def may_have_held(
    config: Config, kafka: KafkaAdmin, ranges: Mapping[TopicPartition, OffsetRange]
) -> Iterator[TopicPartition]:
    """Those whose planned range has a record that the job can read, or may have had one that compaction removed."""
    filled = {tp: offsets for tp, offsets in ranges.items() if not offsets.is_empty}
    compacted = {topic for topic in {tp.topic for tp in filled} if kafka.may_be_compacted(topic)}
    ends = kafka.log_ends(filled)
    unseen = {tp for tp, offsets in filled.items() if tp.topic in compacted or ends[tp] < offsets.end}
    yield from unseen
    yield from holding(config, {tp: offsets for tp, offsets in filled.items() if tp not in unseen})


def open_sampler(config: Config) -> Sampler:
    """A sampler for a job."""
    kafka = config.kafka
    group = f"chsink-{config.sink.name}/sample"
    return Sampler(kafka.client_options(), group, kafka.isolation_level, kafka.timeout_s)
