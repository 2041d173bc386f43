"""Half-open offset ranges ``[start, end)`` of one topic-partition.

Rule: offsets are never counted by rows.  A range says which *offsets* it covers; how many records lie in it is
unknown (compaction and transaction markers leave holes).
"""

from __future__ import annotations

from dataclasses import dataclass


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

    def overlap(self, other: OffsetRange) -> OffsetRange:
        """The offsets in both."""
        start = max(self.start, other.start)
        return OffsetRange(start, max(start, min(self.end, other.end)))


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one Kafka topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
