"""Walks through records that have one :mod:`skeleton <chsink.decode.skeleton>`, all at once: a slot after the other.

For each record there is a position in the block's bytes, and the number of the first quote that is not before it.  A
slot's text must stand there, then a value: a text, which ends at the second quote; a word; or a number, which ends as
many bytes before the next quote as the skeleton says; or an array, whose :mod:`elements <chsink.decode.elements>` are
found from its end.  A record that reaches its last byte so has the skeleton.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chsink.decode.block_bytes import QUOTE, BlockBytes, BytePositions, bytes_in
from chsink.decode.codec import Mask, Suspects
from chsink.decode.elements import ElementsFound, Inside, numbers_inside, objects_inside, texts_inside
from chsink.decode.skeleton import Elements, Form, Skeleton, Slot

_DIGIT: Final = bytes_in(b"-0123456789")
_OPEN, _CLOSE = ord("["), ord("]")
_Rows = BytePositions | slice


@dataclass(frozen=True, slots=True)
class Arrays:
    """The elements of the arrays in ``rows`` of the records: their positions, or a walk through those that are objects,
    or the texts of their numbers.
    """

    rows: _Rows
    found: ElementsFound
    each: Walk | None = None

    def records(self, arrays: npt.NDArray[np.intp] | Mask) -> BytePositions:
        """The records of these arrays."""
        if isinstance(self.rows, slice):
            return np.arange(len(self.found.counts))[arrays]
        return self.rows[arrays]


@dataclass(frozen=True, slots=True)
class Value:
    """A slot's value in each record, from ``start`` to ``end``; ``there``: in which, if not in all.

    ``numbers``: whether they are numbers, and have to be looked at.  ``arrays``: if they are arrays.
    """

    start: BytePositions
    end: BytePositions
    there: Suspects = None
    numbers: bool = False
    arrays: Arrays | None = None

    def of(self, rows: BytePositions) -> Value:
        """The value in these records.  It is not an array."""
        assert self.arrays is None, "its elements are those of all records"
        there = None if self.there is None else self.there[rows]
        every = there is None or bool(there.all())
        return Value(self.start[rows], self.end[rows], None if every else there, self.numbers)


class Walk:
    """``values`` of each slot in the records ``within`` a block; ``good``: those that have the skeleton.

    ``rows``: the records that are still walked through.  If it ``drops``, those that are not good are left behind at
    the first slots: what all records share is done faster.
    """

    def __init__(self, block: BlockBytes, skeleton: Skeleton, within: Inside, good: Mask, *, drops: bool) -> None:
        self.block = block
        self.good = good
        self.rows = np.arange(len(good))
        self._after = skeleton.after
        self._ends = within.ends
        self._at, self._next = within.starts, within.firsts
        self.values: list[tuple[Slot, Value]] = []
        for slot in skeleton.slots:
            if drops and all(value.arrays is None for _, value in self.values):
                self._drop()
            self.values.append((slot, self._value(slot)))
        # Nothing but the skeleton's end may follow now.
        self.good &= (self._at + len(self._after) == self._ends) & block.matches(self._at, self._after)

    def _drop(self) -> None:
        """Leave the records behind that are not good."""
        kept = np.flatnonzero(self.good)
        if 0 < len(kept) < len(self.good):
            self.rows, self.good = self.rows[kept], self.good[kept]
            self._at, self._next, self._ends = self._at[kept], self._next[kept], self._ends[kept]
            self.values = [(slot, value.of(kept)) for slot, value in self.values]

    def next_after(self, firsts: BytePositions, counts: BytePositions) -> BytePositions:
        """The numbers of the first quotes behind arrays of so many of these records; ``firsts`` if there are none."""
        last, given = firsts.copy(), counts > 0
        last[given] = self._next[np.cumsum(counts)[given] - 1]
        return last

    def there(self, value: Value) -> Mask:
        """The good records that have this value."""
        return self.good if value.there is None else self.good & value.there

    def _value(self, slot: Slot) -> Value:
        """Read a slot of all records."""
        there = self.block.matches(self._at, slot.before)
        if there.all():
            self._go(None, self._at + len(slot.before), slot.before.count(b'"'))
        else:
            self.good &= there | slot.optional
            self._go(there, self._at + len(slot.before), slot.before.count(b'"'))
        first = self.block.bytes[self._at]
        if slot.elements is not None:
            return self._array(slot.elements, there, there & (first == _OPEN))
        quoted = there & (first == QUOTE)
        if slot.kind is None:
            return self._ignored(slot, there, quoted, there & _DIGIT[first])
        if pa.types.is_string(slot.kind):
            return self._text(there, quoted)
        if pa.types.is_boolean(slot.kind):
            return self._over_word(there, (b"true", b"false"))
        digit = there & _DIGIT[first]
        if pa.types.is_decimal(slot.kind) and quoted.any():
            return self._number_or_text(slot, there, quoted, digit)
        return self._number(slot, there, digit)

    def _go(self, which: Suspects, to: BytePositions, quotes: int) -> None:
        """Move these records (None: all of them) on, past so many quotes."""
        self._at = to if which is None else np.where(which, to, self._at)
        if quotes:
            self._next = self._next + (quotes if which is None else which * np.intp(quotes))

    def _text(self, there: Mask, quoted: Mask) -> Value:
        """A text where there is a quote, else null."""
        value = self._over_text(quoted)
        if value.there is not None:
            self._over_word(there & ~quoted, ())
        return value

    def _number(self, slot: Slot, there: Mask, digit: Mask) -> Value:
        """A number where there is a digit or a minus, else null."""
        value = self._over_number(slot, digit)
        if value.there is not None:
            self._over_word(there & ~value.there, ())
        return value

    def _number_or_text(self, slot: Slot, there: Mask, quoted: Mask, digit: Mask) -> Value:
        """A number, or what may be one in quotes, else null."""
        text = self._over_text(quoted)
        if text.there is None:
            return Value(text.start, text.end, numbers=True)
        number = self._number(slot, there & ~quoted, digit)
        start, end = np.where(quoted, text.start, number.start), np.where(quoted, text.end, number.end)
        assert number.there is not None, "others are in quotes"
        return Value(start, end, quoted | number.there, numbers=True)

    def _ignored(self, slot: Slot, there: Mask, quoted: Mask, digit: Mask) -> Value:
        """Any value."""
        if quoted.any():
            self._over_text(quoted)
        value = self._over_number(slot, digit)
        if value.there is not None:
            self._over_word(there & ~quoted & ~value.there, (b"true", b"false"))
        return value

    def _array(self, elements: Elements, there: Mask, opened: Mask) -> Value:
        """An array where there is a bracket, else null."""
        start, end = self._at, self._array_end(elements)
        opened &= (self._at + 2 <= end) & (self.block.bytes[end - 1] == _CLOSE)
        every = bool(opened.all())
        rows = slice(None) if every else np.flatnonzero(opened)
        inside, each = Inside(start[rows] + 1, end[rows] - 1, self._next[rows]), None
        if elements.form is Form.NUMBERS:
            found = numbers_inside(self.block, inside)
        elif elements.each is not None:
            slots = elements.each.slots
            found = objects_inside(self.block, inside, elements.between, slots[0].before, elements.each.quotes)
            good = self.good[rows] & ~found.wrong
            each = Walk(self.block, elements.each, found.at, np.repeat(good, found.counts), drops=False)
            self._skip(rows, each.next_after(inside.firsts, found.counts))
        else:
            last = np.searchsorted(self.block.quotes, inside.ends)
            found = texts_inside(self.block, inside, last, elements.between)
            self._skip(rows, last)
        arrays = Arrays(rows, found, each)
        if found.wrong.any():
            self.good[arrays.records(found.wrong)] = False
        self._go(None if every else opened, end, 0)
        if not every:
            self._over_word(there & ~opened, ())
        return Value(start, end, None if every else opened, arrays=arrays)

    def _skip(self, rows: _Rows, quote: BytePositions) -> None:
        """The next quotes of these records."""
        self._next = self._next.copy()
        self._next[rows] = quote

    def _array_end(self, elements: Elements) -> BytePositions:
        """Behind the bracket that the text after the array follows; anywhere else if there is none."""
        if elements.behind is None:
            return self._ends - len(self._after)
        brackets = self.block.brackets
        brackets = brackets[self.block.matches(brackets, b"]" + elements.behind)]
        if len(brackets) == len(self._at) and (brackets > self._at).all() and (brackets < self._ends).all():
            return brackets + 1
        ends: BytePositions = np.append(brackets + 1, 0)[np.searchsorted(brackets, self._at)]
        np.minimum(ends, self._ends, out=ends)
        return ends

    def _over_text(self, quoted: Mask) -> Value:
        every = bool(quoted.all())
        quotes = self.block.quotes
        start, end = self._at + 1, quotes[self._next + 1 if every else np.where(quoted, self._next + 1, 0)]
        self._go(None if every else quoted, end + 1, 2)
        return Value(start, end, None if every else quoted)

    def _over_number(self, slot: Slot, digit: Mask) -> Value:
        start, quote = self._at, self.block.quotes[self._next]
        end = np.where(quote < self._ends, quote - slot.gap, self._ends - len(self._after))
        digit = digit & (start < end)
        every = bool(digit.all())
        self._go(None if every else digit, end, 0)
        return Value(start, end, None if every else digit, numbers=bool(digit.any()))

    def _over_word(self, there: Mask, words: Iterable[bytes]) -> Value:
        """One of the words, or null; any other value is not good."""
        start, found = self._at, np.zeros(len(there), np.bool_)
        for word in words:
            has = there & ~found & self.block.matches(self._at, word)
            self._go(has, self._at + len(word), 0)
            found |= has
        if (there & ~found).any():
            null = there & ~found & self.block.matches(self._at, b"null")
            self._go(null, self._at + len(b"null"), 0)
            self.good &= ~there | found | null
        return Value(start, self._at, None if found.all() else found)
