"""The checker of the demo: compares the records in Kafka with the rows on the shards and in the Iceberg tables.

It imports nothing from chsink.  *Sent* is counted by Kafka's own end offsets and read back from Kafka; *landed* is read
from every shard, or from the table.  Each record is compared with the rows of its own topic, partition and offset,
column by column and by value: 5 and 5.0 are one number, and spaces inside an object in a ``String`` column do not
matter.  So it finds every lost, doubled or changed record.
"""

from __future__ import annotations

import heapq
import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

import clickhouse_connect
from confluent_kafka import Consumer, TopicPartition

Row = Mapping[str, Any]
OFFSET = "_kafka_offset"
WRAPPED = re.compile(r"(?:Nullable|LowCardinality)\((.*)\)")


@dataclass(slots=True)
class Verdict:
    """Sums over topics.  ``distinct`` counts different (topic, partition, offset) among the landed rows.

    A changed record counts as lost, and its row as duplicated.  ``first`` says where the first difference is.
    """

    sent: int = 0
    landed: int = 0
    distinct: int = 0
    lost: int = 0
    duplicated: int = 0
    first: str = ""

    @property
    def exactly_once(self) -> bool:
        return self.lost == 0 and self.duplicated == 0 and self.sent == self.landed == self.distinct

    def __str__(self) -> str:
        counts = (
            f"sent={self.sent} landed={self.landed} distinct={self.distinct} "
            f"lost={self.lost} duplicated={self.duplicated}"
        )
        return f"{counts}; first difference: {self.first}" if self.first else counts


@dataclass(frozen=True, slots=True)
class Compared:
    """One topic and its table: ``types`` maps the compared columns to ClickHouse types."""

    topic: str
    table: str
    types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Side:
    """One copy of the topics: its tables, and how a topic-partition's rows are read, by ascending offset."""

    compared: Sequence[Compared]
    landed: Callable[[Compared, int], Iterable[tuple[int, Row]]]


def check(bootstrap: str, sides: Sequence[Side]) -> list[Verdict]:
    """Compare every topic with its table on each side.  The sides name the same topics in the same order."""
    verdicts = [Verdict() for _ in sides]
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
        for items in zip(*(side.compared for side in sides), strict=True):
            [topic] = {item.topic for item in items}
            for partition in sorted(consumer.list_topics(topic, timeout=20).topics[topic].partitions):
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
                sent = list(_sent(consumer, TopicPartition(topic, partition, low), high))
                for side, item, verdict in zip(sides, items, verdicts, strict=True):
                    verdict.sent += high - low
                    compare(item, partition, sent, side.landed(item, partition), verdict)
    finally:
        consumer.close()
    return verdicts


def compare(
    item: Compared, partition: int, sent: Iterable[tuple[int, Row]], landed: Iterable[tuple[int, Row]], verdict: Verdict
) -> None:
    """Add one topic-partition to the verdict: records and rows, each with its offset and in the order of offsets."""
    by_offset = heapq.merge(((o, 0, r) for o, r in sent), ((o, 1, r) for o, r in landed), key=itemgetter(0, 1))
    for offset, group in groupby(by_offset, key=itemgetter(0)):
        found = list(group)
        record = found.pop(0)[2] if found[0][1] == 0 else None
        differences = [_difference(item, record, row) for _, _, row in found]
        verdict.landed += len(found)
        verdict.distinct += bool(found)
        if "" in differences:
            verdict.duplicated += len(found) - 1
        else:
            verdict.duplicated += len(found)
            verdict.lost += record is not None
        if differences != [""]:
            what = f"{len(found)} rows" if "" in differences else next(iter(differences), "no row")
            verdict.first = verdict.first or f"{item.topic} partition {partition} offset {offset}: {what}"


def _difference(item: Compared, record: Row | None, row: Row) -> str:
    """The first column whose value differs between row and record, "" if none does."""
    if record is None:
        return "a row of no record"
    return next((f"column {c}" for c, kind in item.types.items() if not same(record.get(c), row[c], kind)), "")


def same(sent: Any, landed: Any, kind: str) -> bool:
    """Whether a column of this type holds what was sent.  A missing field is null."""
    if type(sent) is type(landed) and type(sent) in {int, str} and sent == landed:
        return True  # most values by far: whatever the type, the same whole number or text
    if sent is None or landed is None:
        return sent is landed
    kind = unwrapped(kind)
    if kind in {"Float32", "Float64"}:
        width = "f" if kind == "Float32" else "d"
        return struct.pack(width, float(sent)) == struct.pack(width, float(landed))
    if kind == "String" and not isinstance(sent, str):
        return _equal(sent, parse(landed))
    return _equal(sent, landed)


@cache
def unwrapped(kind: str) -> str:
    """The type inside ``Nullable`` and ``LowCardinality``."""
    while wrapped := WRAPPED.fullmatch(kind):
        kind = wrapped[1]
    return kind


def _equal(one: Any, other: Any) -> bool:
    """Equality of JSON values: true is not 1, numbers are exact."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def parse(text: bytes | str) -> Any:
    """JSON with exact numbers."""
    return json.loads(text, parse_float=Decimal)


def _sent(consumer: Consumer, start: TopicPartition, end: int) -> Iterator[tuple[int, Row]]:
    """The records from ``start`` to ``end``, with their offsets."""
    consumer.assign([start])
    at = start.offset
    while at < end:
        for message in consumer.consume(10_000, timeout=5):
            error, offset = message.error(), message.offset()
            if error is not None or offset is None:
                raise RuntimeError(str(error))
            at = offset + 1
            yield offset, parse(message.value() or b"null")


def on_shards(endpoints: Sequence[str], item: Compared, partition: int) -> Iterator[tuple[int, Row]]:
    """The rows of a topic-partition on all shards, with their offsets and in their order."""
    return heapq.merge(*(_landed(endpoint, item, partition) for endpoint in endpoints), key=itemgetter(0))


def _landed(endpoint: str, item: Compared, partition: int) -> Iterator[tuple[int, Row]]:
    """The rows of a topic-partition on one shard, with their offsets."""
    columns = ", ".join(quoted(c) for c in (*item.types, OFFSET))
    client = clickhouse_connect.get_client(dsn=endpoint)
    try:
        body = client.raw_query(
            f"SELECT {columns} FROM {item.table} WHERE _kafka_topic = '{item.topic}' "
            f"AND _kafka_partition = {partition} ORDER BY _kafka_offset FORMAT JSONEachRow",
            settings={"date_time_output_format": "iso", "output_format_json_quote_64bit_integers": 0},
        )
    finally:
        client.close()
    for line in body.splitlines():
        row = parse(line)
        yield row[OFFSET], row


def quoted(column: str) -> str:
    """A column's name as SQL writes it."""
    return "`" + column.replace("\\", "\\\\").replace("`", "\\`") + "`"
