"""Names of tables with placeholders: ``raw.{topic}``.

Rules:
- A placeholder's value never splits a name, whatever characters it has: with the topic ``orders.v1``, ``raw.{topic}``
  is the table ``orders.v1`` of the database ``raw``.
- ``{topic:_}`` replaces each character that an unquoted name cannot have by ``_``: ``orders_v1``.
- Everything else is parsed as by :func:`chsink.notation.sql.parse_table`.

In the name of an Iceberg table, ``namespace.table``, a dot always separates, also one of a placeholder's value: with
the topic ``shop.orders``, ``{topic}`` is the table ``orders`` of the namespace ``shop``.

A template with ``{value}`` makes the name of a table from a record's value, in lower case, if that consists of ASCII
letters, digits and ``_``; where only the value can separate, it has to have a dot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from chsink.notation.sql import IN_BACKTICKS, TableName, unquote

_HOLE = r"\{[A-Za-z_][A-Za-z0-9_]*(?::_)?\}"
_PART = re.compile(rf"{IN_BACKTICKS}|(?:[A-Za-z_]|{_HOLE})(?:[A-Za-z0-9_]|{_HOLE})*", re.DOTALL)
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(:_)?\}")
_ICEBERG = re.compile(r"[^.\s]+(\.[^.\s]+)+")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]")
VALUE = "{value}"
_WORD = "[A-Za-z0-9_]{1,128}"


@dataclass(frozen=True, slots=True)
class TableTemplate:
    """``table`` or ``database.table`` by its unquoted parts, which may contain placeholders."""

    parts: tuple[str, ...]

    def filled(self, values: Mapping[str, str]) -> TableName:
        """The table with ``values`` filled in.  ValueError if a part would be empty; KeyError if a value is missing."""
        parts = [_PLACEHOLDER.sub(lambda found: _value(values, found), part) for part in self.parts]
        if not all(parts):
            raise ValueError("a name cannot be empty")
        return TableName(parts[0] if len(parts) == 2 else "", parts[-1])


def parse_template(text: str) -> TableTemplate:
    """Parse a table's name with placeholders.  Raises ValueError if it is not one."""
    parts = [found[0] for found in _PART.finditer(text)]
    if not 1 <= len(parts) <= 2 or ".".join(parts) != text:
        raise ValueError(f"{text!r} is not a table name")
    bare = tuple(unquote(part) if part.startswith("`") else part for part in parts)
    if not all(bare):
        raise ValueError(f"{text!r} holds an empty name")
    return TableTemplate(bare)


def placeholders(text: str) -> tuple[str, ...]:
    """The names of the placeholders in a template, each once."""
    return tuple(dict.fromkeys(found[1] for found in _PLACEHOLDER.finditer(text)))


def is_iceberg(text: str) -> bool:
    """Whether a text is the name of an Iceberg table, with placeholders."""
    name = _PLACEHOLDER.sub(lambda found: "x" if found[2] else "x.x", text)
    return _ICEBERG.fullmatch(name) is not None and not {"{", "}"} & set(name)


def filled_iceberg(text: str, values: Mapping[str, str]) -> str:
    """The name with ``values`` filled in.  ValueError if it is none, KeyError if a value is missing."""
    name = filled_part(text, values)
    if not _ICEBERG.fullmatch(name):
        raise ValueError(f"{name!r} is not a name such as 'namespace.table'")
    return name


def filled_part(text: str, values: Mapping[str, str]) -> str:
    """A part of a name with ``values`` filled in.  KeyError if a value is missing."""
    return _PLACEHOLDER.sub(lambda found: _value(values, found), text)


def naming_values(template: str) -> str:
    """The pattern, for RE2, of the values that name a table by this template, whose only placeholder is ``{value}``."""
    return _WORD if "." in template.replace(VALUE, "") else rf"{_WORD}(?:\.{_WORD})+"


def value_pattern_of(template: str, table: str) -> str | None:
    """The pattern, for RE2, of the values that name this table by the template; None if none does."""
    before, after = template.split(VALUE)
    value = table.removeprefix(before).removesuffix(after)
    names = before + value + after == table and value == value.lower() and re.fullmatch(naming_values(template), value)
    return f"(?i:{re.escape(value)})" if names else None


def _value(values: Mapping[str, str], found: re.Match[str]) -> str:
    value = values[found[1]]
    return _NOT_PLAIN.sub("_", value) if found[2] else value
