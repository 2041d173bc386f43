"""Rows of a topic that the recorded state does not account for.

A sink announces a range before it inserts any of it.  So rows at or beyond a record's end, or of a partition without a
record, are another sink's; or the state is older than the table: it was lost, or restored from an old backup.  Going on
would insert these records again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from chsink.clickhouse.shards import RoutedTable
from chsink.clickhouse.unaccounted import Surplus, in_words, rows_of
from chsink.errors import preflight
from chsink.findings import Finding, Severity, found
from chsink.ports import Clock
from chsink.statemachine.records import Phase, StateRecord, StateRecords

LOOKS, LOOK_AGAIN_S = 5, 1
"""How often the state is read before a start is refused for rows that it does not know: a store's replica may lag."""


def existing_rows_findings(
    records: StateRecords,
    target: RoutedTable,
    latest: Callable[[], StateRecords],
    clock: Clock,
    asked_ms: int | None = None,
) -> Iterator[Finding]:
    """An error where the table holds rows of the topic that the state does not account for.

    ``records`` were read before; ``latest`` reads them again: a driver that still runs may have landed more meanwhile,
    and what it inserted before the question was announced before it.  It reads for some seconds: an answer may be old.
    ``asked_ms``: when the first of several tables was asked.
    """
    if not target.table.shows_places:
        return
    search = _search(_ends(records, target))
    rows = [row for shard in target.shards for row in rows_of(shard, target.topic, search, clock, asked_ms)]
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
    yield found(Severity.ERROR, entry, table=target.name, topic=target.topic, where=in_words(surplus))


def _surplus(rows: Sequence[tuple[int, int, int]], recorded: Mapping[int, StateRecord]) -> Iterator[Surplus]:
    """What of the rows the records do not account for."""
    for partition in sorted({p for p, _, _ in rows}):
        record = recorded.get(partition)
        last = max(last for p, _, last in rows if p == partition)
        if record is None or last >= record.known_end:
            count = sum(n for p, n, _ in rows if p == partition)
            unknown = record is None or (record.phase is Phase.EMPTY and not record.life.older_end)
            yield Surplus(partition, count, last, None if unknown or record is None else record.known_end)


def _of(records: StateRecords, target: RoutedTable) -> dict[int, StateRecord]:
    return {k.partition: r for k, r in records.items() if (k.topic, k.table) == (target.topic, target.name)}


def _ends(records: StateRecords, target: RoutedTable) -> dict[int, int]:
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
