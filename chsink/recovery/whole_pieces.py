"""Where did the lost announcement cut its range?

A crash leaves whole pieces: of each chunk, a shard holds all rows or none.  A range that is rebuilt in doubt must be
cut in the same way, or a probe finds a part of a piece and halts.  The old start is lost.  But every border between
rows that are there and rows that are missing lies between two chunks, and all chunks have the same length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


def cut_before(first: int, shards: Iterable[tuple[I64, I64]], chunk_offsets: int) -> int | None:
    """The last offset up to ``first`` from which chunks can be cut so that each piece is whole; None if there is none.

    ``shards``: for each shard the offsets (ascending) of the records that are there, and of those that are missing.
    """
    starts = np.arange(first - chunk_offsets + 1, first + 1)
    for after, until in _borders(shards):
        starts = starts[(until - starts) % chunk_offsets <= until - after]
        if not len(starts):
            return None
    return int(starts[-1])


def _borders(shards: Iterable[tuple[I64, I64]]) -> Iterator[tuple[int, int]]:
    """Between which offsets (both included) a chunk has to begin."""
    for there, missing in shards:
        offsets = np.concatenate([there, missing])
        is_there = np.repeat([True, False], [len(there), len(missing)])
        order = np.argsort(offsets)
        offsets, is_there = offsets[order], is_there[order]
        at = np.flatnonzero(is_there[1:] != is_there[:-1])
        yield from zip((offsets[at] + 1).tolist(), offsets[at + 1].tolist(), strict=True)
