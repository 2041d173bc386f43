"""Rows of a topic that the recorded state does not account for.

A sink announces a range before it inserts any of it.  So rows at or beyond a record's end, or of a partition without a
record, are another sink's; or the state is older than the table: it was lost, or restored from an old backup.  Going on
would insert these records again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from chsink.clickhouse.shards import RoutedTable, ShardTable
from chsink.clickhouse.table import TargetTable
from chsink.errors import preflight
from chsink.findings import Finding, Severity, found
from chsink.notation.codes import ACCESS_DENIED
from chsink.notation.metadata_columns import PROBE_COLUMNS
from chsink.notation.sql import quote_table
from chsink.ports import Clock, ServerRefused
from chsink.statemachine.records import Phase, StateKey, StateRecord

QUERY_LIMIT_S = 20
"""How long one server may search.  What it does not find in time is a warning, not an error."""
LOOKS, LOOK_AGAIN_S = 5, 1
"""How often the state is read before a start is refused for rows that it does not know: a store's replica may lag."""
NAMED = 5
Records = Mapping[StateKey, StateRecord]


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


def existing_rows_findings(
    records: Records, target: RoutedTable, latest: Callable[[], Records], clock: Clock, asked_ms: int | None = None
) -> Iterator[Finding]:
    """An error where the table holds rows of the topic that the state does not account for.

    ``records`` were read before; ``latest`` reads them again: a driver that still runs may have landed more meanwhile,
    and what it inserted before the question was announced before it.  It reads for some seconds: an answer may be old.
    ``asked_ms``: when the first of several tables was asked.
    """
    if not _can_tell(target.table):
        return
    search = _search(_ends(records, target))
    rows = [row for shard in target.shards for row in _rows(shard, target.topic, search, clock, asked_ms)]
    if not rows:
        return
    surplus = list(_surplus(rows, _of(latest(), target)))
    for _ in range(LOOKS - 1):
        if not surplus:
            return
        clock.sleep(LOOK_AGAIN_S)
        surplus = list(_surplus(rows, _of(latest(), target)))
    if not surplus:
        return
    entry = preflight.STATE_IS_STALE if any(s.recorded_end for s in surplus) else preflight.STATE_MAY_BE_LOST
    yield found(Severity.ERROR, entry, table=target.name, topic=target.topic, where=_where(surplus))


def _surplus(rows: Sequence[tuple[int, int, int]], recorded: Mapping[int, StateRecord]) -> Iterator[Surplus]:
    """What of the rows the records do not account for."""
    for partition in sorted({p for p, _, _ in rows}):
        record = recorded.get(partition)
        last = max(last for p, _, last in rows if p == partition)
        if record is None or last >= record.known_end:
            count = sum(n for p, n, _ in rows if p == partition)
            unknown = record is None or (record.phase is Phase.EMPTY and not record.older_end)
            yield Surplus(partition, count, last, None if unknown or record is None else record.known_end)


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
        if not _can_tell(shard.table):
            continue
        try:
            rows = _rows(shard, topic, f"_kafka_partition IN ({named})", clock)
        except ServerRefused as refused:
            if refused.code == ACCESS_DENIED:
                raise
            continue
        surplus.extend(Surplus(partition, count, last, None) for partition, count, last in rows)
    if surplus:
        raise preflight.STATE_MAY_BE_LOST(table=table, topic=topic, where=_where(surplus))


def _can_tell(table: TargetTable) -> bool:
    return {c.name for c in table.columns}.issuperset(PROBE_COLUMNS)


def _where(surplus: Sequence[Surplus]) -> str:
    more = f"; {len(surplus) - NAMED} more partitions" if len(surplus) > NAMED else ""
    return "; ".join(map(str, surplus[:NAMED])) + more


def _of(records: Records, target: RoutedTable) -> dict[int, StateRecord]:
    return {k.partition: r for k, r in records.items() if (k.topic, k.table) == (target.topic, target.name)}


def _ends(records: Records, target: RoutedTable) -> dict[int, int]:
    return {partition: record.known_end for partition, record in _of(records, target).items()}


def _search(ends: Mapping[int, int]) -> str:
    """Rows at or beyond the ends; 0 is the end of a partition that is not named."""
    known = sorted(ends.items())
    end = (
        "0"
        if not known
        else (
            f"transform(toInt64(_kafka_partition), [{', '.join(f'toInt64({p})' for p, _ in known)}], "
            f"[{', '.join(f'toInt64({e})' for _, e in known)}], toInt64(0))"
        )
    )
    return f"toInt64(_kafka_offset) >= {end}"


def _rows(
    shard: ShardTable, topic: str, search: str, clock: Clock, asked_ms: int | None = None
) -> Iterator[tuple[int, int, int]]:
    """(partition, rows, last offset) of the topic's rows that the search finds."""
    table = quote_table(shard.table.canonical)
    rows = shard.reader(clock, since_ms=asked_ms).query(
        f"SELECT toInt64(_kafka_partition) AS p, count(), max(toInt64(_kafka_offset)) FROM {table} "
        f"WHERE _kafka_topic = {{topic:String}} AND {search} GROUP BY p "
        f"SETTINGS max_execution_time = {QUERY_LIMIT_S}, timeout_overflow_mode = 'throw'",
        {"topic": topic},
    )
    return ((int(p), int(n), int(last)) for p, n, last in rows)
