"""The records that are sent, and the check of the rows that must then be in the table.

A record depends on its number alone, so the server can compute the expected rows itself.  The check compares a hash
over every column of every row, and does not depend on how the rows came there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

PARTITIONS = 4
CREATE_S = 120
COLUMNS = (
    "id UInt64, name String, ts DateTime('UTC'), amount Float64, flag Bool, city LowCardinality(String), note String"
)
_HASHED = "count(), sum(cityHash64(id, name, toUnixTimestamp(ts), amount, flag, toString(city), note))"
_EXPECTED = """
    SELECT number AS id, concat('user', toString(number)) AS name,
        toDateTime('2026-01-01 00:00:00', 'UTC') + number % 3600 AS ts, toFloat64(number % 1000) + 0.25 AS amount,
        true AS flag, concat('c', toString(number % 50)) AS city, 'abcdefgh' AS note
    FROM numbers({records}) ARRAY JOIN range({times})"""


def record(index: int) -> bytes:
    """One JSON record of about 110 bytes."""
    minute, second = index // 60 % 60, index % 60
    return (
        b'{"id":%d,"name":"user%d","ts":"2026-01-01 00:%02d:%02d","amount":%d.25,'
        b'"flag":true,"city":"c%d","note":"abcdefgh"}' % (index, index, minute, second, index % 1000, index % 50)
    )


def create(bootstrap: str, partitions: Mapping[str, int]) -> None:
    """Create topics with so many partitions each, and wait until each has a leader; hundreds of them take a while."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, num_partitions=count, replication_factor=1) for name, count in partitions.items()]
    for future in admin.create_topics(topics, operation_timeout=CREATE_S).values():
        future.result(CREATE_S)
    every = [TopicPartition(name, number) for name, count in partitions.items() for number in range(count)]
    until = time.monotonic() + CREATE_S
    while not _led(admin, every):
        assert time.monotonic() < until, "the new partitions get a leader"
        time.sleep(0.2)


def _led(admin: AdminClient, partitions: list[TopicPartition]) -> bool:
    newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    try:
        for future in admin.list_offsets(dict.fromkeys(partitions, newest)).values():
            future.result(CREATE_S)
    except KafkaException:
        return False
    return True


def produce(  # noqa: PLR0917 - where, what, and how it is told
    bootstrap: str, topic: str, start: int, end: int, say: Callable[[str], None], partitions: int = PARTITIONS
) -> None:
    """Send records ``[start, end)``, evenly over the partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.num.messages": 20_000,
                         "queue.buffering.max.messages": 500_000, "queue.buffering.max.kbytes": 1_000_000})  # fmt: skip
    for index in range(start, end):
        while True:
            try:
                producer.produce(topic, value=record(index), partition=index % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if (index + 1) % 1_000_000 == 0:
            producer.poll(0)
            say(f"{topic}: {index + 1:,} of {end:,} records produced")
    left = producer.flush(120)
    assert left == 0, f"{left} records were not delivered"


def wrong(client: Any, table: str, records: int, times: int = 1) -> str | None:
    """What is wrong with the table's rows, None when they are exactly the first ``records``, each so many ``times``."""
    found = client.query(f"SELECT {_HASHED} FROM {table}").result_rows[0]
    expected = client.query(f"SELECT {_HASHED} FROM ({_EXPECTED.format(records=records, times=times)})").result_rows[0]
    return None if found == expected else f"{table} holds (rows, hash) {found}, expected {expected}"
