"""Infers a column's type for a field of JSON records from its values.

Rules, for the values of all given records:

- nulls are ignored: a field with only nulls, or with only empty arrays, has no type yet;
- booleans: ``Nullable(Bool)``; whole numbers: ``Nullable(Int64)``, or ``Nullable(Int256)`` where one needs it;
- numbers of which some have a fraction or an exponent: ``Nullable(Float64)``;
- arrays: ``Array`` of their elements' type by these rules, with the DEFAULT ``[]``;
- text, objects, values of several kinds, and numbers beyond ``Int256``: ``Nullable(String)``, which keeps any value as
  written.  Text is never inferred to be a time, because a later value might not be one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

_RAW_LIST: Final[Any] = msgspec.json.Decoder(list[msgspec.Raw])
_INT64: Final = 1 << 63
_INT256: Final = 1 << 255
_WIDEST: Final = 256
_NUMBER: Final = re.compile(r"Nullable\((U?Int|Float)(\d+)\)")
DEEPEST: Final = 8
"""Arrays nested deeper than this are kept as text."""
TEXT: Final = "Nullable(String)"


@dataclass(slots=True)
class Kinds:
    """The kinds of values seen so far; ``items`` are the kinds of arrays' elements."""

    seen: set[str] = field(default_factory=set)
    items: Kinds | None = None

    def add(self, raw: bytes, depth: int = 0) -> None:
        """Add one value: its JSON text, without surrounding space."""
        kind = _kind(raw)
        if kind == "array" and depth == DEEPEST:
            kind = "text"
        if kind == "array":
            self.items = self.items or Kinds()
            for item in _RAW_LIST.decode(raw):
                self.items.add(bytes(item), depth + 1)
        if kind != "null":
            self.seen.add(kind)

    def column(self) -> str | None:
        """The column's type, with a DEFAULT if it is not Nullable; None if the type is not known yet."""
        found = self._type()
        return f"{found} DEFAULT []" if found is not None and found.startswith("Array") else found

    def _type(self) -> str | None:
        if not self.seen:
            return None
        if self.seen == {"array"}:
            inner = self.items._type() if self.items is not None else None
            return None if inner is None else f"Array({inner})"
        for kinds, found in _TYPES:
            if self.seen <= kinds:
                return found
        return TEXT


_TYPES: Final = (
    ({"bool"}, "Nullable(Bool)"),
    ({"int"}, "Nullable(Int64)"),
    ({"int", "large"}, "Nullable(Int256)"),
    ({"int", "large", "float"}, "Nullable(Float64)"),
)


def _kind(raw: bytes) -> str:
    match raw[:1]:
        case b'"' | b"{":
            return "text"
        case b"t" | b"f":
            return "bool"
        case b"n":
            return "null"
        case b"[":
            return "array"
    if any(mark in raw for mark in b".eE"):
        return "float"
    if len(raw) < 19:
        return "int"
    if len(raw) > 78:
        return "text"
    value = int(raw)
    return "int" if -_INT64 <= value < _INT64 else "large" if -_INT256 <= value < _INT256 else "text"


def wider(one: str, other: str) -> str:
    """A column type that holds the values of both types."""
    return widest_number(one, other) or (one if one == other else TEXT)


def widest_number(one: str, other: str) -> str | None:
    """A numeric column type that holds the values of both; None if one of them is not numeric."""
    numbers = [_NUMBER.fullmatch(kind) for kind in (one, other)]
    if None in numbers:
        return None
    kinds = {(found[1], int(found[2])) for found in numbers if found}
    names, bits = {name for name, _ in kinds}, max(bits for _, bits in kinds)
    if "Float" in names:
        return f"Nullable(Float{bits})" if names == {"Float"} else "Nullable(Float64)"
    if names == {"Int", "UInt"}:
        bits = max(size * 2 if name == "UInt" else size for name, size in kinds)
    return None if bits > _WIDEST else f"Nullable({'UInt' if names == {'UInt'} else 'Int'}{bits})"
