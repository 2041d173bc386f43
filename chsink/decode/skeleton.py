"""The skeleton of a JSON record: its text without its values, as one producer writes all its records.

A skeleton is a list of slots, one for each value that is neither an object nor an array, and the text after the last.
The text before a slot holds the member's name and whatever precedes it: ``{"id":``, ``,"place":{"x":``, ``},"name":``.

A record *has* a skeleton if its text is that of the slots in order, each with a value, and the text at the end.
Optional slots, which begin with a comma and hold no bracket, may be left out: then the record lacks that member.  Names
are written without escapes and occur once in their object.  So such a record is one JSON object without repeated names,
and each value belongs to the name before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from chsink.decode.field_paths import Path

LONGEST: Final = 240
"""The most bytes before a value."""
_TOKEN: Final = re.compile(r'"[^"\\]*"|[-+.0-9a-zA-Z]+|[{}\[\]:,]| +')


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a value.  ``kind`` is the type in which it is read; None if the value is ignored.

    ``gap``: how many bytes after a value the next quote is, unless the value is the record's last.
    """

    before: bytes
    path: Path
    kind: pa.DataType | None
    optional: bool
    gap: int


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The slots of a record, in order, and the text ``after`` the last one."""

    slots: tuple[Slot, ...]
    after: bytes


def skeleton_of(record: str, kinds: Mapping[Path, pa.DataType]) -> Skeleton | None:
    """The skeleton of a record that fits, whose values of these kinds are read; None if it is not simple enough.

    It must have no arrays, no empty objects, no escapes, and no white space but blanks.
    """
    writing = _Writing()
    end = 0
    for token in _TOKEN.finditer(record):
        if token.start() != end or not writing.take(token[0]):
            return None
        end = token.end()
    befores, paths = writing.befores, writing.paths
    objects = {path[:depth] for path in paths for depth in range(1, len(path))}
    parents = {path[:depth] for path in kinds for depth in range(1, len(path))}
    if (
        end < len(record)
        or not paths
        or len(set(paths)) < len(paths)
        or objects & {*paths, *kinds}
        or parents & {*paths}
    ):
        return None
    if max(len(before.encode()) for before in befores) > LONGEST:
        return None
    slots: list[Slot] = []
    gap = 0
    for before, path in zip(reversed(befores), reversed(paths), strict=True):
        own = before.encode().index(b'"')
        optional = before.startswith(",") and not set(before) & set("{}") and gap in (0, own)
        slots.insert(0, Slot(before.encode(), path, kinds.get(path), optional, gap))
        gap = own
    return Skeleton(tuple(slots), writing.before.encode())


class _Writing:
    """A record's values so far: the text before each, and its path; and the text ``before`` the next."""

    def __init__(self) -> None:
        self.befores: list[str] = []
        self.paths: list[Path] = []
        self.before = ""
        self._path: list[str] = []
        self._named = False  # whether the next value's name was read
        self._empty = False  # whether the object has no member yet

    def take(self, token: str) -> bool:
        """Take the next token.  Returns False if it is not simple enough."""
        if token[0] in "{}:, ":
            self.before += token
            return self._mark(token)
        if self._named:
            self.befores.append(self.before)
            self.paths.append(tuple(self._path))
            self.before, self._named = "", False
            return token[0] not in "[]"
        self.before += token
        self._path[-1], self._named, self._empty = token[1:-1], True, False
        return token[0] == '"'

    def _mark(self, mark: str) -> bool:
        if mark == "{":
            self._path.append("")
            self._named, self._empty = False, True
        elif mark == "}":
            self._path.pop()
            return not self._empty
        return True
