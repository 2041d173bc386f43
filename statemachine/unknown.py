"""Fields without a column, counted by name beside a record's state.  Nothing is decided by them.

A state row is small: it holds the first ``NAMES`` names that were seen, cut to ``LONGEST`` characters, and the others
together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAMES: Final = 20
LONGEST: Final = 100
OTHERS: Final = "(others)"

Counts = tuple[tuple[str, int], ...]
"""Names, ascending, with how many sampled records had the field."""


def added(known: Counts, found: Mapping[str, int]) -> Counts:
    """The known counts and those of further samples."""
    counts = dict(known)
    for name, count in found.items():
        short = name[:LONGEST]
        room = short in counts or len(counts.keys() - {OTHERS}) < NAMES
        shown = short if room else OTHERS
        counts[shown] = counts.get(shown, 0) + count
    return tuple(sorted(counts.items()))
