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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from chsink.decode.field_paths import Path

LONGEST: Final = 240
"""The most bytes before a value."""
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[-+.0-9a-zA-Z]+|[{}\[\]:,]| +')


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

    It must have no arrays, no empty objects, no escapes in names, and no white space but blanks.
    """
    try:
        writing = _Writing(_tokens(record))
        writing.value(())
        return _skeleton(writing, kinds)
    except _NotSimpleError:
        return None


def leaves(path: Path, fields: Iterable[pa.Field]) -> Iterator[tuple[Path, pa.DataType]]:
    """The path and type of each value that is not an object."""
    for field in fields:
        here = (*path, field.name)
        if pa.types.is_struct(field.type) and field.type.num_fields:
            yield from leaves(here, field.type)
        else:
            yield here, field.type


class _NotSimpleError(Exception):
    """The record has no skeleton."""


def _tokens(record: str) -> Iterator[str]:
    end = 0
    for token in _TOKEN.finditer(record):
        if token.start() != end:
            raise _NotSimpleError
        end = token.end()
        yield token[0]
    if end < len(record):
        raise _NotSimpleError


class _Writing:
    """Reads the text of a valid record: the text before each value, its path, and the ``text`` since the last one."""

    def __init__(self, tokens: Iterator[str]) -> None:
        self.values: list[tuple[str, Path]] = []
        self.text = ""
        self._tokens = tokens

    def value(self, path: Path) -> None:
        """Read a value."""
        piece = self._take()
        if piece == "{":
            self._object(path)
        elif piece == "[":
            raise _NotSimpleError
        else:
            self.values.append((self.text, path))
            self.text = ""

    def _take(self) -> str:
        """The next token that is not blank; blanks go to the text."""
        piece = next(self._tokens, "")
        while piece[:1] == " ":
            self.text += piece
            piece = next(self._tokens, "")
        return piece

    def _object(self, path: Path) -> None:
        mark = "{"
        while mark != "}":
            self.text += mark
            name = self._take()
            if name == "}" or "\\" in name:
                raise _NotSimpleError
            self.text += name
            self.text += self._take()
            self.value((*path, name[1:-1]))
            mark = self._take()
        self.text += mark


def _skeleton(writing: _Writing, kinds: Mapping[Path, pa.DataType]) -> Skeleton:
    paths = [path for _, path in writing.values]
    objects = {path[:depth] for path in paths for depth in range(1, len(path))}
    parents = {path[:depth] for path in kinds for depth in range(1, len(path))}
    if len(set(paths)) < len(paths) or objects & {*paths, *kinds} or parents & {*paths}:
        raise _NotSimpleError
    slots: list[Slot] = []
    gap = 0
    for text, path in reversed(writing.values):
        before = text.encode()
        if len(before) > LONGEST:
            raise _NotSimpleError
        own = before.index(b'"')
        optional = before.startswith(b",") and not set(before) & set(b"{}") and gap in (0, own)
        slots.insert(0, Slot(before, path, kinds.get(path), optional, gap))
        gap = own
    return Skeleton(tuple(slots), writing.text.encode())
