"""Cutting a batch that is too large into rounds: what of its writes the next round announces.

Rules:
- A round takes the head of each range: the same number of chunks of each topic-partition, or all of it.  Where not even
  one chunk each fits, the first topic-partitions take one, and the others wait for a later round.
- A round stays within its limit, but takes at least one chunk.  So rounds end.
- Rounds are not planned ahead and not stored.  When one has landed, the rest is decided like a batch that follows.
  After a crash the whole batch is decided again, and the decision table skips what earlier rounds landed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from .chunks import chunk_count
from .ranges import OffsetRange, TopicPartition
from .table import Decision, Step, StepKind

Ranges = Mapping[TopicPartition, OffsetRange]


class ChunkTarget(Protocol):
    """Where records of a topic-partition land: the table that has to remember the chunks' tokens, and their length."""

    @property
    def table(self) -> str:
        """The table."""

    @property
    def chunk_offsets(self) -> int:
        """How many offsets a chunk has at most."""


ChunkTargets = Mapping[TopicPartition, ChunkTarget]


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that one round announces: ``chunks`` of each table, and ``offsets`` altogether."""

    chunks: Mapping[str, int]
    offsets: int

    def holds(self, ranges: Ranges, targets: ChunkTargets) -> bool:
        """Whether the ranges fit one round."""
        chunks: Counter[str] = Counter()
        for tp, whole in ranges.items():
            chunks[targets[tp].table] += chunk_count(whole, targets[tp].chunk_offsets)
        return sum(r.length for r in ranges.values()) <= self.offsets and all(
            count <= self.chunks[table] for table, count in chunks.items()
        )


def next_round(writes: Ranges, targets: ChunkTargets, limit: Limit) -> dict[TopicPartition, OffsetRange]:
    """The heads of the ranges (none of them empty) that the next round announces."""
    deepest = max((chunk_count(r, targets[tp].chunk_offsets) for tp, r in writes.items()), default=0)

    def heads(chunks: int) -> dict[TopicPartition, OffsetRange]:
        return {tp: _head(r, chunks * targets[tp].chunk_offsets) for tp, r in writes.items()}

    depth = bisect_left(range(1, deepest + 1), True, key=lambda n: not limit.holds(heads(n), targets))
    if depth:
        return heads(depth)
    taken: dict[TopicPartition, OffsetRange] = {}
    for tp, head in sorted(heads(1).items()):
        more = {**taken, tp: head}
        if not taken or limit.holds(more, targets):
            taken = more
    return taken


def cut_writes(decisions: Mapping[TopicPartition, Decision], taken: Ranges) -> dict[TopicPartition, Decision]:
    """The decisions with what the round takes in place of their writes.  A gap is recorded with the write behind it."""
    return {tp: replace(d, steps=tuple(_cut_steps(d, taken.get(tp)))) for tp, d in decisions.items()}


def writes_of(decisions: Mapping[TopicPartition, Decision]) -> dict[TopicPartition, OffsetRange]:
    """What the decisions write."""
    return {tp: s.range for tp, d in decisions.items() for s in d.steps if s.kind is StepKind.WRITE}


def rest_of(planned: Ranges, writes: Ranges, taken: Ranges) -> dict[TopicPartition, OffsetRange]:
    """What of the plan is left for later rounds, empty ranges where nothing is."""
    return {
        tp: r if tp in writes and tp not in taken else OffsetRange(taken[tp].end if tp in taken else r.end, r.end)
        for tp, r in planned.items()
    }


def _cut_steps(decision: Decision, taken: OffsetRange | None) -> list[Step]:
    if taken is None:
        return [s for s in decision.steps if s.kind not in (StepKind.WRITE, StepKind.RECORD_GAP)]
    return [replace(s, range=taken) if s.kind is StepKind.WRITE else s for s in decision.steps]


def _head(whole: OffsetRange, offsets: int) -> OffsetRange:
    return OffsetRange(whole.start, min(whole.end, whole.start + offsets))
