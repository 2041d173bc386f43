"""Cuts the chosen dead letters into rounds that are small enough for the tables to remember their tokens until AFTER.

Each list is one insert into its table and one into the table of dead letters.  An insert makes one block for each table
partition that it touches, at most one for each row: so a list is short if one of the two tables is partitioned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from chsink.replay.choose import ChosenOffsets
from chsink.statemachine.records import StateKey

PARTITIONS_AT_ONCE: Final = 100
"""The server's own limit for one insert, unless it was set."""


def rounds_of(chosen: ChosenOffsets, limit: int, partitioned: Mapping[str, bool]) -> Iterator[ChosenOffsets]:
    """All of it, in order.  ``limit`` is how many blocks one round may make in a table, ``partitioned`` is by table."""
    assert limit >= 1, limit
    taken: ChosenOffsets = {}
    blocks = 0
    for key, offsets in _lists(chosen, limit, partitioned):
        more = len(offsets) if partitioned[key.table] else 1
        if taken and (key in taken or blocks + more > limit):
            yield taken
            taken, blocks = {}, 0
        taken[key] = offsets
        blocks += more
    if taken:
        yield taken


def _lists(
    chosen: ChosenOffsets, limit: int, partitioned: Mapping[str, bool]
) -> Iterator[tuple[StateKey, tuple[int, ...]]]:
    for key, offsets in chosen.items():
        most = min(PARTITIONS_AT_ONCE, limit) if partitioned[key.table] else len(offsets)
        for at in range(0, len(offsets), most):
            yield key, offsets[at : at + most]
