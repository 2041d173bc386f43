"""Half-open offset ranges ``[start, end)`` and how a planned range relates to a recorded one.

Rule: offsets are never counted by rows.  A range says which *offsets* it covers; how many records lie in it is
unknown (compaction and transaction markers leave holes).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets ``start <= o < end`` of one topic-partition.  Raises ``ValueError`` when ``0 <= start <= end`` fails."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not an offset range: [{self.start}, {self.end})")

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"

    @property
    def length(self) -> int:
        """How many offsets (not records) the range covers."""
        return self.end - self.start

    @property
    def is_empty(self) -> bool:
        return self.start == self.end

    def covers(self, other: OffsetRange) -> bool:
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one Kafka topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Relation(StrEnum):
    """How a planned range ``[a, b)`` lies to the recorded ``[s, e)``, once ``a >= s`` and ``b > s`` hold."""

    NEW = "NEW"
    GAP = "GAP"
    SAME = "SAME"
    OVERLAPPING_FROM_START = "OVERLAPPING, a = s"
    OVERLAPPING_FROM_INSIDE = "OVERLAPPING, a > s"
    CONTAINS = "CONTAINS"


def relate(recorded: OffsetRange, planned: OffsetRange) -> Relation:
    """The one relation that holds.  Needs a non-empty planned range that does not start below the recorded one."""
    s, e, a, b = recorded.start, recorded.end, planned.start, planned.end
    assert s <= a < b and s < e, (recorded, planned)
    if a == e:
        return Relation.NEW
    if a > e:
        return Relation.GAP
    if (a, b) == (s, e):
        return Relation.SAME
    if b <= e:
        return Relation.CONTAINS
    return Relation.OVERLAPPING_FROM_START if a == s else Relation.OVERLAPPING_FROM_INSIDE
