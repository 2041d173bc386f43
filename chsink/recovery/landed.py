"""Which offsets of a topic-partition the target table holds, all shards together, and which it does not.

Offsets are asked for as 64-bit words, one bit an offset, made by the server: 64 offsets cost one small row, a slice of
``SLICE`` offsets a quarter of a million of them.  A row count would not do: several rows of one record would hide that
another is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chsink.clickhouse.table import TargetTable
from chsink.kafka.same_records import Times
from chsink.ports import Queries, ResultRow
from chsink.statemachine.ranges import OffsetRange, TopicPartition

QueriedTable = tuple[Queries, str]
"""A client, and what it reads the rows FROM: a table, or a part of one."""
SLICE = 1 << 24
WORD = 64
_MINE = "_kafka_topic = {topic:String} AND _kafka_partition = {partition:Int64}"


@dataclass(frozen=True, slots=True)
class Extent:
    """What the shards hold of one topic-partition: ``rows`` in all, in ``range``."""

    range: OffsetRange
    rows: int


def extent(shards: Sequence[QueriedTable], tp: TopicPartition) -> Extent | None:
    """The first and last offset there are, None when there is no row."""
    asked = "count(), min(toInt64(_kafka_offset)), max(toInt64(_kafka_offset))"
    sql = f"SELECT {asked} FROM {{table}} WHERE {_MINE}"
    found = [row for shard in shards for row in _query(shard, sql, tp) if row[0]]
    if not found:
        return None
    low, high = min(int(r[1]) for r in found), max(int(r[2]) for r in found)
    return Extent(OffsetRange(low, high + 1), sum(int(r[0]) for r in found))


def holes(
    shards: Sequence[QueriedTable],
    tp: TopicPartition,
    within: OffsetRange,
    progress: Callable[[int], None],
    others: npt.NDArray[np.int64],
) -> Iterator[OffsetRange]:
    """Ranges of offsets without a row that are none of the ``others``, ascending and apart.  ``progress`` is given the
    offset reached.
    """
    last: OffsetRange | None = None
    for start in range(within.start, within.end, SLICE):
        part = OffsetRange(start, min(start + SLICE, within.end))
        there = present(shards, tp, part)
        there[others[(others >= part.start) & (others < part.end)] - part.start] = True
        for hole in runs_of_missing(there, part.start):
            if last is not None and last.end == hole.start:
                last = OffsetRange(last.start, hole.end)
                continue
            if last is not None:
                yield last
            last = hole
        progress(part.end)
    if last is not None:
        yield last


def present(shards: Sequence[QueriedTable], tp: TopicPartition, part: OffsetRange) -> npt.NDArray[np.bool_]:
    """For each offset of the part, whether any shard holds a row of it."""
    sql = (
        "SELECT intDiv(o, 64) AS at, groupBitOr(bitShiftLeft(toUInt64(1), o % 64)) FROM "
        f"(SELECT toUInt64(_kafka_offset - {part.start}) AS o FROM {{table}} WHERE {_MINE} "
        f"AND _kafka_offset >= {part.start} AND _kafka_offset < {part.end}) GROUP BY at"
    )
    words = np.zeros(-(-part.length // WORD), dtype="<u8")
    for shard in shards:
        rows = _query(shard, sql, tp)
        if rows:
            at, bits = zip(*rows, strict=True)
            words[np.array(at, dtype=np.int64)] |= np.array(bits, dtype="<u8")
    return np.unpackbits(words.view(np.uint8), bitorder="little")[: part.length].astype(np.bool_)


def have_timestamps(table: TargetTable) -> bool:
    """Whether rows have the timestamps of their records.  An insert changes none: what does not fit is refused."""
    return any(column.name == "_kafka_timestamp" and "DateTime" in column.type for column in table.insertable)


def timestamps(shards: Sequence[QueriedTable], tp: TopicPartition, part: OffsetRange) -> Times:
    """The offset and the timestamp in ms of each row of the part."""
    sql = (
        "SELECT toInt64(_kafka_offset), toUnixTimestamp64Milli(toDateTime64(assumeNotNull(_kafka_timestamp), 3)) "
        f"FROM {{table}} WHERE {_MINE} AND _kafka_offset >= {part.start} AND _kafka_offset < {part.end}"
    )
    rows = np.array([row for shard in shards for row in _query(shard, sql, tp)], np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def _query(shard: QueriedTable, sql: str, tp: TopicPartition) -> list[ResultRow]:
    """The answer of one shard, whose table is ``{table}``."""
    client, source = shard
    return client.query(sql.replace("{table}", source), {"topic": tp.topic, "partition": tp.partition})


def runs_of_missing(present: npt.NDArray[np.bool_], first: int) -> list[OffsetRange]:
    """The runs of False, as offset ranges; ``first`` is the offset of the first element."""
    edges = np.diff(np.concatenate(([True], present, [True])).astype(np.int8))
    starts, ends = np.flatnonzero(edges == -1), np.flatnonzero(edges == 1)
    return [OffsetRange(first + int(a), first + int(b)) for a, b in zip(starts, ends, strict=True)]
