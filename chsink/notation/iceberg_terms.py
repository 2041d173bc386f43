"""Terms of an Iceberg table's partition spec and sort order: ``day(at)``, ``bucket(16, id)``, ``id``, ``at desc``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

WITH_NUMBER: Final = ("bucket", "truncate")
WITHOUT: Final = ("identity", "year", "month", "day", "hour")
_CALL: Final = re.compile(r"(\w+)\s*\(\s*(?:([1-9]\d{0,8})\s*,\s*)?([^()]+?)\s*\)")
_SORTED: Final = re.compile(r"(.+?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Term:
    """A transform of a column; ``number`` are the buckets or the width of those that have one."""

    column: str
    transform: str = "identity"
    number: int | None = None

    def __str__(self) -> str:
        """As Iceberg writes the transform."""
        return self.transform if self.number is None else f"{self.transform}[{self.number}]"


@dataclass(frozen=True, slots=True)
class SortTerm:
    """A term and its order.  Nulls are first where values ascend, unless it says otherwise."""

    term: Term
    descending: bool = False
    nulls_first: bool = True


def parse_term(text: str) -> Term:
    """Raises ValueError."""
    text = text.strip()
    found = _CALL.fullmatch(text)
    if found is None:
        if not text or "(" in text or ")" in text or "," in text:
            raise ValueError("it is neither a column nor a transform of a column")
        return Term(text)
    name, number = found[1].lower(), found[2]
    if name not in (WITH_NUMBER if number else WITHOUT):
        known = ", ".join([*WITHOUT, *(f"{each}(N, …)" for each in WITH_NUMBER)])
        raise ValueError(f"{name} is not one of {known}")
    return Term(found[3], name, int(number) if number else None)


def parse_sort_term(text: str) -> SortTerm:
    """Raises ValueError."""
    found = _SORTED.fullmatch(text.strip())
    if found is None:
        raise ValueError("it is empty")
    descending = (found[2] or "").lower() == "desc"
    nulls_first = found[3].lower() == "first" if found[3] else not descending
    return SortTerm(parse_term(found[1]), descending, nulls_first)
