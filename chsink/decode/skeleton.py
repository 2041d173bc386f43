"""The skeleton of a JSON record: its text without its values, as one producer writes all its records.

A skeleton is a list of slots, one for each value that is not an object, and the text after the last.
The text before a slot holds the member's name and whatever precedes it: ``{"id":``, ``,"place":{"x":``, ``},"name":``.
The value of a slot may be an array of texts, of numbers, or of objects that have a skeleton of their own.

A record *has* a skeleton if its text is that of the slots in order, each with a value, and the text at the end.
Optional slots, which begin with a comma and hold no bracket, may be left out: then the record lacks that member.  Names
are written without escapes and occur once in their object.  So such a record is one JSON object without repeated names,
and each value belongs to the name before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import pyarrow as pa

from chsink.decode.field_paths import Path

LONGEST: Final = 240
"""The most bytes before a value."""
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[-+.0-9a-zA-Z]+|[{}\[\]:,]| +')


class Form(Enum):
    """What the elements of an array are."""

    NONE = auto()
    TEXTS = auto()
    NUMBERS = auto()
    OBJECTS = auto()


@dataclass(frozen=True, slots=True)
class Elements:
    """How an array is written: ``between`` its elements is a comma, and maybe a blank.

    ``behind``: the text that follows the array; None if it is the record's last value.  ``each``: the skeleton of an
    element that is an object.
    """

    form: Form
    between: bytes
    behind: bytes | None
    each: Skeleton | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a value.  ``kind`` is the type in which it is read; None if the value is ignored.

    ``gap``: how many bytes after a value the next quote is, unless the value is the record's last.  ``elements``: of an
    array.
    """

    before: bytes
    path: Path
    kind: pa.DataType | None
    optional: bool
    gap: int
    elements: Elements | None = None


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The slots of a record, in order, and the text ``after`` the last one.  ``quotes``: how many the sample has."""

    slots: tuple[Slot, ...]
    after: bytes
    quotes: int


def skeleton_of(record: str, kinds: Mapping[Path, pa.DataType]) -> Skeleton | None:
    """The skeleton of a record that fits, whose values of these kinds are read; None if it is not simple enough.

    It must have no arrays in arrays, no empty objects, no escapes in names, and no white space but blanks.
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


@dataclass(frozen=True, slots=True)
class _Array:
    """An array of the record: the first tokens of its elements, the texts between them, and its fullest object."""

    begins: set[str]
    between: set[str]
    each: _Writing | None


class _Writing:
    """Reads the text of a valid record: the text before each value, its path, and the ``text`` since the last one."""

    def __init__(self, tokens: Iterator[str]) -> None:
        self.values: list[tuple[str, Path, _Array | None]] = []
        self.text = ""
        self.quotes = 0
        self._tokens = tokens

    def value(self, path: Path) -> None:
        """Read a value."""
        piece = self._take()
        if piece == "{":
            self._object(path)
        else:
            self.values.append((self.text, path, self._array() if piece == "[" else None))
            self.text = ""

    def _array(self) -> _Array:
        """The elements of an array that has begun.  No blanks may be but those between them."""
        begins: set[str] = set()
        between: set[str] = set()
        each: _Writing | None = None
        piece = next(self._tokens)
        while piece != "]":
            begins.add(piece[0])
            if piece == "{":
                element = _Writing(self._tokens)
                element._object(())
                each = element if each is None or len(element.values) > len(each.values) else each
            elif piece[0] in "[ ":
                raise _NotSimpleError
            piece = next(self._tokens)
            if piece == ",":
                piece = next(self._tokens)
                between.add(", " if piece == " " else ",")
                piece = next(self._tokens) if piece == " " else piece
        return _Array(begins, between, each)

    def _take(self) -> str:
        """The next token that is not blank; blanks go to the text."""
        piece = next(self._tokens, "")
        while piece[:1] == " ":
            self.text += piece
            piece = next(self._tokens, "")
        self.quotes += 2 * piece.startswith('"')
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
    paths = [path for _, path, _ in writing.values]
    objects = {path[:depth] for path in paths for depth in range(1, len(path))}
    parents = {path[:depth] for path in kinds for depth in range(1, len(path))}
    if len(set(paths)) < len(paths) or objects & {*paths, *kinds} or parents & {*paths}:
        raise _NotSimpleError
    slots: list[Slot] = []
    gap, behind = 0, None
    for text, path, array in reversed(writing.values):
        before, kind = text.encode(), kinds.get(path)
        if len(before) > LONGEST:
            raise _NotSimpleError
        own = before.index(b'"')
        optional = before.startswith(b",") and not set(before) & set(b"{}") and gap in (0, own)
        elements = None if array is None else _elements(array, kind, behind)
        slots.insert(0, Slot(before, path, kind, optional, gap, elements))
        gap, behind = own, before
    return Skeleton(tuple(slots), writing.text.encode(), writing.quotes)


_DIGITS: Final = set("-0123456789")
_NUMERIC: Final = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


def _elements(array: _Array, kind: pa.DataType | None, behind: bytes | None) -> Elements:
    """How the array is written, if its elements are alike and can be read in the type."""
    if not (kind is None or pa.types.is_list(kind)) or len(array.between) > 1:
        raise _NotSimpleError
    between, inner = "".join(array.between) or ",", None if kind is None else kind.value_type
    if not array.begins:
        return Elements(Form.NONE, between.encode(), behind)
    if array.begins == {"{"} and array.each is not None and (inner is None or pa.types.is_struct(inner)):
        each = _skeleton(array.each, {} if inner is None else dict(leaves((), inner)))
        return Elements(Form.OBJECTS, between.encode(), behind, each)
    if array.begins == {'"'} and (inner is None or pa.types.is_string(inner)):
        return Elements(Form.TEXTS, between.encode(), behind)
    if array.begins <= _DIGITS and (inner is None or any(test(inner) for test in _NUMERIC)):
        return Elements(Form.NUMBERS, between.encode(), behind)
    raise _NotSimpleError
