"""Does Kafka hold a record at offsets that the table does not?  Compaction and transaction markers leave offsets empty.

The holes themselves are read, with the job's isolation level: what a reader gets there is a record that never landed.
Counting records would not do: it cannot tell which one is missing.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition

from chsink.errors import ChsinkError, services
from chsink.statemachine.ranges import OffsetRange, TopicPartition

NEAR = 10_000
"""Holes closer than this are read through rather than sought one by one."""
PATIENCE_S = 30.0
POLL_S = 1.0


def first_unread(
    options: Mapping[str, str], isolation_level: str, tp: TopicPartition, holes: Iterable[OffsetRange]
) -> int | None:
    """The first offset in the holes (ascending) at which a reader gets a record, or beyond which it gets nothing yet.

    None when the holes are read to their end, and hold no record.  Under ``read_committed`` a reader stops at the first
    open transaction: its records may still be committed, so they are unread.
    """
    settings = {
        **options,
        "group.id": f"chsink-recover-{uuid.uuid4().hex[:8]}",
        "enable.auto.commit": False,
        "isolation.level": isolation_level,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
    }
    with closing(Consumer(settings, logger=logging.getLogger("chsink.librdkafka"))) as consumer:
        at: int | None = None
        for hole in holes:
            if at is None or hole.start - at > NEAR or hole.start < at:
                at = hole.start
                consumer.assign([ClientPartition(tp.topic, tp.partition, at)])
            found, at = _read(consumer, tp, hole)
            if found is not None:
                return found
    return None


def _read(consumer: Consumer, tp: TopicPartition, hole: OffsetRange) -> tuple[int | None, int]:
    """(the first unread offset inside the hole or None, the position after it)."""
    idle_s = 0.0
    while True:
        message = consumer.poll(POLL_S)
        if message is None:
            position = consumer.position([ClientPartition(tp.topic, tp.partition)])[0].offset
            if position >= hole.end:
                return None, position
            idle_s += POLL_S
            if idle_s >= PATIENCE_S:
                raise services.KAFKA_SILENT(tp=tp, offset=position, seconds=f"{PATIENCE_S:.0f}")
            continue
        idle_s = 0.0
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                reached = max(hole.start, _offset(message))
                return (None if reached >= hole.end else reached), reached
            raise _unreadable(tp, error)
        offset = _offset(message)
        if offset >= hole.start:
            return (offset if offset < hole.end else None), offset + 1


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _unreadable(tp: TopicPartition, error: KafkaError) -> ChsinkError:
    return services.KAFKA_UNREADABLE(tp=tp, reason=error.str())
