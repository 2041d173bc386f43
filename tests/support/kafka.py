"""Records into and out of a topic, quickly, with and without transactions, at offsets the test can name.

Nothing here imports ``chsink``: what a test compares the sink with must not share its mistakes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec

_LIMIT_S: Final = 60.0
_POLL_EVERY: Final = 10_000

Value = bytes | str | Mapping[str, Any] | None
Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Record:
    """One record as Kafka holds it; ``timestamp`` in milliseconds, ``headers`` in order, names as often as given."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers


def produce(
    bootstrap: str,
    topic: str,
    partition: int,
    values: Iterable[Value],
    *,
    key: bytes | None = None,
    headers: Mapping[str, bytes] | Headers = (),
    transactional: str | None = None,
    abort: bool = False,
) -> tuple[int, int]:
    """Append values to one partition and return the half-open offsets this took, a transaction's marker included.

    Mappings are written as compact JSON.  ``transactional`` is the transactional id; ``abort`` ends the transaction
    without effect, so that its offsets exist but no reader of committed records sees them.
    """
    assert transactional or not abort, "only a transaction can be aborted"
    start = end_offset(bootstrap, topic, partition)
    producer = _producer(bootstrap, transactional)
    if transactional:
        producer.init_transactions(_LIMIT_S)
        producer.begin_transaction()
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(error)

    extras: list[tuple[str, str | bytes | None]] = [*(headers.items() if isinstance(headers, Mapping) else headers)]
    for number, value in enumerate(values, 1):
        append = partial(producer.produce, topic, _encode(value), key, partition, delivered, headers=extras)
        _when_there_is_room(producer, append)
        if number % _POLL_EVERY == 0:
            producer.poll(0)
    if producer.flush(_LIMIT_S):
        raise TimeoutError(f"records for {topic} were not taken within {_LIMIT_S:g} s")
    if transactional:
        (producer.abort_transaction if abort else producer.commit_transaction)(_LIMIT_S)
    if failures:
        raise KafkaException(failures[0])
    if transactional:
        await_marker(bootstrap, topic, partition)
    return start, end_offset(bootstrap, topic, partition)


def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    """Grow a topic to ``total`` partitions, and wait until they are served."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, total)], operation_timeout=_LIMIT_S)[topic].result(_LIMIT_S)
    deadline = time.monotonic() + _LIMIT_S
    while _served(admin, topic) != total:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic} has no {total} partitions")
        time.sleep(0.02)


def _served(admin: AdminClient, topic: str) -> int:
    """How many partitions answer.  Metadata names a leader before that leader has the partition's log."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    partitions = admin.list_topics(topic, timeout=_LIMIT_S).topics[topic].partitions
    answers = admin.list_offsets({TopicPartition(topic, p): latest for p in partitions}, request_timeout=_LIMIT_S)
    return sum(answer.exception(_LIMIT_S) is None for answer in answers.values())


def end_offset(bootstrap: str, topic: str, partition: int, *, isolation: str = "read_uncommitted") -> int:
    """The offset after the last one of the partition's log, markers included; or the first of an open transaction."""
    with _consumer(bootstrap, isolation) as consumer:
        _, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_LIMIT_S)
    return int(high)


def await_marker(bootstrap: str, topic: str, partition: int) -> None:
    """The broker writes a transaction's marker after it has confirmed the commit."""
    deadline = time.monotonic() + _LIMIT_S
    while end_offset(bootstrap, topic, partition, isolation="read_committed") < end_offset(bootstrap, topic, partition):
        if time.monotonic() > deadline:
            raise TimeoutError(f"a transaction on {topic}-{partition} stays open")
        time.sleep(0.01)


def read_all(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> list[Record]:
    """Every record the topic holds now, by partition and offset; aborted ones only when read uncommitted."""
    records: list[Record] = []
    with _consumer(bootstrap, isolation) as consumer:
        partitions = consumer.list_topics(topic, timeout=_LIMIT_S).topics[topic].partitions
        for partition in sorted(partitions):
            records += _read_partition(consumer, topic, partition)
    return records


def _read_partition(consumer: Consumer, topic: str, partition: int) -> list[Record]:
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_LIMIT_S)
    records: list[Record] = []
    if low == high:
        return records
    consumer.assign([TopicPartition(topic, partition, low)])
    deadline = time.monotonic() + _LIMIT_S
    while (position := _position(consumer, topic, partition)) < high:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}-{partition} could not be read to {high} within {_LIMIT_S:g} s")
        # No more than there can be: it would wait for them.  The position is unknown (negative) before the first.
        for message in consumer.consume(min(high - max(position, low), _POLL_EVERY), 0.1):
            if message.error() is not None:
                raise KafkaException(message.error())
            offset = message.offset()
            assert offset is not None
            key, value = message.key(), message.value()
            _, timestamp = message.timestamp()
            given: list[Any] = list(message.headers() or ())
            headers = [(str(name), _bytes(data)) for name, data in given]
            records.append(Record(partition, offset, _bytes(key), _bytes(value), timestamp, headers))
    return [record for record in records if record.offset < high]


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


def _position(consumer: Consumer, topic: str, partition: int) -> int:
    """The next offset to read; it passes markers and aborted records, which no message shows."""
    return int(consumer.position([TopicPartition(topic, partition)])[0].offset)


def _producer(bootstrap: str, transactional: str | None) -> Producer:
    """In order.  Idempotent only where it must be: each new producer would wait half a second for its id."""
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "linger.ms": 5,
        "queue.buffering.max.messages": 1_000_000,
        "enable.idempotence": transactional is not None,
        "max.in.flight": 1,
        "log_level": 0,
    }
    if transactional:
        config["transactional.id"] = transactional
    return Producer(config)


def _consumer(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tests",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )


def _encode(value: Value) -> bytes | None:
    if isinstance(value, Mapping):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return value.encode() if isinstance(value, str) else value


def _when_there_is_room(producer: Producer, append: Callable[[], None]) -> None:
    """Queue one record; a full queue is waited for."""
    while True:
        try:
            append()
        except BufferError:
            producer.poll(0.1)
        else:
            return
