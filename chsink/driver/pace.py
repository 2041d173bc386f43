"""How much of a batch one round may hold: bounded by what the tables remember, and by the time that sends have.

A range that takes longer than its table remembers tokens could never land, because each retry begins at its first
chunk.  So a round should end within a small part of that time.  Earlier rounds show how many offsets that allows.
"""

from __future__ import annotations

from dataclasses import dataclass

PART = 4
"""A round should take at most one part in four of the time that its sends have."""
SURELY_PER_S = 5_000
"""Offsets per second that are expected of any cluster, before anything was measured."""


@dataclass(frozen=True, slots=True)
class TableLimit:
    """What a table allows one round: ``chunks`` whose tokens it surely remembers, ``seconds`` to send them."""

    chunks: int
    seconds: float


@dataclass(slots=True)
class Pace:
    """How many offsets a round may have, None before the first one.  Kept for the life of one driver."""

    offsets: int | None = None

    def most(self, seconds: float) -> int:
        """How many offsets a round may have whose sends may take ``seconds``."""
        if self.offsets is None and seconds > 0:  # a batch without any range asks no table, and teaches nothing
            self.offsets = max(1, int(seconds / PART * SURELY_PER_S))
        return max(1, self.offsets or 1)

    def took(self, offsets: int, seconds: float, of: float) -> None:
        """Learn from a round: ``offsets`` landed in ``seconds``, of the ``of`` seconds that its sends had.

        If it was too slow, the next one has half as many; if it was much faster and nearly full, twice as many.
        """
        if not offsets:
            return
        most, aim = self.most(of), of / PART
        if seconds > aim:
            self.offsets = min(most, offsets) // 2
        elif seconds < aim / PART and 2 * offsets >= most:
            self.offsets = 2 * most
