"""What becomes of the records of a chunk that have no row: the job halts, they are skipped, or they are dead letters.

The decision depends on the chunk's records and the configuration alone, so a chunk that is sent again has the same dead
letters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from chsink.ports import BadValue

_LIMIT = re.compile(r"([0-9]{1,9}) per ([1-9][0-9]{0,8})")


class Fate(StrEnum):
    """What becomes of one record without a row."""

    HALT = "halt"
    SKIP = "skip"
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A chunk may have ``bad`` bad records for every ``records`` records that it has, and for the first of them."""

    bad: int
    records: int

    def allows(self, bad: int, of: int) -> bool:
        """Whether a chunk of ``of`` records may have ``bad`` bad ones."""
        return bad <= self.bad * max(1, of // self.records)

    def __str__(self) -> str:
        return f"{self.bad} per {self.records}"


def tolerance(text: str) -> Tolerance | None:
    """``errors.tolerance``: ``none``, ``all`` (None), or ``N per M``.  ValueError for anything else."""
    if text == "all":
        return None
    if text == "none":
        return Tolerance(0, 1)
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return Tolerance(int(match[1]), int(match[2]))


@dataclass(frozen=True, slots=True)
class Rejected:
    """The records of a chunk without a row, by fate, each in the order of their offsets.  ``bad`` counts those to
    which the tolerance applies: all except tombstones that have a fate of their own.
    """

    halting: tuple[BadValue, ...]
    skipped: tuple[BadValue, ...]
    dead: tuple[BadValue, ...]
    bad: int


@dataclass(frozen=True, slots=True)
class Fates:
    """The configured fates.  A tombstone is a bad value where it has no fate of its own."""

    bad_value: Fate = Fate.HALT
    tombstone: Fate | None = None
    tolerance: Tolerance | None = None

    @property
    def dead_letters(self) -> bool:
        """Whether any record can become a dead letter."""
        return Fate.DEAD_LETTER in (self.bad_value, self.tombstone)

    def of(self, bad: BadValue) -> Fate:
        """What becomes of this record."""
        return self.bad_value if self.tombstone is None or not bad.tombstone else self.tombstone

    def sort(self, rejected: Sequence[BadValue]) -> Rejected:
        """The records by fate."""
        by: dict[Fate, list[BadValue]] = {fate: [] for fate in Fate}
        for bad in rejected:
            by[self.of(bad)].append(bad)
        counted = sum(not (bad.tombstone and self.tombstone is not None) for bad in rejected)
        return Rejected(tuple(by[Fate.HALT]), tuple(by[Fate.SKIP]), tuple(by[Fate.DEAD_LETTER]), counted)
