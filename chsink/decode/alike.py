"""Reads records that have one :mod:`skeleton <chsink.decode.skeleton>`, all at once: a slot after the other.

For each record there is a position in the block's bytes, and the number of the first quote that is not before it.  A
slot's text must stand there, then a value: a text, which ends at the second quote; a word; or a number, which ends as
many bytes before the next quote as the skeleton says.  A record that reaches its last byte so has the skeleton.  Only
records without escapes and control characters are read, so each quote begins or ends a name or a text.

What is read equals what the parser reads, in the same types.  Every other record is left to the parser.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.codec import Mask, Suspects, numpy_of
from chsink.decode.field_paths import Path
from chsink.decode.prefilter import first_bytes, window
from chsink.decode.skeleton import LONGEST, Skeleton, Slot, skeleton_of

Positions = npt.NDArray[np.intp]

_QUOTE: Final = ord('"')
_WORD: Final = 8
_SPARE: Final = LONGEST + 2 * _WORD
"""How many zero bytes are behind the block's: no text matches them."""
_DIGIT: Final = np.zeros(256, np.bool_)
_DIGIT[list(b"-0123456789")] = True
_INTEGER: Final = r"^-?(0|[1-9][0-9]*)$"
_NUMBER: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$"


class AlikeReader:
    """Reads the columns of ``schema``, which may be inside objects, from records with this skeleton."""

    def __init__(self, schema: pa.Schema, skeleton: Skeleton) -> None:
        self._schema = schema
        self._skeleton = skeleton

    def read(self, records: pa.Array) -> tuple[pa.Table, Suspects] | None:
        """The columns of ``records`` (binary, UTF-8, without nulls), and the records that were not read: their values
        are arbitrary.  None if no record was read, or if a number is too large for its type.
        """
        if not len(records):
            return None
        block = _Block(records, self._skeleton.after)
        values = [(slot, block.value(slot)) for slot in self._skeleton.slots]
        block.end()
        try:
            arrays = {slot.path: block.array(slot.kind, value) for slot, value in values}
        except pa.ArrowInvalid:
            return None
        if not block.good.any():
            return None
        columns = [_column((field.name,), field.type, arrays, len(records)) for field in self._schema]
        return pa.Table.from_arrays(columns, schema=self._schema), None if block.good.all() else ~block.good


def alike(schema: pa.Schema, record: str) -> AlikeReader | None:
    """A reader of records like this valid one; None if it is not simple enough."""
    skeleton = skeleton_of(record, dict(_leaves((), schema)))
    if skeleton is None or not all(slot.kind is None or _readable(slot.kind) for slot in skeleton.slots):
        return None
    return AlikeReader(schema, skeleton)


def _leaves(path: Path, fields: Iterable[pa.Field]) -> Iterable[tuple[Path, pa.DataType]]:
    for field in fields:
        here = (*path, field.name)
        if pa.types.is_struct(field.type) and field.type.num_fields:
            yield from _leaves(here, field.type)
        else:
            yield here, field.type


def _readable(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating)
    return any(test(kind) for test in tests)


def _column(path: Path, kind: pa.DataType, arrays: Mapping[Path, pa.Array | None], size: int) -> pa.Array:
    """A column, or an object's member; null where the skeleton has no slot for it."""
    found = arrays.get(path)
    if found is not None:
        return found
    if not any(other[: len(path)] == path for other in arrays):
        return pa.nulls(size, kind)
    assert isinstance(kind, pa.StructType), "values are read inside it"
    members = [_column((*path, field.name), field.type, arrays, size) for field in kind]
    return pa.StructArray.from_arrays(members, fields=list(kind))


@dataclass(frozen=True, slots=True)
class _Value:
    """A slot's value in each record, from ``start`` to ``end``; ``there``: in which, if not in all.

    ``numbers``: whether they are numbers, and have to be looked at.
    """

    start: Positions
    end: Positions
    there: Suspects = None
    numbers: bool = False


class _Block:
    """The bytes of a block's records, and how far each of them was read.  ``good``: those that have the skeleton."""

    def __init__(self, records: pa.Array, after: bytes) -> None:
        offsets, data = window(records)
        self._after = after
        self._starts, self._ends = offsets[:-1].astype(np.intp), offsets[1:].astype(np.intp)
        # Arrow's allocator keeps what it frees: the system would clear such large arrays anew for each block.
        self._bytes = np.frombuffer(memoryview(pa.allocate_buffer(len(data) + _SPARE)), np.uint8)
        mask = np.frombuffer(memoryview(pa.allocate_buffer(len(self._bytes))), np.bool_)
        self._bytes[: len(data)], self._bytes[len(data) :] = data, 0
        np.equal(self._bytes, _QUOTE, out=mask)
        mask[len(data) : len(data) + 2] = True  # so that a text without an end ends behind the block
        self._quotes = np.flatnonzero(mask)
        self._at, self._next = self._starts, _first_quotes(self._quotes[:-2], self._starts, self._ends)
        self.good: Mask = np.ones(len(records), np.bool_)
        if np.equal(self._bytes, ord("\\"), out=mask).any() or data.min(initial=_QUOTE) < ord(" "):
            odd = np.flatnonzero(mask[: len(data)] | (data < ord(" ")))
            self.good[np.searchsorted(self._ends, odd, side="right")] = False

    def value(self, slot: Slot) -> _Value:
        """Read a slot of all records."""
        there = self._matches(slot.before)
        if there.all():
            self._go(None, self._at + len(slot.before), slot.before.count(b'"'))
        else:
            self.good &= there | slot.optional
            self._go(there, self._at + len(slot.before), slot.before.count(b'"'))
        first = self._bytes[self._at]
        if slot.kind is None:
            return self._ignored(slot, there, there & (first == _QUOTE), there & _DIGIT[first])
        if pa.types.is_string(slot.kind):
            return self._text(there, there & (first == _QUOTE))
        if pa.types.is_boolean(slot.kind):
            return self._over_word(there, (b"true", b"false"))
        return self._number(slot, there, there & _DIGIT[first])

    def end(self) -> None:
        """Nothing but the skeleton's end may follow now."""
        self.good &= (self._at + len(self._after) == self._ends) & self._matches(self._after)

    def array(self, kind: pa.DataType | None, value: _Value) -> pa.Array | None:
        """The values as an array of the kind; None if they are ignored.  Numbers that JSON forbids are not good.

        Raises pa.ArrowInvalid if a number is too large for the kind.
        """
        if kind is not None and pa.types.is_boolean(kind):
            there = self._there(value)
            return pa.array(self._bytes[value.start] == ord("t"), mask=None if there.all() else ~there)
        if not value.numbers:
            return None if kind is None else self._texts(value)
        texts, self.good = _numbers(self._texts(value), kind, self.good)
        return None if kind is None else texts.cast(kind)

    def _there(self, value: _Value) -> Mask:
        return self.good if value.there is None else self.good & value.there

    def _matches(self, text: bytes) -> Mask:
        """Which records have the text where they are."""
        size = -(-len(text) // _WORD) * _WORD
        places = np.ndarray((len(self._bytes) - size + 1,), f"V{size}", self._bytes, strides=(1,))
        found = places[self._at].view("<u8").reshape(len(self._at), size // _WORD)
        wanted = np.frombuffer(text.ljust(size, b"\0"), "<u8")
        masks = np.frombuffer((b"\xff" * len(text)).ljust(size, b"\0"), "<u8")
        there: Mask = (found[:, 0] & masks[0]) == wanted[0]
        for at in range(1, len(wanted)):
            there &= (found[:, at] & masks[at]) == wanted[at]
        return there

    def _go(self, which: Suspects, to: Positions, quotes: int) -> None:
        """Move these records (None: all of them) on, past so many quotes."""
        self._at = to if which is None else np.where(which, to, self._at)
        if quotes:
            self._next = self._next + (quotes if which is None else which * np.intp(quotes))

    def _text(self, there: Mask, quoted: Mask) -> _Value:
        """A text where there is a quote, else null."""
        value = self._over_text(quoted)
        if value.there is not None:
            self._over_word(there & ~quoted, ())
        return value

    def _number(self, slot: Slot, there: Mask, digit: Mask) -> _Value:
        """A number where there is a digit or a minus, else null."""
        value = self._over_number(slot, digit)
        if value.there is not None:
            self._over_word(there & ~value.there, ())
        return value

    def _ignored(self, slot: Slot, there: Mask, quoted: Mask, digit: Mask) -> _Value:
        """Any value."""
        if quoted.any():
            self._over_text(quoted)
        value = self._over_number(slot, digit)
        if value.there is not None:
            self._over_word(there & ~quoted & ~value.there, (b"true", b"false"))
        return value

    def _over_text(self, quoted: Mask) -> _Value:
        every = bool(quoted.all())
        start, end = self._at + 1, self._quotes[self._next + 1 if every else np.where(quoted, self._next + 1, 0)]
        self._go(None if every else quoted, end + 1, 2)
        return _Value(start, end, None if every else quoted)

    def _over_number(self, slot: Slot, digit: Mask) -> _Value:
        start, quote = self._at, self._quotes[self._next]
        end = np.where(quote < self._ends, quote - slot.gap, self._ends - len(self._after))
        digit = digit & (start < end)
        every = bool(digit.all())
        self._go(None if every else digit, end, 0)
        return _Value(start, end, None if every else digit, numbers=bool(digit.any()))

    def _over_word(self, there: Mask, words: Iterable[bytes]) -> _Value:
        """One of the words, or null; any other value is not good."""
        start, found = self._at, np.zeros(len(there), np.bool_)
        for word in words:
            has = there & ~found & self._matches(word)
            self._go(has, self._at + len(word), 0)
            found |= has
        if (there & ~found).any():
            null = there & ~found & self._matches(b"null")
            self._go(null, self._at + len(b"null"), 0)
            self.good &= ~there | found | null
        return _Value(start, self._at, None if found.all() else found)

    def _texts(self, value: _Value) -> pa.Array:
        """The bytes between start and end; null where there is no value, and in records that are not good."""
        there = self._there(value)
        every = bool(there.all())
        offsets = np.empty((len(there), 2), np.int32)
        offsets[:, 0] = value.start if every else np.where(there, value.start, self._starts)
        offsets[:, 1] = value.end if every else np.where(there, value.end, self._starts)
        pieces = [None, pa.py_buffer(offsets), pa.py_buffer(self._bytes)]
        between = pa.Array.from_buffers(pa.string(), 2 * len(there) - 1, pieces)
        return between.take(pa.array(np.arange(0, 2 * len(there), 2), mask=None if every else ~there))


def _numbers(texts: pa.Array, kind: pa.DataType | None, good: Mask) -> tuple[pa.Array, Mask]:
    """The texts that JSON allows as numbers of this kind; the others become null, and are not good."""
    offsets, digits = window(texts)
    zero = first_bytes(offsets, digits) == ord("0")
    if ((digits - np.uint8(ord("0"))) < 10).all() and not (zero & (np.diff(offsets) > 1)).any():
        return texts, good
    right = pc.match_substring_regex(texts, _INTEGER if kind is not None and pa.types.is_integer(kind) else _NUMBER)
    if pc.all(right, min_count=0).as_py():
        return texts, good
    return pc.if_else(right, texts, None), good & numpy_of(right.fill_null(True))


def _first_quotes(quotes: Positions, starts: Positions, ends: Positions) -> Positions:
    """The number of the first quote at or behind each record's start."""
    each, rest = divmod(len(quotes), len(starts))
    if each and not rest:
        alike: Positions = np.arange(0, len(quotes), each)
        if (quotes[alike] >= starts).all() and (quotes[alike + each - 1] < ends).all():
            return alike
    return np.searchsorted(quotes, starts)
