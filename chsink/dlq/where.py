"""Which dead letters a command is about: the conditions of ``--where``, for ``chsink dlq list`` and ``replay`` alike.

Conditions of different kinds must all hold; of several conditions of one kind, one must hold.  They compare what a dead
letter says about its record, never the record itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from chsink.dlq.kept import KeptLetters
from chsink.notation.sql import quote_identifier, quote_string

TEXTS = {"topic": "_kafka_topic", "table": "table", "column": "column", "error": "error_id"}
"""Conditions on a text, and the column of the table of dead letters that holds it."""
_FIELDS = {"error": "error_id"}
_NUMBERS = {"partition": "_kafka_partition", "offset": "_kafka_offset"}
_RANGE = re.compile(r"([0-9]{1,18})(?:\.\.([0-9]{1,18}))?")
_ANSWERS = {"yes": True, "no": False}
NAMES = (*TEXTS, *_NUMBERS, "since", "replayed")


@dataclass(frozen=True, slots=True)
class Condition:
    """Between ``low`` and ``high``, both included: two texts that are equal, two numbers, two times, or two answers."""

    name: str
    low: Any
    high: Any = None

    def holds(self, kept: KeptLetters) -> bool:
        """Whether it holds for this dead letter."""
        value = kept.timestamp_ms if self.name == "since" else getattr(kept, _FIELDS.get(self.name, self.name))
        return bool(self.low <= value and (self.high is None or value <= self.high))

    def sql(self, replayed: str) -> str:
        """The same for the server."""
        if self.name in TEXTS:
            return f"{quote_identifier(TEXTS[self.name])} = {quote_string(self.low)}"
        if self.name == "since":
            return f"timestamp_ms >= {self.low}"
        if self.name == "replayed":
            return replayed if self.low else f"NOT ({replayed})"
        return f"{_NUMBERS[self.name]} BETWEEN {self.low} AND {self.high}"


@dataclass(frozen=True, slots=True)
class Where:
    """All conditions, by name."""

    conditions: Mapping[str, tuple[Condition, ...]]

    def holds(self, kept: KeptLetters) -> bool:
        """Whether a dead letter is meant."""
        return all(any(one.holds(kept) for one in some) for some in self.conditions.values())

    def sql(self, replayed: str) -> str:
        """The same for the server, ``AND …`` or nothing.  ``replayed`` is its condition for replayed dead letters."""
        each = (" OR ".join(one.sql(replayed) for one in some) for some in self.conditions.values())
        return "".join(f" AND ({some})" for some in each)


def where(conditions: Iterable[str], canonical: Callable[[str], str] = str) -> Where:
    """Read ``name=value`` conditions.  ``canonical``: a table's name as dead letters have it.  ValueError, whose text
    says what is wrong, for anything else.
    """
    found: dict[str, tuple[Condition, ...]] = {}
    for text in conditions:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or name not in NAMES:
            raise ValueError(f"{text!r} is not a condition: write NAME=VALUE, where NAME is one of {', '.join(NAMES)}")
        read: Callable[[str, str], Condition] = _READ.get(name, _equal)
        value = canonical(value.strip()) if name == "table" else value.strip()
        found[name] = (*found.get(name, ()), read(name, value))
    return Where(found)


def _equal(name: str, value: str) -> Condition:
    return Condition(name, value, value)


def _between(name: str, value: str) -> Condition:
    match = _RANGE.fullmatch(value)
    if match is None:
        raise ValueError(f"{name}={value}: write a number, or a range such as 10..20, which includes both ends")
    return Condition(name, int(match[1]), int(match[2] or match[1]))


def _since(name: str, value: str) -> Condition:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{name}={value}: write a date or a time, such as 2026-11-22 or 2026-11-22T06:30") from None
    return Condition(name, int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))


def _answer(name: str, value: str) -> Condition:
    if value not in _ANSWERS:
        raise ValueError(f"{name}={value}: write {name}=yes or {name}=no")
    return Condition(name, _ANSWERS[value], _ANSWERS[value])


_READ: Mapping[str, Callable[[str, str], Condition]] = {
    "partition": _between,
    "offset": _between,
    "since": _since,
    "replayed": _answer,
}
