"""What a person vouches for, in words that name it: nobody accepts what was not shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote

from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey

_HOLES = re.compile(r"(.+):([^:]+-\d+):(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)")
MOST = 20
"""More ranges than these are named by their first and last offset."""
REMOVED_SHARDS = (
    "if shards that still hold rows were removed from clickhouse.endpoints, change nothing and run this command again "
    "with all shards, those of the job file first: `--set 'clickhouse.endpoints=[…]'`"
)


@dataclass(frozen=True, slots=True)
class Accepted:
    """``senders_gone``: nobody sends rows of the sink any more.  ``removed``: rows that were removed beyond the last
    remaining one may be inserted again.  ``several``: an offset may have several rows.  ``holes``: that these offsets
    have no row is as it should be, by :func:`place_of`.  ``timestamps``: rows may have others than their records.
    """

    senders_gone: bool = False
    removed: bool = False
    several: bool = False
    timestamps: bool = False
    holes: Mapping[str, Sequence[OffsetRange]] = field(default_factory=dict)

    def without(self, key: StateKey, missing: Sequence[OffsetRange]) -> list[OffsetRange]:
        """What of the missing ranges (ascending) is not accepted."""
        left = list(missing)
        for hole in self.holes.get(place_of(key), ()):
            parts = (
                (
                    OffsetRange(r.start, max(r.start, min(r.end, hole.start))),
                    OffsetRange(min(r.end, max(r.start, hole.end)), r.end),
                )
                for r in left
            )
            left = [part for pair in parts for part in pair if not part.is_empty]
        return left


def place_of(key: StateKey) -> str:
    """One table's part of a topic-partition, as ``--accept-holes`` names it."""
    return f"{key.table}:{key.topic_partition}"


def read_holes(words: Iterable[str]) -> dict[str, list[OffsetRange]]:
    """Of ``TABLE:TOPIC-PARTITION:OFFSETS``.  ValueError, whose text says what is wrong, for anything else."""
    holes: dict[str, list[OffsetRange]] = {}
    for word in words:
        match = _HOLES.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r}: write TABLE:TOPIC-PARTITION:OFFSETS, such as air.flights:flights-0:29,31-33")
        holes.setdefault(f"{match[1]}:{match[2]}", []).extend(map(_range, match[3].split(",")))
    return holes


def _range(text: str) -> OffsetRange:
    first, _, last = text.partition("-")
    if last and int(last) < int(first):
        raise ValueError(f"{text}: the last offset lies before the first one")
    return OffsetRange(int(first), int(last or first) + 1)


def in_words(ranges: Sequence[OffsetRange]) -> str:
    """Offsets as ``--accept-holes`` takes them, both ends included: ``29,31-33``."""
    if len(ranges) > MOST:
        ranges = [OffsetRange(ranges[0].start, ranges[-1].end)]
    return ",".join(f"{r.start}" if r.length == 1 else f"{r.start}-{r.end - 1}" for r in ranges)


def option_for(key: StateKey, ranges: Sequence[OffsetRange]) -> str:
    """The option that accepts these holes."""
    return f"--accept-holes {quote(f'{place_of(key)}:{in_words(ranges)}')}"


def runs_of(offsets: Iterable[int]) -> Iterator[OffsetRange]:
    """Ascending offsets as ranges."""
    start = end = None
    for offset in offsets:
        if end is not None and offset != end:
            assert start is not None
            yield OffsetRange(start, end)
        if end is None or offset != end:
            start = offset
        end = offset + 1
    if start is not None and end is not None:
        yield OffsetRange(start, end)
