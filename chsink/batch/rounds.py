"""How much of a batch one round may hold: bounded by what the tables remember, and by the time that sends have.

A range that takes longer than its table remembers tokens could never be landed: each retry begins at its first chunk.
So a round should end within a small part of that time.  How many offsets that is, is learned from the rounds before.
"""

from __future__ import annotations

from dataclasses import dataclass

PART = 4
"""A round should take at most one part in four of the time that its sends have."""
SURELY_PER_S = 5_000
"""Offsets per second that are expected of any cluster, before anything was measured."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a table allows one round: ``chunks`` whose tokens it surely remembers, ``seconds`` to send them."""

    chunks: int
    seconds: float


@dataclass(slots=True)
class Pace:
    """How many offsets a round may have, None before the first one.  Kept for the life of one driver."""

    offsets: int | None = None

    def most(self, seconds: float) -> int:
        """The bound for a round whose sends have so many seconds."""
        if self.offsets is None and seconds > 0:  # a batch without any range asks no table, and teaches nothing
            self.offsets = max(1, int(seconds / PART * SURELY_PER_S))
        return max(1, self.offsets or 1)

    def took(self, offsets: int, seconds: float, of: float) -> None:
        """A round of so many offsets landed in ``seconds``; its sends had ``of``.

        Too slow: half as many from now on.  Much faster, and nearly as large as it could be: twice as many.
        """
        if not offsets:
            return
        most, aim = self.most(of), of / PART
        if seconds > aim:
            self.offsets = min(most, offsets) // 2
        elif seconds < aim / PART and 2 * offsets >= most:
            self.offsets = 2 * most
