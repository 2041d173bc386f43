"""Cutting a range into chunks by offset, and checking that acknowledgements tile it again.

A chunk is ``[start + k·chunk_offsets, start + (k+1)·chunk_offsets)`` cut at the range's end.  Cutting by offset and
not by rows makes every attempt cut alike, even if compaction removed records in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .ranges import OffsetRange


def chunk_count(whole: OffsetRange, chunk_offsets: int) -> int:
    """How many chunks the range has."""
    return -(-whole.length // chunk_offsets)


def chunk(whole: OffsetRange, chunk_offsets: int, index: int) -> OffsetRange:
    """Chunk number ``index`` of the range."""
    assert 0 <= index < chunk_count(whole, chunk_offsets), (whole, chunk_offsets, index)
    start = whole.start + index * chunk_offsets
    return OffsetRange(start, min(start + chunk_offsets, whole.end))


def chunk_index(whole: OffsetRange, chunk_offsets: int, offset: int) -> int:
    """The number of the chunk that holds ``offset``."""
    assert whole.start <= offset < whole.end, (whole, offset)
    return (offset - whole.start) // chunk_offsets


def chunks(whole: OffsetRange, chunk_offsets: int) -> Iterator[OffsetRange]:
    """All chunks in order.  They tile the range."""
    for index in range(chunk_count(whole, chunk_offsets)):
        yield chunk(whole, chunk_offsets, index)


def tiles(whole: OffsetRange, parts: Iterable[OffsetRange]) -> bool:
    """Whether the parts, in any order, cover the range exactly once."""
    at = whole.start
    for part in sorted(parts):
        if part.is_empty or part.start != at:
            return False
        at = part.end
    return at == whole.end
