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


class Sampler:
    """Reads samples with the job's options and isolation level, under the name of a group that it does not join.  Each
    wait for a record is bounded by ``timeout_s`` in which nothing is read.
    """

    def __init__(self, options: Mapping[str, str], group: str, isolation_level: str, timeout_s: float) -> None:
        self._idle = Idle(timeout_s)
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
        are none.  If it was ``readable`` up to its end, what Kafka does not show now may be one.
        """
        self._consumer.assign([ClientPartition(tp.topic, tp.partition, offsets.start)])
        message = self._polled(tp, offsets.start)
        at = message.offset()
        return (message.error() is None or readable) and (at is None or at < offsets.end)

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
        while (message := self._consumer.poll(POLL_S)) is None:
            if self._idle.too_long():
                raise self._idle.error(tp, offset)
        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            return message
        raise unreadable(error, tp)


def holding(
    config: Config, ranges: Mapping[TopicPartition, OffsetRange], *, readable: bool = True
) -> Iterator[TopicPartition]:
    """Those whose range has a record that the job can read.

    ``readable``: the ranges were planned, so the job could read them to their ends.  A follower or new leader that lags
    may not show all of that now.  Of other ranges, what is not shown is of an open transaction.
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
    yield from (tp for tp in filled if tp.topic in compacted)
    yield from holding(config, {tp: offsets for tp, offsets in filled.items() if tp.topic not in compacted})


def open_sampler(config: Config) -> Sampler:
    """A sampler for a job."""
    kafka = config.kafka
    group = f"chsink-{config.sink.name}/sample"
    return Sampler(kafka.client_options(), group, kafka.isolation_level, kafka.timeout_s)
