"""Walks through records that have one :mod:`skeleton <chsink.decode.skeleton>`, all at once: a slot after the other.

For each record there is a position in the block's bytes, and the number of the first quote that is not before it.  A
slot's text must stand there, then a value: a text, which ends at the second quote; a word; or a number, which ends as
many bytes before the next quote as the skeleton says.  A record that reaches its last byte so has the skeleton.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from chsink.decode.block_bytes import QUOTE, BlockBytes, Positions, bytes_in
from chsink.decode.codec import Mask, Suspects
from chsink.decode.skeleton import Skeleton, Slot

_DIGIT: Final = bytes_in(b"-0123456789")


@dataclass(frozen=True, slots=True)
class Value:
    """A slot's value in each record, from ``start`` to ``end``; ``there``: in which, if not in all.

    ``numbers``: whether they are numbers, and have to be looked at.
    """

    start: Positions
    end: Positions
    there: Suspects = None
    numbers: bool = False


class Walk:
    """``values`` of each slot in the records of a block; ``good``: those that have the skeleton."""

    def __init__(self, block: BlockBytes, skeleton: Skeleton) -> None:
        self.block = block
        self.good = block.good
        self._after = skeleton.after
        self._ends = block.ends
        self._at, self._next = block.starts, block.firsts
        self.values = [(slot, self._value(slot)) for slot in skeleton.slots]
        # Nothing but the skeleton's end may follow now.
        self.good &= (self._at + len(self._after) == self._ends) & block.matches(self._at, self._after)

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

    def _go(self, which: Suspects, to: Positions, quotes: int) -> None:
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
