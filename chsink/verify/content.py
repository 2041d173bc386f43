"""Two sets of rows that are known by their digests alone.  Arrays only; no loop over rows.

Rules:
- Rows are dealt into ``BUCKETS`` by their digest.  Count and sum of the digests of a bucket, on either side, tell
  whether it holds the same rows: a difference would have to be a sum of 128-bit hashes that is zero by chance.
- Only of buckets that differ are the digests compared one by one.  A row that is there more often than it should be is
  *surplus*, one that is there less often is *missing*, and one that only has another shard is *misplaced*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from chsink.verify.compare import I64, Digests

BUCKETS: Final = 1 << 16
U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]


@dataclass(slots=True, eq=False)
class Sums:
    """Per shard and bucket: how many rows, and the sums of both halves of their digests modulo 2⁶⁴."""

    rows: npt.NDArray[np.int64]
    low: U64
    high: U64

    @staticmethod
    def empty(shards: int) -> Sums:
        """No rows."""
        size = (shards, BUCKETS)
        return Sums(np.zeros(size, np.int64), np.zeros(size, np.uint64), np.zeros(size, np.uint64))

    def add(self, digests: Digests, shards: I32) -> None:
        """Rows on these shards."""
        low, high = halves(digests)
        at = (shards, bucket_of(digests))
        np.add.at(self.rows, at, 1)
        np.add.at(self.low, at, low)
        np.add.at(self.high, at, high)

    def differing(self, other: Sums, *, any_shard: bool) -> I64:
        """The buckets that do not hold the same rows, on the same shards unless ``any_shard``."""
        differs = np.zeros(BUCKETS, np.bool_)
        for mine, theirs in ((self.rows, other.rows), (self.low, other.low), (self.high, other.high)):
            differs |= mine.sum(axis=0) != theirs.sum(axis=0) if any_shard else (mine != theirs).any(axis=0)
        return np.flatnonzero(differs)


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Rows by digest, and the shard of each."""

    digests: Digests
    shards: I32


@dataclass(frozen=True, slots=True, eq=False)
class ContentDifferences:
    """``missing`` and ``misplaced`` are positions of expected rows, ascending; ``surplus`` counts found rows."""

    missing: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    misplaced: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    surplus: int = 0


def compare_content(expected: Placed, found: Placed) -> ContentDifferences:
    """Which rows differ.  Of rows that are equal, the last ones are called missing."""
    both = np.concatenate([_sortable(expected.digests), _sortable(found.digests)])
    code = np.unique(both, return_inverse=True)[1].astype(np.int64)
    wide = int(max(expected.shards.max(initial=0), found.shards.max(initial=0))) + 1
    wanted, there = code[: len(expected.digests)], code[len(expected.digests) :]
    lacking, spare = _unmatched(wanted * wide + expected.shards, there * wide + found.shards)
    missing, surplus = _unmatched(wanted[lacking], there[spare])
    misplaced = np.setdiff1d(lacking, lacking[missing], assume_unique=True)
    return ContentDifferences(lacking[missing], misplaced, len(surplus))


def bucket_of(digests: Digests) -> I64:
    """The bucket of each."""
    return (halves(digests)[0] % np.uint64(BUCKETS)).astype(np.int64)


def halves(digests: Digests) -> tuple[U64, U64]:
    """Each digest as two numbers, its bytes in ascending order of value."""
    words = np.ascontiguousarray(digests).view("<u8").reshape(-1, 2)
    return words[:, 0], words[:, 1]


def _unmatched(left: I64, right: I64) -> tuple[I64, I64]:
    """Positions on either side that have no partner of equal value on the other; ascending."""
    values, inverse = np.unique(np.concatenate([left, right]), return_inverse=True)
    a, b = inverse[: len(left)], inverse[len(left) :]
    of_a, of_b = np.bincount(a, minlength=len(values)), np.bincount(b, minlength=len(values))
    return np.flatnonzero(_ranks(a) >= of_b[a]), np.flatnonzero(_ranks(b) >= of_a[b])


def _ranks(groups: npt.NDArray[Any]) -> I64:
    """How many elements of the same group come before each element."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))[: len(ordered)]
    begin = np.repeat(starts, np.diff(np.concatenate((starts, [len(ordered)]))))
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - begin
    return ranks


def _sortable(digests: Digests) -> npt.NDArray[np.bytes_]:
    """All have one length, so that the zeros which bytes lose at their end do not matter."""
    return np.ascontiguousarray(digests).view("S16")
