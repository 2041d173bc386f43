"""JSON values without loss: numbers as written, members in order with repetitions, raw text on demand.

The reference path works with these values.  Rules:

* Only RFC 8259 is JSON: ``NaN`` and ``Infinity`` are not, a byte order mark is not, bytes must be UTF-8.
* A number is kept as its text (:class:`Number`), so that a decimal is exact and a number in a String column is
  unchanged.
* An object is kept as a list of pairs (:class:`Pairs`), so that a repeated key is detected, not overwritten.
* Nesting is limited to :data:`MAX_DEPTH`, by the record's text alone, so no parser's stack affects the result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from typing import Final, NoReturn, TypeAlias

MAX_DEPTH: Final = 256


class MisfitError(Exception):
    """A value that does not fit its column; the reason names kinds and types, never the value."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RawNeededError(Exception):
    """A String inside a container got an array or object: parse again and keep raw texts."""


class Number(str):
    """A JSON number as it was written."""

    __slots__ = ()

    @property
    def integral_text(self) -> bool:
        """Whether the number is written without a fraction or exponent."""
        return not ("." in self or "e" in self or "E" in self)


JsonValue: TypeAlias = "bool | str | bytes | Pairs | list[JsonValue] | None"
"""A JSON value: a :class:`Number` is a ``str``.  Formats other than JSON give ``bytes`` where they have no text."""


class Pairs:
    """A JSON object; ``raw`` is its text, if kept."""

    __slots__ = ("items", "raw")

    def __init__(self, items: list[tuple[str, JsonValue]], raw: str | None = None) -> None:
        self.items = items
        self.raw = raw


class RawList(list[JsonValue]):
    """A JSON array that keeps its text."""

    __slots__ = ("raw",)

    def __init__(self, items: list[JsonValue], raw: str) -> None:
        super().__init__(items)
        self.raw = raw


def _not_json(_token: str) -> NoReturn:
    raise MisfitError("not valid JSON: NaN and Infinity are not JSON numbers")


_DECODER = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=_not_json, object_pairs_hook=Pairs, strict=True
)


def parse_record(data: bytes) -> Pairs:
    """Parse one record, which must be a JSON object. Raises MisfitError."""
    value = parse_value(data)
    if not isinstance(value, Pairs):
        raise MisfitError(f"the record is {kind_of(value)}, not a JSON object")
    return value


def parse_value(data: bytes) -> JsonValue:
    """Parse one JSON text. Raises MisfitError."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MisfitError(f"not valid UTF-8 at byte {error.start}") from None
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and depth_of(data) > MAX_DEPTH:
        raise MisfitError(f"nested deeper than {MAX_DEPTH} levels")
    try:
        value: JsonValue = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        at = len(text[: error.pos].encode("utf-8"))
        raise MisfitError(f"not valid JSON at byte {at}") from None
    return value


def parse_values(texts: Sequence[bytes]) -> list[JsonValue]:
    """Parse JSON texts that another parser has cut out of valid records; an empty string is null."""
    values: list[JsonValue] = _DECODER.decode("[" + b",".join(text or b"null" for text in texts).decode("utf-8") + "]")
    assert len(values) == len(texts), "each text is one value"
    return values


def depth_of(data: bytes) -> int:
    """The deepest nesting of brackets outside strings; exact for valid JSON."""
    bare = b"".join(data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    depth = deepest = 0
    for byte in bare:
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


_scan_string: Callable[[str, int, bool], tuple[str, int]] = vars(json.decoder)["scanstring"]
_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r"[-+.0-9a-zA-Z]+")
_WORDS: Final = {"null": None, "true": True, "false": False}


def with_raw(data: bytes) -> JsonValue:
    """Parse again a text that :func:`parse_value` accepted, keeping the raw text of every array and object."""
    text = data.decode("utf-8")
    return _raw_value(text, _skip(text, 0))[0]


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _raw_value(text: str, at: int) -> tuple[JsonValue, int]:
    if text[at] == '"':
        return _scan_string(text, at + 1, True)
    if text[at] in "[{":
        return _raw_container(text, at)
    found = _SCALAR.match(text, at)
    assert found is not None
    token = found[0]
    return (_WORDS[token] if token in _WORDS else Number(token)), found.end()


def _raw_container(text: str, start: int) -> tuple[JsonValue, int]:
    keyed, close = (True, "}") if text[start] == "{" else (False, "]")
    items: list[JsonValue] = []
    pairs: list[tuple[str, JsonValue]] = []
    at = _skip(text, start + 1)
    while text[at] != close:
        key = ""
        if keyed:
            key, at = _scan_string(text, at + 1, True)
            at = _skip(text, _skip(text, at) + 1)
        value, at = _raw_value(text, at)
        if keyed:
            pairs.append((key, value))
        else:
            items.append(value)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    raw = text[start : at + 1]
    return (Pairs(pairs, raw) if keyed else RawList(items, raw)), at + 1


def kind_of(value: JsonValue) -> str:
    """The kind of a value, in words for a reason."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, Number):
        return "an integer" if value.integral_text else "a number with a fraction or exponent"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, bytes):
        return "a binary string"
    return "an object" if isinstance(value, Pairs) else "an array"


def kinds_of(values: Sequence[JsonValue]) -> frozenset[str]:
    """The kinds in a sample, without null: some of ``bool int frac string array object``."""
    return frozenset(_SHORT[kind_of(value)] for value in values if value is not None)


_SHORT: Final = {
    "a boolean": "bool",
    "an integer": "int",
    "a number with a fraction or exponent": "frac",
    "a string": "string",
    "a binary string": "string",
    "an object": "object",
    "an array": "array",
}


def members(value: Pairs, known: Collection[str]) -> dict[str, JsonValue]:
    """An object's members by name.  Raises MisfitError if a name in ``known`` is repeated."""
    found: dict[str, JsonValue] = {}
    for key, item in value.items:
        if key in found and key in known:
            raise MisfitError(f"the field {key} is given twice")
        found[key] = item
    return found
