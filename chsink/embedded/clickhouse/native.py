"""The Native format as a client of a given protocol revision reads it.

The engine writes Native for clients without a revision: no info before a block, and a ``DateTime`` column without its
time zone.  A request with ``client_protocol_version`` gets what a server sends:

- the block's info before each block;
- from revision 54337, the time zone in the type of a ``DateTime`` column (the engine drops it from no other type);
- from revision 54454, a byte behind each type: the column has the default serialization.

To insert these, one must know where each column ends.  That follows from its type; where it does not (``JSON``,
``Dynamic``, aggregate states …), the next column's name and type are searched for, and all that follow must then fill
the block exactly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_INFO: Final = b"\x01\x00\x02\xff\xff\xff\xff\x00"
_WITH_ZONES: Final = 54337
_WITH_SERIALIZATION: Final = 54454
_SIZES: Final = {
    **dict.fromkeys(("UInt8", "Int8", "Bool", "Enum8", "Nothing"), 1),
    **dict.fromkeys(("UInt16", "Int16", "Enum16", "Date", "BFloat16"), 2),
    **dict.fromkeys(("UInt32", "Int32", "Float32", "Date32", "DateTime", "IPv4", "Time"), 4),
    **dict.fromkeys(("UInt64", "Int64", "Float64", "DateTime64", "Time64"), 8),
    **dict.fromkeys(("UInt128", "Int128", "UUID", "IPv6"), 16),
    **dict.fromkeys(("UInt256", "Int256"), 32),
}
_DECIMAL_BYTES: Final = ((9, 4), (18, 8), (38, 16), (76, 32))
_GEOMETRY: Final = {
    "Point": "Tuple(Float64, Float64)",
    "Ring": "Array(Point)",
    "LineString": "Array(Point)",
    "Polygon": "Array(Ring)",
    "MultiLineString": "Array(LineString)",
    "MultiPolygon": "Array(Polygon)",
}
_PIECE: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`|.""", re.DOTALL)
_ELEMENT_NAME: Final = re.compile(r"(?:`(?:[^`\\]|\\.)*`|\w+) +(?=\w)")


class SchemaNeededError(Exception):
    """The body cannot be revised without the result's names and full types."""


class _UnknownLengthError(Exception):
    """A type does not say how long its column is."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a block: its type, and half-open places of its name (with its length) and its data."""

    type: str
    begin: int
    name_end: int
    start: int
    end: int


def revised(data: bytes, revision: int, schema: Sequence[tuple[str, str]] | None) -> bytes:
    """A body of the engine for a client of ``revision``.

    ``schema`` are the result's column names and full types; empty if unknown, None if not yet asked for.
    Raises SchemaNeededError, with a schema only where it does not fit the body.
    """
    parts: list[bytes] = []
    at = 0
    while at < len(data):
        count, at = _number(data, at)
        rows, at = _number(data, at)
        parts += (_INFO, _written(count), _written(rows))
        known = schema if schema and len(schema) == count else ()
        for index, column in enumerate(_columns(data, at, count, rows, known)):
            name = column.type
            if name == "DateTime" and revision >= _WITH_ZONES:
                if schema is None:
                    raise SchemaNeededError
                name = known[index][1] if known else name
            text = name.encode("utf-8", "surrogateescape")
            flag = b"\x00" if revision >= _WITH_SERIALIZATION else b""
            parts += (data[column.begin : column.name_end], _written(len(text)), text, flag)
            parts.append(data[column.start : column.end])
            at = column.end
    return b"".join(parts)


def _columns(data: bytes, at: int, count: int, rows: int, schema: Sequence[tuple[str, str]]) -> list[_Column]:
    """The columns of the block whose first one begins at ``at``."""
    found: list[_Column] = []
    for index in range(count):
        begin = at
        _, name_end = _text(data, at)
        type_name, start = _text(data, name_end)
        try:
            at = _end(type_name, data, start, rows)
        except _UnknownLengthError:
            rest = _searched(data, start, count - index - 1, rows, schema)
            return [*found, _Column(type_name, begin, name_end, start, rest[0].begin if rest else len(data)), *rest]
        found.append(_Column(type_name, begin, name_end, start, at))
    return found


def _searched(data: bytes, start: int, count: int, rows: int, schema: Sequence[tuple[str, str]]) -> list[_Column]:
    """The last ``count`` columns of a body, of which the first begins somewhere behind ``start``."""
    if not count:
        return []
    if len(schema) < count:
        raise SchemaNeededError
    name, type_name = schema[-count]
    header = _written_text(name) + _written_text("DateTime" if type_name.startswith("DateTime(") else type_name)
    begin = data.find(header, start)
    while begin >= 0:
        try:
            columns = _columns(data, begin, count, rows, schema)
        except (IndexError, SchemaNeededError, UnicodeDecodeError):
            columns = []
        if columns and columns[-1].end == len(data):
            return columns
        begin = data.find(header, begin + 1)
    raise SchemaNeededError


def _end(type_name: str, data: bytes, at: int, rows: int) -> int:
    """The end of a column that begins at ``at``; raises IndexError where that is behind the end of the body."""
    at += 8 * _dictionaries(type_name) if rows else 0
    at = _data_end(type_name, data, at, rows)
    if at > len(data):
        raise IndexError(at)
    return at


def _data_end(type_name: str, data: bytes, at: int, rows: int) -> int:
    """The end of ``rows`` values that begin at ``at``, after the column's prefix."""
    family, arguments = _parsed(type_name)
    if family == "String":
        return _strings_end(data, at, rows)
    if family == "Nullable":
        return _data_end(arguments[0], data, at + rows, rows)
    if family in ("Array", "Map", "Nested"):
        below = int.from_bytes(data[at + 8 * rows - 8 : at + 8 * rows], "little") if rows else 0
        at += 8 * rows
        for argument in arguments:
            at = _data_end(argument, data, at, below)
        return at
    if family == "Tuple":
        for argument in arguments:
            at = _data_end(argument, data, at, rows)
        return at if arguments else at + rows
    if family == "LowCardinality":
        return _dictionary_end(arguments[0], data, at) if rows else at
    return at + rows * _size(family, arguments)


def _dictionary_end(type_name: str, data: bytes, at: int) -> int:
    """The end of a LowCardinality column of rows: flags, keys, and an index for each row."""
    width = 1 << data[at]
    keys = int.from_bytes(data[at + 8 : at + 16], "little")
    family, arguments = _parsed(type_name)
    at = _data_end(arguments[0] if family == "Nullable" else type_name, data, at + 16, keys)
    return at + 8 + width * int.from_bytes(data[at : at + 8], "little")


def _dictionaries(type_name: str) -> int:
    """How many LowCardinality columns the type contains: each has a version number, before all data."""
    family, arguments = _parsed(type_name)
    if family == "LowCardinality":
        return 1
    if family in ("Array", "Map", "Nested", "Tuple", "Nullable"):
        return sum(map(_dictionaries, arguments))
    return 0


def _strings_end(data: bytes, at: int, rows: int) -> int:
    for _ in range(rows):
        length = data[at]
        if length < 0x80:
            at += length + 1
        else:
            length, at = _number(data, at)
            at += length
    return at


def _size(family: str, arguments: Sequence[str]) -> int:
    """The bytes of one value."""
    if family == "FixedString":
        return int(arguments[0])
    if family == "Decimal":
        return next(size for digits, size in _DECIMAL_BYTES if int(arguments[0]) <= digits)
    if family.startswith("Interval"):
        return 8
    if family not in _SIZES:
        raise _UnknownLengthError
    return _SIZES[family]


def _parsed(type_name: str) -> tuple[str, list[str]]:
    """The family, and the types or numbers in the brackets, without the names of elements."""
    type_name = _GEOMETRY.get(type_name, type_name)
    family, bracket, inside = type_name.partition("(")
    if not bracket or family.startswith("Enum"):
        return family, []
    arguments, depth = [""], 0
    for piece in _PIECE.findall(inside[:-1]):
        depth += (piece == "(") - (piece == ")")
        if piece == "," and depth == 0:
            arguments.append("")
        else:
            arguments[-1] += piece
    arguments = [argument.strip() for argument in arguments if argument.strip()]
    if family == "SimpleAggregateFunction":
        return _parsed(arguments[1])
    if family in ("Tuple", "Nested"):
        arguments = [text[named.end() :] if (named := _ELEMENT_NAME.match(text)) else text for text in arguments]
    return family, arguments


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A variable-length number, and the place behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _text(data: bytes, at: int) -> tuple[str, int]:
    length, at = _number(data, at)
    if at + length > len(data):
        raise IndexError(at)
    return data[at : at + length].decode("utf-8", "surrogateescape"), at + length


def _written(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _written_text(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogateescape")
    return _written(len(encoded)) + encoded
