"""How old records are that wait: the timestamps of the first ones, read without a trace in Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer
from confluent_kafka import TopicPartition as ClientPartition

from chsink.kafka.transactions import consumer_options
from chsink.statemachine.ranges import TopicPartition

FETCH_BYTES: Final = 65_536
"""Of each topic-partition: one record is enough.  Brokers send the first batch whole, however large it is."""


def first_times(
    options: Mapping[str, str], group: str, positions: Mapping[TopicPartition, int], limit_s: float
) -> dict[TopicPartition, int]:
    """The timestamp in ms of the first committed record at or beyond each position, as far as they are found within
    ``limit_s``.  Raises KafkaException.
    """
    small = {"auto.offset.reset": "earliest", "fetch.message.max.bytes": FETCH_BYTES, "queued.min.messages": 1}
    consumer = Consumer({**consumer_options(options, group), **small})
    try:
        consumer.assign([ClientPartition(tp.topic, tp.partition, at) for tp, at in positions.items()])
        found: dict[TopicPartition, int] = {}
        waiting, until = set(positions), monotonic() + limit_s
        while waiting and monotonic() < until:
            message = consumer.poll(0.5)
            if message is None:
                break
            if message.error() is None:
                tp = TopicPartition(message.topic() or "", message.partition() or 0)
                kind, ms = message.timestamp()
                if kind != TIMESTAMP_NOT_AVAILABLE and tp in waiting:
                    found[tp] = ms
                waiting.discard(tp)
                consumer.pause([ClientPartition(tp.topic, tp.partition)])
        return found
    finally:
        consumer.close()
