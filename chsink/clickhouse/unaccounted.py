"""Rows of a topic in a target table, and those of them that no state accounts for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from chsink.clickhouse.shards import ShardTable
from chsink.errors import preflight
from chsink.notation.codes import ACCESS_DENIED
from chsink.notation.sql import quote_table
from chsink.ports import Clock, ServerRefused

QUERY_LIMIT_S = 20
"""How long one server may search.  What it does not find in time is a warning, not an error."""
NAMED = 5


@dataclass(frozen=True, slots=True)
class Surplus:
    """``rows`` of one partition at or beyond ``recorded_end`` (None: nothing is recorded), the last at ``last``."""

    partition: int
    rows: int
    last: int
    recorded_end: int | None

    def __str__(self) -> str:
        recorded = "" if self.recorded_end is None else f", recorded end {self.recorded_end}"
        return f"partition {self.partition}: {self.rows} rows up to offset {self.last}{recorded}"


def check_nothing_landed(
    shards: Sequence[ShardTable], table: str, topic: str, partitions: Collection[int], clock: Clock
) -> None:
    """PreflightError CHS-229 when the table has rows of partitions of which nothing was ever announced.

    A claim asks this after it made their rows: the check before it may have seen a state that was lost since.  A server
    that cannot search in time has said so in that check.
    """
    named = ", ".join(str(p) for p in sorted(partitions))
    surplus: list[Surplus] = []
    for shard in shards:
        if not shard.table.shows_places:
            continue
        try:
            rows = rows_of(shard, topic, f"_kafka_partition IN ({named})", clock)
        except ServerRefused as refused:
            if refused.code == ACCESS_DENIED:
                raise
            continue
        surplus.extend(Surplus(partition, count, last, None) for partition, count, last in rows)
    if surplus:
        raise preflight.STATE_MAY_BE_LOST(table=table, topic=topic, where=in_words(surplus))


def in_words(surplus: Sequence[Surplus]) -> str:
    """The partitions, the first ones by themselves."""
    more = f"; {len(surplus) - NAMED} more partitions" if len(surplus) > NAMED else ""
    return "; ".join(map(str, surplus[:NAMED])) + more


def rows_of(
    shard: ShardTable, topic: str, search: str, clock: Clock, asked_ms: int | None = None
) -> Iterator[tuple[int, int, int]]:
    """(partition, rows, last offset) of the topic's rows that the search finds."""
    table = quote_table(shard.table.canonical)
    rows = shard.reader(clock, since_ms=asked_ms).query(
        f"SELECT toInt64(_kafka_partition) AS p, count(), max(toInt64(_kafka_offset)) FROM {table} "
        f"WHERE _kafka_topic = {{topic:String}} AND {search} GROUP BY p "
        f"SETTINGS max_execution_time = {QUERY_LIMIT_S}",
        {"topic": topic},
    )
    return ((int(p), int(n), int(last)) for p, n, last in rows)
