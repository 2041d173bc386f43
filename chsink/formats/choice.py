"""Which of a topic's tables takes a record: what ``table_by`` of a route says, for one of its tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

VERSION: Final = 1
"""Part of the fingerprint: raised when the same record goes to another table."""
Source = Literal["field", "header", "column"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The records of one table: those that say one of ``values``, in the ``name`` of their ``source``.

    ``known`` are the values of all tables, None in a table that does not answer for the records of no table: one table
    does, so that each of them is bad once.  ``header``: the length of what comes before a JSON record, in bytes.
    """

    source: Source
    name: str
    values: tuple[str, ...]
    known: tuple[str, ...] | None = None
    header: int = 0

    @property
    def reads(self) -> str:
        """The stream's column that holds it."""
        return {"field": "value", "header": "headers"}.get(self.source, self.name)

    @property
    def words(self) -> str:
        """What says it, for people."""
        return f"{self.source} {self.name}"

    def part(self) -> list[Any]:
        """What it decides, as a JSON document for the fingerprint."""
        known = None if self.known is None else sorted(self.known)
        return [VERSION, self.source, self.name, sorted(self.values), known]
