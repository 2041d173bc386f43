"""How fast each table catches up, measured between two reads of the state and of Kafka."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chsink.statemachine.records import TopicTable
from chsink.status.model import PartitionStatus, SinkStatus


@dataclass(frozen=True, slots=True)
class TableSpeed:
    """One topic and table.  Rates are offsets per second, ``lag`` is in offsets, ``lag_s`` the age in seconds of the
    oldest record that is missing.  ``left_s`` counts the seconds until the lag is gone at this speed, None if the lag
    does not shrink.  None also stands for what is not known.  ``in_doubt`` counts partitions.
    """

    topic: str
    table: str
    landed_per_s: float | None
    produced_per_s: float | None
    lag: int | None
    lag_s: float | None
    left_s: float | None
    in_doubt: int


@dataclass(frozen=True, slots=True)
class _Added:
    """Of all partitions of a topic, for one table."""

    end: int = 0
    lag: int | None = 0
    lag_s: float | None = None
    in_doubt: int = 0


def speeds(before: SinkStatus | None, now: SinkStatus, seconds: float) -> list[TableSpeed]:
    """How each table does, from two statuses that are ``seconds`` apart."""
    old = {} if before is None else _sums(before.partitions)
    return [_speed(name, old.get(name), sums, seconds) for name, sums in _sums(now.partitions).items()]


def _sums(partitions: Iterable[PartitionStatus]) -> dict[TopicTable, _Added]:
    found: dict[TopicTable, _Added] = {}
    for p in partitions:
        sums = found.get((p.topic, p.table), _Added())
        lag = None if p.lag is None or sums.lag is None else sums.lag + p.lag
        ages = [age for age in (sums.lag_s, p.lag_s) if age is not None]
        found[p.topic, p.table] = _Added(sums.end + p.end, lag, max(ages, default=None), sums.in_doubt + p.in_doubt)
    return found


def _speed(name: TopicTable, old: _Added | None, now: _Added, seconds: float) -> TableSpeed:
    if old is None or now.end < old.end:  # the first look, or a reset in between
        return TableSpeed(*name, None, None, now.lag, now.lag_s, None, now.in_doubt)
    landed = (now.end - old.end) / seconds
    if now.lag is None or old.lag is None:
        return TableSpeed(*name, landed, None, now.lag, now.lag_s, None, now.in_doubt)
    produced = max(0.0, (now.end + now.lag - old.end - old.lag) / seconds)
    shrinks = landed - produced
    left = 0.0 if not now.lag else now.lag / shrinks if shrinks > 0 else None
    return TableSpeed(*name, landed, produced, now.lag, now.lag_s, left, now.in_doubt)
