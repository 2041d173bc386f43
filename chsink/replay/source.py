"""Where a replay takes dead letters from, and how it knows which of them were replayed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from chsink.clickhouse.shards import ShardTable
from chsink.dlq.kept import KeptLetters
from chsink.dlq.place import LetterPlace
from chsink.dlq.table import LettersInTable
from chsink.dlq.where import Where
from chsink.ports import Clock
from chsink.refusals import asking_target
from chsink.statemachine.records import StateKey, StateRecord

ROUND_LETTERS: Final = 5_000
ROUND_BYTES: Final = 64 << 20


class LetterSource(Protocol):
    """The dead letters of one sink.  Every method raises ChsinkError."""

    @property
    def sink(self) -> str:
        """Whose they are."""

    def begin(self) -> None:
        """Read all marks that exist at the time of the call."""

    def pages(self, where: Where) -> Iterator[list[LetterPlace]]:
        """The places of all dead letters without a mark, each once, in pages of at most one round."""

    def letters(self, key: StateKey, offsets: Sequence[int], nonce: str = "") -> list[KeptLetters]:
        """Those of a topic-partition and table at these offsets, with their records, ascending, but for what another
        list than ``nonce`` replayed: it counts for nothing, even where another record has its place now.
        """

    def has_landed(self, key: StateKey, record: StateRecord) -> bool:
        """Whether marks say that all rows of a list in doubt are there."""

    def are_marked(self, key: StateKey, record: StateRecord) -> bool:
        """Whether each dead letter of a list has a mark."""

    def some_marks(self, key: StateKey, record: StateRecord) -> str:
        """The statement that deletes the marks of a list that do not say that it has landed; "" if there is none."""

    def wait(self) -> None:
        """Return once the marks of a round are known."""


@dataclass(slots=True)
class InTable:
    """:class:`LetterSource` in a ClickHouse table, ``kept``."""

    table: LettersInTable
    kept: ShardTable
    clock: Clock

    @property
    def sink(self) -> str:
        """See :class:`LetterSource`."""
        return self.table.sink

    def begin(self) -> None:
        """See :class:`LetterSource`."""
        self.wait()

    def pages(self, where: Where) -> Iterator[list[LetterPlace]]:
        """See :class:`LetterSource`.  In the order of their places."""
        after: LetterPlace | None = None
        while True:
            with asking_target():
                found = self.table.open_places(where, after, ROUND_LETTERS)
            page = bounded(found)
            if not page:
                return
            yield page
            after = page[-1]

    def letters(self, key: StateKey, offsets: Sequence[int], nonce: str = "") -> list[KeptLetters]:
        """See :class:`LetterSource`."""
        with asking_target():
            return self.table.letters(key, offsets, nonce)

    def has_landed(self, key: StateKey, record: StateRecord) -> bool:
        """See :class:`LetterSource`.  All marks are one insert."""
        return self.are_marked(key, record)

    def are_marked(self, key: StateKey, record: StateRecord) -> bool:
        """See :class:`LetterSource`."""
        with asking_target():
            return self.table.marked(key, record) == len(record.doubt.only)

    def some_marks(self, key: StateKey, record: StateRecord) -> str:
        """See :class:`LetterSource`.  Somebody deleted the others."""
        with asking_target():
            some = 0 < self.table.marked(key, record) < len(record.doubt.only)
        return self.kept.table.deleting(self.table.marks_at(key, record)) if some else ""

    def wait(self) -> None:
        """See :class:`LetterSource`.  On a replica that lags, replayed dead letters would look open."""
        with asking_target():
            self.table = self.table.read_from(self.kept.reader(self.clock))


def bounded(found: Sequence[tuple[LetterPlace, int]]) -> list[LetterPlace]:
    """As many of the first ones as stay within the limit in bytes, but at least one."""
    size = 0
    page: list[LetterPlace] = []
    for place, bytes_ in found:
        size += bytes_
        if page and size > ROUND_BYTES:
            break
        page.append(place)
    return page
