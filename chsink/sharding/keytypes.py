"""What a key column's ClickHouse type means to a hash function: its family and how wide a stored value is.

`Nullable` and `LowCardinality` change neither the stored bytes of a value nor its hash, so they are looked
through. A `Decimal` belongs to the family of the integer that stores it. Whether a family can be hashed is
the hash function's to say; here every type text is read, also of types that none of them takes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_WRAPPERS = ("Nullable", "LowCardinality")
_SHAPE = re.compile(r"(\w+)(?:\((.*)\))?", re.DOTALL)
_ENUM_MEMBER = re.compile(r"'((?:[^'\\]|\\.)*)'\s*=\s*(-?\d+)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"0": "\0", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_DECIMAL_FAMILIES = ((9, "Decimal32"), (18, "Decimal64"), (38, "Decimal128"), (76, "Decimal256"))


@dataclass(frozen=True, slots=True)
class KeyType:
    """One key column's type: `text` as ClickHouse writes it, `family` without wrappers and parameters.

    `size` is the N of `FixedString(N)`, the precision of `DateTime64` or `Decimal`, else 0; `scale` is a
    Decimal's; `members` are an Enum's names and numbers.
    """

    text: str
    family: str
    size: int = 0
    scale: int = 0
    members: tuple[tuple[str, int], ...] = ()


def parse_key_type(text: str) -> KeyType:
    """Read a type as `system.columns` shows it. What cannot be read is a family that no function takes."""
    inner = text.strip()
    while (match := _SHAPE.fullmatch(inner)) and match[1] in _WRAPPERS:
        inner = (match[2] or "").strip()
    if match is None:
        return KeyType(text, inner)
    family, arguments = match[1], match[2] or ""
    if family in ("Enum8", "Enum16"):
        members = tuple((_unescape(name), int(number)) for name, number in _ENUM_MEMBER.findall(arguments))
        return KeyType(text, family, members=members)
    numbers = tuple(int(number) for number in re.findall(r"\d+", arguments.split("'")[0]))
    if family == "Decimal" and len(numbers) == 2:
        return _decimal(text, *numbers)
    if family in ("FixedString", "DateTime64") and len(numbers) == 1:
        return KeyType(text, family, size=numbers[0])
    plain = not arguments or family == "DateTime"
    return KeyType(text, family if plain else f"{family}({arguments})")


def _decimal(text: str, precision: int, scale: int) -> KeyType:
    for limit, family in _DECIMAL_FAMILIES:
        if precision <= limit:
            return KeyType(text, family, precision, scale)
    return KeyType(text, text)


def _unescape(name: str) -> str:
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), name)
