"""A key column's ClickHouse type as a hash function needs it: its family and the width of a stored value.

`Nullable` and `LowCardinality` change neither the stored bytes of a value nor its hash, so they are ignored.
A `Decimal` belongs to the family of the integer that stores it. This module parses every type; each hash function
decides which families it accepts.

A `Tuple` is hashed as its elements, one after the other. It must have no Nullable element: ClickHouse hashes a null
inside a tuple, which chsink does not implement.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from chsink.notation.type_text import TypeNode, parse_type_text

_DECIMAL_FAMILIES = ((9, "Decimal32"), (18, "Decimal64"), (38, "Decimal128"), (76, "Decimal256"))


@dataclass(frozen=True, slots=True)
class KeyType:
    """One key column's type: `text` as ClickHouse writes it, `family` without wrappers and parameters.

    `size` is the N of `FixedString(N)`, the precision of `DateTime64` or `Decimal`, else 0; `scale` is a
    Decimal's. `elements` are a Tuple's.
    """

    text: str
    family: str
    size: int = 0
    scale: int = 0
    elements: tuple[KeyType, ...] = ()

    @property
    def leaves(self) -> tuple[KeyType, ...]:
        """The types that are hashed: those of a Tuple's elements, in order, or the type itself."""
        return tuple(leaf for element in self.elements for leaf in element.leaves) or (self,)


def parse_key_type(text: str) -> KeyType:
    """Parse a type as `system.columns` shows it. Text that cannot be parsed gives a family that no function takes."""
    try:
        return _key_type(text, parse_type_text(text).unwrapped("Nullable", "LowCardinality"))
    except ValueError:
        return KeyType(text, text)


def _key_type(text: str, node: TypeNode) -> KeyType:
    args = node.args or ()
    match node.name:
        case "Decimal" if len(args) == 2:
            return _decimal(text, int(args[0].name), int(args[1].name))
        case "FixedString" | "DateTime64" if args:
            return KeyType(text, node.name, size=int(args[0].name))
        case "Tuple" if args and not any("Nullable" in str(element) for element in args):
            return KeyType(text, "Tuple", elements=tuple(parse_key_type(str(replace(e, words=()))) for e in args))
        case "DateTime" | "Enum8" | "Enum16":
            return KeyType(text, node.name)
    return KeyType(text, str(node))


def _decimal(text: str, precision: int, scale: int) -> KeyType:
    for limit, family in _DECIMAL_FAMILIES:
        if precision <= limit:
            return KeyType(text, family, precision, scale)
    return KeyType(text, text)
