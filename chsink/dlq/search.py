"""Reads a topic of dead letters: all that was committed, from its first record to its present end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from chsink.dlq.place import LettersTopic
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter: the record as it was, without the headers that say ``why`` (by name), which are the last."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]
    why: Mapping[str, str]


def letters_in(place: LettersTopic, *, whole: bool = False) -> Iterator[Letter]:
    """The dead letters that the topic holds now, of all sinks.  An open transaction hides those behind it: with
    ``whole``, its end is waited for.  Raises KafkaException when Kafka stops answering, or the wait is too long.
    """
    topic, timeout_s = place.topic, place.timeout_s
    settings = {**place.options, "group.id": place.group, "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "auto.offset.reset": "earliest"})
    with closing(consumer):
        found = consumer.list_topics(topic, timeout=timeout_s).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        left = dict.fromkeys(found.partitions, 0)
        if whole:
            left = {p: consumer.get_watermark_offsets(ClientPartition(topic, p), timeout_s)[1] for p in left}
        consumer.assign([ClientPartition(topic, p, 0) for p in left])
        give_up = time.monotonic() + timeout_s
        while left:
            if time.monotonic() > give_up:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            for message in consumer.consume(1000, 0.5):
                give_up = time.monotonic() + timeout_s
                error = message.error()
                if error is None:
                    yield from _letter(message)
                elif error.name() == "_PARTITION_EOF":
                    partition, reached = message.partition(), message.offset()
                    if partition in left and (reached or 0) >= left[partition]:
                        del left[partition]
                else:
                    raise KafkaException(error)


def _letter(message: Message) -> Iterator[Letter]:
    """The dead letter; nothing of a record that is none."""
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    starts = [i for i, (name, _) in enumerate(headers) if name == "__connect.errors.topic"]
    if not starts:
        return
    own, partition, offset = headers[starts[-1] :], message.partition(), message.offset()
    assert partition is not None and offset is not None
    why = {name: (value or b"").decode("utf-8", "replace") for name, value in own}
    if "chsink.nonce" in why:
        key, value = message.key(), message.value()
        time_ms, original = int(why["chsink.timestamp_ms"]), tuple(headers[: starts[-1]])
        yield Letter(partition, offset, key, value, time_ms, original, why)


def delivered_until(place: LettersTopic, key: StateKey, nonce: str, offsets: OffsetRange) -> int | None:
    """The end of what was delivered of a range in one life, by the last of its dead letters that the topic holds; None
    where it holds none.
    """
    wanted = (key.sink, key.table, key.topic, str(key.partition), nonce)
    names = ("chsink.sink", "chsink.table", "chsink.topic", "chsink.partition", "chsink.nonce")
    found = (
        int(letter.why["chsink.offset"])
        for letter in letters_in(place, whole=True)
        if tuple(letter.why.get(name) for name in names) == wanted
    )
    return max((offset + 1 for offset in found if offsets.start <= offset < offsets.end), default=None)
