"""What a life of a topic-partition did not put into its table, counted beside its state for people.

The protocol never reads it: nothing is decided about an offset by any of it.  A state row is small: it holds the first
``NAMES`` names of fields that were seen, cut to ``LONGEST`` characters, and the others together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

NAMES: Final = 20
LONGEST: Final = 100
OTHERS: Final = "(others)"

Counts = tuple[tuple[str, int], ...]
"""Names, ascending, with how many sampled records had the field."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What did not reach the table?

    ``skipped`` counts the records that were left out because they did not fit, ``dead_letters`` those that were kept as
    dead letters, ``unknown`` the fields without a column, in samples.
    """

    skipped: int = 0
    dead_letters: int = 0
    unknown: Counts = ()

    def __post_init__(self) -> None:
        assert self.skipped >= 0 and self.dead_letters >= 0, self

    def plus(self, more: Tally) -> Tally:
        """Both together."""
        return Tally(
            self.skipped + more.skipped,
            self.dead_letters + more.dead_letters,
            added(self.unknown, dict(more.unknown)),
        )


def added(known: Counts, found: Mapping[str, int]) -> Counts:
    """The known counts and those of further samples."""
    counts = dict(known)
    for name, count in found.items():
        short = name[:LONGEST]
        room = short in counts or len(counts.keys() - {OTHERS}) < NAMES
        shown = short if room else OTHERS
        counts[shown] = counts.get(shown, 0) + count
    return tuple(sorted(counts.items()))
