"""What a worker hands over: a *unit* is one offset range of one topic-partition, written for one table.

A unit travels in one or several parts (a message holds only so many files).  All parts of a unit, and the group's new
offset, are in one transaction.  A reader may still meet them in two polls, so a unit counts only when it has all of
its parts.  Parts are put together by the unit's id: two attempts at one range write different files and must not mix.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from chsink.statemachine.ranges import OffsetRange, TopicPartition


class DamagedUnit(ValueError):
    """Parts of one unit contradict each other."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where an event lies in the control topic."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Head:
    """The fields that all parts of a unit share.

    ``unit_id`` is unique to an attempt and a table.  ``spec_id`` is the partition spec that its files were written for.
    ``parts`` is how many parts there are.  ``choice`` is the fingerprint of what chose its records, "" for all.
    """

    unit_id: str
    table: str
    table_uuid: str
    tp: TopicPartition
    topic_id: str
    range: OffsetRange
    spec_id: int
    parts: int
    choice: str = ""

    def __post_init__(self) -> None:
        assert self.parts >= 1, self


@dataclass(frozen=True, slots=True)
class UnitPart:
    """One event of a unit: part ``number`` of ``head.parts``, counted from 0, with the locations of its files."""

    head: Head
    number: int
    files: tuple[str, ...]
    at: Position

    def __post_init__(self) -> None:
        assert 0 <= self.number < self.head.parts, self


@dataclass(frozen=True, slots=True)
class Unit:
    """The parts of a unit that were read.  ``files`` are locations in order of parts, ``at`` where the parts lie."""

    head: Head
    files: tuple[str, ...]
    at: tuple[Position, ...]
    whole: bool = True
    order: tuple[int, int, str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        order = (self.head.range.start, -self.head.range.end, self.head.unit_id)
        object.__setattr__(self, "order", order)

    @property
    def range(self) -> OffsetRange:
        return self.head.range


def assemble(parts: Iterable[UnitPart]) -> tuple[Unit, ...]:
    """The units of these parts.  A part that was read twice counts once.  Raises :class:`DamagedUnit`."""
    found: dict[str, dict[int, UnitPart]] = {}
    for part in parts:
        same = found.setdefault(part.head.unit_id, {})
        if any(other.head != part.head for other in same.values()):
            raise DamagedUnit(f"unit {part.head.unit_id}: its parts describe different ranges")
        if part.number in same and same[part.number].files != part.files:
            raise DamagedUnit(f"unit {part.head.unit_id}: part {part.number} was read with different files")
        same[part.number] = part
    return tuple(_unit(tuple(same[k] for k in sorted(same))) for same in found.values())


def _unit(parts: tuple[UnitPart, ...]) -> Unit:
    head = parts[0].head
    # a location counts once: the same file twice in one append would double its rows
    files = tuple(dict.fromkeys(location for part in parts for location in part.files))
    return Unit(head, files, tuple(part.at for part in parts), len(parts) == head.parts)
