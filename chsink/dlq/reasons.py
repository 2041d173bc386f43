"""Dead letters by reason: how many of each, and the newest of them.

A table is asked as a whole each time.  A topic is read once, and then only what is new; who was replayed is not
counted there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from chsink.dlq.kept import KeptLetters, kept_of
from chsink.dlq.place import LettersTopic, replay_sink
from chsink.dlq.search import Letter, held_in
from chsink.dlq.table import LettersInTable

SHOWN: Final = 20
"""The newest dead letters of each reason."""
MOST: Final = 100
"""Reasons; rarer ones are left out."""


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """All dead letters of one column of a table with one error id.  ``replayed`` is None where that is not counted."""

    table: str
    column: str
    error_id: str
    count: int
    replayed: int | None
    newest_ms: int
    letters: tuple[KeptLetters, ...]


def reasons_in_table(letters: LettersInTable, *, whole: bool = False) -> list[LetterGroup]:
    """The most frequent reason first; with ``whole``, the newest letters have their records."""
    newest: dict[tuple[str, str, str], list[KeptLetters]] = {}
    for one in letters.newest(SHOWN, SHOWN * MOST, whole=whole):
        newest.setdefault(_key(one), []).append(one)
    return [LetterGroup(*row, tuple(newest.get(row[:3], ()))) for row in letters.by_reason(MOST)]


@dataclass
class _Seen:
    """``letters`` hold the newest ones, and some more."""

    count: int = 0
    newest_ms: int = 0
    letters: list[KeptLetters] = field(default_factory=list)


class ReasonsInTopic:
    """What was read so far of one sink's dead letters.  Keeps ``SHOWN`` of each reason, with their records only if
    ``whole``.
    """

    def __init__(self, place: LettersTopic, *, whole: bool = False) -> None:
        self._place = place
        self._whole = whole
        self._positions: dict[int, int] = {}
        self._seen: dict[tuple[str, str, str], _Seen] = {}

    def read(self) -> list[LetterGroup]:
        """Take up what is new; the most frequent reason comes first.  Raises KafkaException."""
        for one in held_in(self._place, positions=self._positions):
            if isinstance(one, Letter):
                if one.sink == self._place.sink:
                    self._take(kept_of(one, replayed=False))
            elif one.sink == replay_sink(self._place.sink):
                self._mark(one.place.topic, one.place.partition, one.place.offset, one.place.table)
        groups = [
            LetterGroup(*key, s.count, None, s.newest_ms, tuple(_newest(s.letters))) for key, s in self._seen.items()
        ]
        return sorted(groups, key=lambda group: -group.count)[:MOST]

    def _take(self, kept: KeptLetters) -> None:
        seen = self._seen.setdefault(_key(kept), _Seen())
        seen.count += 1
        seen.newest_ms = max(seen.newest_ms, kept.timestamp_ms)
        seen.letters.append(kept if self._whole else replace(kept, key=None, value=None, headers=()))
        if len(seen.letters) > 2 * SHOWN:  # not with each one: sorting a topic's worth of them would take long
            seen.letters = _newest(seen.letters)

    def _mark(self, *place: str | int) -> None:
        for seen in self._seen.values():
            for at, kept in enumerate(seen.letters):
                if (kept.topic, kept.partition, kept.offset, kept.table) == place:
                    seen.letters[at] = replace(kept, replayed=True)


def _key(kept: KeptLetters) -> tuple[str, str, str]:
    return kept.table, kept.column, kept.error_id


def _newest(letters: Sequence[KeptLetters]) -> list[KeptLetters]:
    return sorted(letters, key=lambda one: (one.timestamp_ms, one.offset), reverse=True)[:SHOWN]
