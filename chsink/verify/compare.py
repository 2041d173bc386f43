"""Compares the expected rows with the rows in the table.  Arrays only; no loop over rows.

Rules:
- A row is known by its offset and its digests.  There is one digest for each group of columns; a group may be unknown
  for some expected rows, and is then not compared for them.
- An offset is in one of *missing* (no row), *different* (rows, but none of them is the expected one) or neither; it may
  be *duplicated* (several rows) as well.  *Misplaced* is an expected row that is on other shards only.
- A row without a record at its offset is *unexpected*.
- Below ``older_end`` any further row may be one of an earlier incarnation: such offsets are only *older*.
- A row that would be *different*, but only because it holds an excused default, is *before* a column that was added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from chsink.decode.codec import Mask

I64 = npt.NDArray[np.int64]
Digests = npt.NDArray[np.void]
"""Sixteen bytes a row."""
_NONE: I64 = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """One row per record that becomes one: ascending offsets, the shard of the layout, and per group of columns its
    digests and the rows for which they are known (None: all).
    """

    offsets: I64
    shards: npt.NDArray[np.int32]
    digests: Sequence[Digests]
    known: Sequence[Mask | None] = ()

    def __post_init__(self) -> None:
        assert len(self.offsets) == len(self.shards)
        assert bool((np.diff(self.offsets) > 0).all()), "one row a record, in order"

    def part(self, low: int, high: int) -> Expected:
        """The rows at offsets ``low <= o < high``."""
        first, last = (int(i) for i in np.searchsorted(self.offsets, [low, high]))
        cut = slice(first, last)
        known = [None if mask is None else mask[cut] for mask in self.known]
        return Expected(self.offsets[cut], self.shards[cut], [d[cut] for d in self.digests], known)


def joined(parts: Sequence[Expected]) -> Expected:
    """Parts (at least one) of ascending offsets as one; all have the same groups."""
    first = parts[0]
    return Expected(
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.shards for part in parts]),
        [np.concatenate([part.digests[at] for part in parts]) for at in range(len(first.digests))],
        [_joined_mask([(part.known[at], len(part.offsets)) for part in parts]) for at in range(len(first.known))],
    )


def _joined_mask(masks: Sequence[tuple[Mask | None, int]]) -> Mask | None:
    if all(mask is None for mask, _ in masks):
        return None
    return np.concatenate([np.ones(rows, np.bool_) if mask is None else mask for mask, rows in masks])


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The rows of the tables, in any order: offset, the shard each was read from, and its digests per group."""

    offsets: I64
    shards: npt.NDArray[np.int32]
    digests: Sequence[Digests]


@dataclass(frozen=True, slots=True, eq=False)
class ExcusedDefault:
    """A digest (an array of one) that is no difference in this group of columns, at offsets less than ``below``."""

    group: int
    default: Digests
    below: int


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """Ascending offsets, each once in a category."""

    missing: I64 = field(default_factory=lambda: _NONE)
    duplicated: I64 = field(default_factory=lambda: _NONE)
    different: I64 = field(default_factory=lambda: _NONE)
    misplaced: I64 = field(default_factory=lambda: _NONE)
    unexpected: I64 = field(default_factory=lambda: _NONE)
    older: I64 = field(default_factory=lambda: _NONE)
    before: I64 = field(default_factory=lambda: _NONE)


def compare(
    expected: Expected, found: Found, older_end: int = 0, excused: Sequence[ExcusedDefault] = ()
) -> Differences:
    """What differs within one window of offsets, in which both hold every row."""
    size = len(expected.offsets)
    at = np.searchsorted(expected.offsets, found.offsets)
    known = at < size
    known[known] = expected.offsets[at[known]] == found.offsets[known]
    unexpected = np.unique(found.offsets[~known])
    row = at[known]
    exact = _equal(expected, found, row, known)
    equal = _equal(expected, found, row, known, excused) if excused else exact
    rows = np.bincount(row, minlength=size)
    exactly = np.bincount(row[exact], minlength=size)
    matches = np.bincount(row[equal], minlength=size)
    placed = np.bincount(row[equal & (found.shards[known] == expected.shards[row])], minlength=size)
    surplus = rows > 1
    older = expected.offsets < older_end
    return Differences(
        missing=expected.offsets[rows == 0],
        duplicated=expected.offsets[surplus & ~older],
        different=expected.offsets[(rows > 0) & (matches == 0)],
        misplaced=expected.offsets[(matches > 0) & (placed == 0)],
        unexpected=unexpected[unexpected >= older_end],
        older=np.union1d(expected.offsets[surplus & older], unexpected[unexpected < older_end]),
        before=expected.offsets[(matches > 0) & (exactly == 0)],
    )


def excusing(found: Differences, offsets: I64, replayed: I64 = _NONE) -> Differences:
    """The same for offsets at which there may be a row or not; at those of them that were ``replayed`` there is one."""
    missing = np.setdiff1d(found.missing, np.setdiff1d(offsets, replayed))
    return replace(found, missing=missing, unexpected=np.setdiff1d(found.unexpected, offsets))


def _equal(expected: Expected, found: Found, row: I64, known: Mask, excused: Sequence[ExcusedDefault] = ()) -> Mask:
    """For each found row with a record, whether it is equal to the record's, or excused."""
    equal: Mask = np.ones(len(row), np.bool_)
    for at, digests in enumerate(expected.digests):
        there = found.digests[at][known]
        same = digests[row] == there
        mask = expected.known[at] if expected.known else None
        for one in excused:
            if one.group == at:
                same |= (there == one.default) & (expected.offsets[row] < one.below)
        equal &= same if mask is None else same | ~mask[row]
    return equal
