"""Cuts the records of a batch into blocks, and puts the decoded blocks together again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chsink.ports import BadValue, Decoded

BLOCK_ROWS: Final = 16_384
BLOCK_BYTES: Final = 8 << 20
_GOLDEN: Final = (math.sqrt(5) - 1) / 2

Rows = npt.NDArray[np.int64]


def spread(size: int, most: int) -> Rows:
    """At most so many of ``size`` numbers, spread evenly, but not at even distances: records may take turns."""
    return np.unique((np.arange(most) * _GOLDEN % 1 * size).astype(np.int64))[:size]


class Collected:
    """The decoded blocks and the bad values of one decode call."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows = 0
        self.bad: list[BadValue] = []
        self._pieces: list[tuple[list[pa.Array], Rows]] = []

    def add(self, arrays: list[pa.Array], rows: Rows) -> None:
        if len(rows) or not self._pieces:
            self.rows += len(rows)
            self._pieces.append((arrays, rows))

    def finish(self, schema: pa.Schema) -> Decoded:
        """Put the blocks together in input order."""
        self.bad.sort(key=lambda bad: bad.row)
        batches = [pa.RecordBatch.from_arrays(arrays, schema=schema) for arrays, _ in self._pieces]
        batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        rows = np.concatenate([rows for _, rows in self._pieces])
        assert len(rows) == batch.num_rows, "one row of each column for each record"
        assert len(rows) + len(self.bad) == self.size, "every record is decoded or bad"
        if len(rows) and (np.diff(rows) < 0).any():
            order = np.argsort(rows)
            batch, rows = batch.take(pa.array(order)), rows[order]
        return Decoded(batch, None if len(rows) == self.size else pa.array(rows, pa.int64()), self.bad)


def blocks(lengths: npt.NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Cut ``[0, n)`` into blocks with a bounded number of rows and bytes."""
    ends = np.cumsum(lengths, dtype=np.int64)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        end = int(np.searchsorted(ends, before + BLOCK_BYTES, side="right"))
        end = max(start + 1, min(end, start + BLOCK_ROWS))
        yield start, end
        start = end
