"""Infers a column's type for a field of JSON records from its values.

Rules, for the values of all given records:

- nulls are ignored: a field with only nulls, or with only empty arrays, has no type yet;
- booleans: ``Nullable(Bool)``; whole numbers: ``Nullable(Int64)``, or ``Nullable(Int256)`` where one needs it;
- numbers of which some have a fraction or an exponent: ``Nullable(Float64)``, if it holds the whole ones exactly, and
  those from 2⁵³ on that have no exponent; ``Nullable(String)`` otherwise;
- arrays: ``Array`` of their elements' type by these rules, with the DEFAULT ``[]``;
- text, objects, values of several kinds, and numbers beyond ``Int256``: ``Nullable(String)``, which keeps any value as
  written.

With ``times``, text has two more kinds, of which all values of a field must be:

- dates like ``2026-01-31``: ``Nullable(Date32)``;
- times with ``Z`` or an offset, like ``2026-01-31T23:59:59.5Z``: ``Nullable(DateTime64(p, 'UTC'))``, where p is the
  least of 3, 6 and 9 that holds all their decimals.  A text without an offset is not a time: its zone would be a guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

import msgspec

from chsink.decode.times import DATE32_DAYS, DateCodec, InstantCodec
from chsink.decode.values import MisfitError

_RAW_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_RAW_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_EXACT: Final = 1 << 53
"""A Float64 holds every whole number up to this one."""
_INT64: Final = 1 << 63
_INT256: Final = 1 << 255
_WIDEST: Final = 256
_MOMENT: Final = re.compile(rb'"\d{4}-\d\d-\d\d([T ]\d\d:\d\d:\d\d(?:\.(\d{1,9}))?(?:Z|[+-]\d\d:\d\d))?"', re.ASCII)
_DATES: Final = DateCodec("Date32", DATE32_DAYS)
_NANOS: Final = InstantCodec(9, "UTC")
_NUMBER: Final = re.compile(r"Nullable\((U?Int|Float)(\d+)\)")
_INSIDE: Final = re.compile(r"(Array\(|Map\(\w+, )(.*?)(\)(?: DEFAULT (?:\[\]|map\(\)))?)")
_DECIMAL: Final = re.compile(r"Nullable\((?:Decimal\((\d+), (\d+)\)|U?Int(\d+))\)")
_MOST_DIGITS: Final = 76
_TIMES: Final = re.compile(r"Nullable\(DateTime64\([036], 'UTC'\)\)")
"""The finer of two holds both.  Nanoseconds end in 2262."""
_WIDE_INT: Final = re.compile(r"Nullable\(U?Int(?!8\b|16|32)\d+\)")
"""Whole numbers of more than 32 bits."""
DEEPEST: Final = 8
"""Arrays and objects nested deeper than this are kept as text."""
TEXT: Final = "Nullable(String)"
OR: Final = " or "
_INT: Final = "Nullable(Int64)"
_FLOAT: Final = "Nullable(Float64)"


@dataclass(slots=True)
class Kinds:
    """The kinds of values seen so far; ``items`` are the kinds of arrays' elements.  ``times``: text may be a time.
    ``objects``: objects are a kind of their own, with the kinds of their ``members``; otherwise they are text.
    """

    times: bool = False
    objects: bool = False
    seen: set[str] = field(default_factory=set)
    items: Kinds | None = None
    members: dict[str, Kinds] = field(default_factory=dict)

    def add(self, raw: bytes, depth: int = 0) -> None:
        """Add one value: its JSON text, without surrounding space."""
        kind = _kind(raw, times=self.times)
        if kind == "object" and not (self.objects and depth < DEEPEST and self._add_members(raw, depth)):
            kind = "text"
        if kind == "array" and depth == DEEPEST:
            kind = "text"
        if kind == "array":
            self.items = self.items or Kinds(self.times, self.objects)
            for item in _RAW_LIST.decode(raw):
                self.items.add(bytes(item), depth + 1)
        if kind != "null":
            self.seen.add(kind)

    def _add_members(self, raw: bytes, depth: int) -> bool:
        """Add the members of an object.  Returns False if a name is no text, as a lone surrogate."""
        try:
            members = _RAW_OBJECT.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        for name, member in members.items():
            if name not in self.members:
                self.members[name] = Kinds(self.times, self.objects)
            self.members[name].add(bytes(member), depth + 1)
        return True

    def column(self) -> str | None:
        """The column's type, with a DEFAULT if it is not Nullable; None if the type is not known yet."""
        found = self._type()
        return f"{found} DEFAULT []" if found is not None and found.startswith("Array") else found

    def types(self) -> str | None:
        """All types of a column for which there is a reason, the narrowest first: whole numbers that fit a float, too,
        may be beside fractions among values that others have seen.
        """
        return f"{_INT}{OR}{_FLOAT}" if self.seen == {"int"} else self.column()

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
    ({"int", "long"}, _INT),
    ({"int", "long", "large"}, "Nullable(Int256)"),
    ({"int", "float"}, _FLOAT),
    ({"date"}, "Nullable(Date32)"),
    ({"time 3"}, "Nullable(DateTime64(3, 'UTC'))"),
    ({"time 3", "time 6"}, "Nullable(DateTime64(6, 'UTC'))"),
    ({"time 3", "time 6", "time 9"}, "Nullable(DateTime64(9, 'UTC'))"),
)


def _kind(raw: bytes, *, times: bool) -> str:
    match raw[:1]:
        case b'"':
            return _text_kind(raw) if times else "text"
        case b"{":
            return "object"
        case b"t" | b"f":
            return "bool"
        case b"n":
            return "null"
        case b"[":
            return "array"
    if any(mark in raw for mark in b".eE"):
        return "text" if len(raw) > 16 and _loses_digits(raw) else "float"
    if len(raw) < 16:
        return "int"
    if len(raw) > 78:
        return "text"
    value = int(raw)
    if -_INT64 <= value < _INT64:
        return "int" if -_EXACT <= value <= _EXACT else "long"
    return "large" if -_INT256 <= value < _INT256 else "text"


def _loses_digits(raw: bytes) -> bool:
    """Whether a Float64 would round digits before the point.  With an exponent, nobody expects all of them."""
    if b"e" in raw or b"E" in raw:
        return False
    number = Decimal(raw.decode("ascii"))
    return abs(number) > _EXACT and number != Decimal(float(raw))


def _text_kind(raw: bytes) -> str:
    """``date`` or ``time p`` if the column for this kind holds the text, else ``text``."""
    found = _MOMENT.fullmatch(raw)
    if found is None:
        return "text"
    codec = _DATES if found[1] is None else _NANOS  # all times of a field must fit the finest precision
    try:
        codec.exact(raw[1:-1].decode("ascii"))
    except MisfitError:
        return "text"
    return "date" if found[1] is None else f"time {max(3, -(-len(found[2] or b'') // 3) * 3)}"


def narrowest(kinds: str) -> str:
    """The first of several types."""
    return kinds.partition(OR)[0]


def wider(one: str, other: str) -> str:
    """A column type that holds the values of both exactly, text if there is none.  Each may be several types of
    which one is enough, and so may the result: see :meth:`Kinds.types`.
    """
    pairs = [_wider(a, b) for a in one.split(OR) for b in other.split(OR)]
    return OR.join(dict.fromkeys(kind for kind in pairs if kind != TEXT)) or TEXT


def _wider(one: str, other: str) -> str:
    pair = (one, other)
    if one == other or all(map(_TIMES.fullmatch, pair)):
        return max(pair)
    mine, its = map(_INSIDE.fullmatch, pair)
    if mine and its and mine[1] == its[1]:
        return f"{mine[1]}{_wider(mine[2], its[2])}{mine[3]}"
    number = widest_number(one, other)
    rounds = number is not None and "Float" in number and any(map(_WIDE_INT.fullmatch, pair))
    if number and not rounds:
        return number
    return _decimal([found for kind in pair if (found := _DECIMAL.fullmatch(kind))])


def _decimal(kinds: list[re.Match[str]]) -> str:
    """Of two decimals, or of a decimal and whole numbers; else text."""
    digits = [int(one[1]) - int(one[2]) if one[1] else len(str(1 << int(one[3]))) for one in kinds]
    scale = max((int(one[2] or 0) for one in kinds), default=0)
    precision = max(digits, default=0) + scale
    return f"Nullable(Decimal({precision}, {scale}))" if len(kinds) == 2 and precision <= _MOST_DIGITS else TEXT


def widest_number(one: str, other: str) -> str | None:
    """A numeric column type that holds the values of both; None if one of them is not numeric."""
    numbers = [_NUMBER.fullmatch(kind) for kind in (one, other)]
    if None in numbers:
        return None
    kinds = {(found[1], int(found[2])) for found in numbers if found}
    names, bits = {name for name, _ in kinds}, max(bits for _, bits in kinds)
    if "Float" in names:
        return None if bits > 64 else f"Nullable(Float{bits})" if names == {"Float"} else "Nullable(Float64)"
    if names == {"Int", "UInt"}:
        bits = max(size * 2 if name == "UInt" else size for name, size in kinds)
    return None if bits > _WIDEST else f"Nullable({'UInt' if names == {'UInt'} else 'Int'}{bits})"
