"""``table_by`` of a route, for one of its tables: which of the topic's records this table takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

VERSION: Final = 1
"""Part of the fingerprint: increment it when a code change sends the same record to a different table."""
MOST_NAMED: Final = 300
"""The largest ``max_tables``."""
NameSource = Literal["field", "header", "column"]


@dataclass(frozen=True, slots=True)
class Choice:
    """Selects the records of one table: those whose field, header or column ``name`` has one of ``values``; or one that
    matches one of ``patterns``, RE2's for the whole value, and is not among ``named``, the values of all tables.

    A record that no table takes must be reported as bad once, so one table of the topic reports it.  In that table,
    ``known`` holds the values of all tables, and ``known_patterns`` their patterns; in the others, ``known`` is None.
    ``header``: bytes before the JSON text.

    With ``others``, the name of a table with ``{value}``, a record that no table takes may name one that does not exist
    yet: it is reported apart.  If that table ``ignores`` records of no table, it reports the unreadable ones only.
    """

    source: NameSource
    name: str
    values: tuple[str, ...]
    known: tuple[str, ...] | None = None
    header: int = 0
    patterns: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    known_patterns: tuple[str, ...] = ()
    others: str = ""
    ignores: bool = False

    @property
    def reads(self) -> str:
        """The stream's column that holds the selecting value."""
        return {"field": "value", "header": "headers"}.get(self.source, self.name)

    @property
    def words(self) -> str:
        """The source and the name, for messages: ``field type``."""
        return f"{self.source} {self.name}"

    def part(self) -> list[object]:
        """The choice as a JSON document, for the fingerprint."""
        known = None if self.known is None else sorted(self.known)
        part: list[object] = [VERSION, self.source, self.name, sorted(self.values), known]
        matching = (self.patterns, self.named if self.patterns else (), self.known_patterns)
        part = [*part, *map(sorted, matching)] if any(matching) or self.others else part
        return [*part, self.others, self.ignores] if self.others or self.ignores else part
