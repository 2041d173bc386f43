"""Types of Iceberg columns as people write them: ``long``, ``list<string>``, ``map<string, struct<x: double>>``.

They become the JSON form of Iceberg's specification, without field ids (all are 0) and with nothing required.
"""

from __future__ import annotations

import re
from typing import Any, Final

from chsink.notation.metadata_columns import is_column_name

TypeDocument = str | dict[str, Any]
_FLAT: Final = re.compile(
    r"boolean|int|long|float|double|date|time|timestamptz?|string|uuid|binary|fixed\[[1-9]\d{0,8}\]"
    r"|decimal\((?:[1-9]|[12]\d|3[0-8]), ?(?:\d|[12]\d|3[0-8])\)"
)
_DIGITS: Final = re.compile(r"decimal\((\d+), ?(\d+)\)")
_NESTED: Final = re.compile(r"(list|map|struct)\s*<(.*)>", re.DOTALL)


def parse_iceberg_type(text: str) -> TypeDocument:
    """Raises ValueError."""
    text = text.strip()
    found = _NESTED.fullmatch(text)
    if found is None:
        digits = _DIGITS.fullmatch(text)
        if not _FLAT.fullmatch(text) or (digits and int(digits[2]) > int(digits[1])):
            raise ValueError(f"{text!r} is no type")
        return f"decimal({digits[1]}, {digits[2]})" if digits else text
    parts = _parts(found[2])
    match found[1]:
        case "list" if len(parts) == 1:
            return {"type": "list", "element-id": 0, "element": parse_iceberg_type(parts[0]), "element-required": False}
        case "map" if len(parts) == 2:
            key, value = map(parse_iceberg_type, parts)
            if _NESTED.fullmatch(parts[0].strip()):
                raise ValueError(f"{parts[0].strip()} cannot be the key of a map")
            return {"type": "map", "key-id": 0, "key": key, "value-id": 0, "value": value, "value-required": False}
        case "struct":
            return {"type": "struct", "fields": _fields(parts)}
    raise ValueError(f"{text!r} is no type")


def _fields(parts: list[str]) -> list[dict[str, Any]]:
    pairs = [(name.strip(), kind) for name, _, kind in (part.partition(":") for part in parts)]
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a struct has two fields of one name")
    for name, _ in pairs:
        if not is_column_name(name):
            raise ValueError(f"{name!r} cannot be the name of a field")
    return [{"id": 0, "name": name, "type": parse_iceberg_type(kind), "required": False} for name, kind in pairs]


def _parts(text: str) -> list[str]:
    """The parts between the commas that are in no brackets."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "<([") - (letter in ">)]")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return found
