"""The judge of the demo and of the fault tests: what Kafka holds against what the shards hold.

It imports nothing from chsink.  *Sent* is counted by Kafka's own end offsets and read back from Kafka; *landed* is read
from every shard.  Records are compared as a multiset of content hashes, so a lost, doubled or changed record all show.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import clickhouse_connect
from confluent_kafka import Consumer, TopicPartition

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Sums over topics.  ``distinct`` counts different (topic, partition, offset) among the landed rows."""

    sent: int
    landed: int
    distinct: int
    lost: int
    duplicated: int

    @property
    def exactly_once(self) -> bool:
        return self.lost == 0 and self.duplicated == 0 and self.sent == self.landed == self.distinct

    def __str__(self) -> str:
        return (
            f"sent={self.sent} landed={self.landed} distinct={self.distinct} "
            f"lost={self.lost} duplicated={self.duplicated}"
        )


@dataclass(frozen=True, slots=True)
class Compared:
    """One topic and its table: ``types`` maps the compared columns to ClickHouse types."""

    topic: str
    table: str
    types: Mapping[str, str] = field(default_factory=dict)


def check(bootstrap: str, endpoints: Sequence[str], compared: Sequence[Compared]) -> Verdict:
    """Compare every topic with its table over all shards."""
    sent = landed = distinct = lost = duplicated = 0
    for item in compared:
        ends, sent_hashes = _sent(bootstrap, item)
        landed_hashes, keys = _landed(endpoints, item)
        sent += ends
        landed += landed_hashes.total()
        distinct += len(keys)
        lost += (sent_hashes - landed_hashes).total()
        duplicated += (landed_hashes - sent_hashes).total()
    return Verdict(sent, landed, distinct, lost, duplicated)


def _sent(bootstrap: str, item: Compared) -> tuple[int, Counter[bytes]]:
    """(sum of the log ends less the log starts, the multiset of what the records say)."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": False,
        }
    )
    try:
        partitions = consumer.list_topics(item.topic, timeout=20).topics[item.topic].partitions
        marks = {p: consumer.get_watermark_offsets(TopicPartition(item.topic, p), timeout=20) for p in partitions}
        consumer.assign([TopicPartition(item.topic, p, low) for p, (low, _high) in marks.items()])
        left = {p: high for p, (low, high) in marks.items() if high > low}
        hashes: Counter[bytes] = Counter()
        while left:
            for message in consumer.consume(10_000, timeout=5):
                error, partition, offset = message.error(), message.partition(), message.offset()
                if error is not None or partition is None or offset is None:
                    raise RuntimeError(str(error))
                hashes[_hash(item, json.loads(message.value() or b"null"))] += 1
                if offset + 1 >= left.get(partition, -1):
                    left.pop(partition, None)
        return sum(high - low for low, high in marks.values()), hashes
    finally:
        consumer.close()


def _landed(endpoints: Sequence[str], item: Compared) -> tuple[Counter[bytes], set[tuple[int, int]]]:
    hashes: Counter[bytes] = Counter()
    keys: set[tuple[int, int]] = set()
    for endpoint in endpoints:
        for row in _rows(endpoint, item):
            hashes[_hash(item, row)] += 1
            keys.add((row["_kafka_partition"], row["_kafka_offset"]))
    return hashes, keys


def _rows(endpoint: str, item: Compared) -> Iterator[Row]:
    client = clickhouse_connect.get_client(dsn=endpoint)
    columns = ", ".join(f"`{c}`" for c in (*item.types, "_kafka_partition", "_kafka_offset"))
    try:
        body = client.raw_query(
            f"SELECT {columns} FROM {item.table} WHERE _kafka_topic = '{item.topic}' FORMAT JSONEachRow",
            settings={"date_time_output_format": "iso", "output_format_json_quote_64bit_integers": 0},
        )
    finally:
        client.close()
    yield from (json.loads(line) for line in body.splitlines())


def _hash(item: Compared, row: Row) -> bytes:
    """Of the compared columns, by value: 5 and 5.0 in a float column are one, a missing field is null."""
    values = [_value(row.get(c), kind) for c, kind in item.types.items()]
    return hashlib.blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=16).digest()


def _value(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if "Float" in kind:
        return float(value)
    if "String" in kind and not isinstance(value, str):
        return json.dumps(value, sort_keys=True)
    return value
