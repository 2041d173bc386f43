"""How fast each table catches up, measured between two reads of the state and of Kafka."""

from __future__ import annotations

from collections.abc import Iterable

from chsink.observe.pace import TableSpeed, TableState, speed_of
from chsink.statemachine.records import TopicTable
from chsink.status.model import PartitionStatus, SinkStatus


def speeds(before: SinkStatus | None, now: SinkStatus, seconds: float) -> list[TableSpeed]:
    """How each table does, from two statuses that are ``seconds`` apart."""
    old = {} if before is None else _sums(before.partitions)
    return [speed_of(name, old.get(name), sums, seconds) for name, sums in _sums(now.partitions).items()]


def _sums(partitions: Iterable[PartitionStatus]) -> dict[TopicTable, TableState]:
    found: dict[TopicTable, TableState] = {}
    for p in partitions:
        sums = found.get((p.topic, p.table), TableState())
        lag = None if p.lag is None or sums.lag is None else sums.lag + p.lag
        ages = [age for age in (sums.lag_s, p.lag_s) if age is not None]
        found[p.topic, p.table] = TableState(sums.end + p.end, lag, max(ages, default=None), sums.in_doubt + p.in_doubt)
    return found
