"""The bytes of a block of JSON records, and where the quotes are that begin or end a name or a text.

A quote behind an odd number of backslashes does neither.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chsink.decode.codec import Mask
from chsink.decode.prefilter import window
from chsink.decode.skeleton import LONGEST

BytePositions = npt.NDArray[np.intp]


def bytes_in(members: bytes) -> Mask:
    """A mask of all bytes: which are among these."""
    mask = np.zeros(256, np.bool_)
    mask[list(members)] = True
    return mask


QUOTE: Final = ord('"')
_WORD: Final = 8
_SPARE: Final = LONGEST + 2 * _WORD
"""How many zero bytes are behind the block's: no text matches them."""
_SPACE: Final = bytes_in(b" \t\r\n")
_ESCAPED: Final = bytes_in(b'"\\/bfnrtu')
_HEX: Final = bytes_in(b"0123456789abcdefABCDEF")
_SURROGATE: Final = bytes_in(b"89abcdefABCDEF")
_BLANKS_BEHIND: Final = 2


class BlockBytes:
    """``starts`` and ``ends`` of the records (binary, UTF-8, without nulls), without white space behind them.

    ``quotes``: where they are, in order.  ``firsts``: the number of the first quote at or behind each record's start.
    ``good``: the records without control characters and wrong escapes.  A backslash outside a text is not detected.
    """

    def __init__(self, records: pa.Array) -> None:
        offsets, data = window(records)
        # Arrow's allocator keeps what it frees: the system would clear such large arrays anew for each block.
        self.bytes = np.frombuffer(memoryview(pa.allocate_buffer(len(data) + _SPARE)), np.uint8)
        self._mask = np.frombuffer(memoryview(pa.allocate_buffer(len(self.bytes))), np.bool_)
        self.bytes[: len(data)], self.bytes[len(data) :] = data, 0
        self.starts = offsets[:-1].astype(np.intp)
        self._behind = offsets[1:].astype(np.intp)
        self.ends = self._trimmed()
        self.good: Mask = np.ones(len(records), np.bool_)
        self._escaped = self._escapes()
        if data.min(initial=QUOTE) < ord(" "):
            self._refuse(np.flatnonzero(data < ord(" ")))
        np.equal(self.bytes, QUOTE, out=self._mask)
        self._mask[self._escaped] = False
        self._mask[len(data) : len(data) + 2] = True  # so that a text without an end ends behind the block
        self.quotes = np.flatnonzero(self._mask)
        self.firsts = self._firsts(self.quotes[:-2])

    def _firsts(self, quotes: BytePositions) -> BytePositions:
        each, rest = divmod(len(quotes), len(self.starts))
        if each and not rest:
            alike: BytePositions = np.arange(0, len(quotes), each)
            if (quotes[alike] >= self.starts).all() and (quotes[alike + each - 1] < self.ends).all():
                return alike
        return np.searchsorted(quotes, self.starts)

    @cached_property
    def brackets(self) -> BytePositions:
        """Where an array may end."""
        return self._all(ord("]"))

    @cached_property
    def braces(self) -> BytePositions:
        """Where an object may begin."""
        return self._all(ord("{"))

    def _all(self, byte: int) -> BytePositions:
        np.equal(self.bytes, byte, out=self._mask)
        return np.flatnonzero(self._mask)

    def matches(self, at: BytePositions, text: bytes) -> Mask:
        """At which of the positions the text stands."""
        size = -(-len(text) // _WORD) * _WORD
        places = np.ndarray((len(self.bytes) - size + 1,), f"V{size}", self.bytes, strides=(1,))
        found = places[at].view("<u8").reshape(len(at), size // _WORD)
        wanted = np.frombuffer(text.ljust(size, b"\0"), "<u8")
        masks = np.frombuffer((b"\xff" * len(text)).ljust(size, b"\0"), "<u8")
        there: Mask = (found[:, 0] & masks[0]) == wanted[0]
        for word in range(1, len(wanted)):
            there &= (found[:, word] & masks[word]) == wanted[word]
        return there

    def texts(self, start: BytePositions, end: BytePositions, there: Mask) -> pa.Array:
        """The bytes between start and end in each record; null where there are none."""
        if not len(there):
            return pa.nulls(0, pa.string())
        every = bool(there.all())
        offsets = np.empty((len(there), 2), np.int32)
        offsets[:, 0] = start if every else np.where(there, start, 0)
        offsets[:, 1] = end if every else np.where(there, end, 0)
        offsets[-1, 1] = max(offsets[-1, 1], offsets[0, 0])  # as Arrow demands, also where no text is
        pieces = [None, pa.py_buffer(offsets), pa.py_buffer(self.bytes)]
        between = pa.Array.from_buffers(pa.string(), 2 * len(there) - 1, pieces)
        return between.take(pa.array(np.arange(0, 2 * len(there), 2), mask=None if every else ~there))

    def without_escapes(self, texts: pa.Array, start: BytePositions, end: BytePositions, there: Mask) -> pa.Array:
        """What the texts between start and end mean."""
        if not len(self._escaped):
            return texts
        first = np.searchsorted(self._escaped, np.where(there, start, 0))
        rows = np.flatnonzero(there & (first < np.searchsorted(self._escaped, np.where(there, end, 0))))
        if not len(rows):
            return texts
        meant = json.loads('["' + '","'.join(texts.take(pa.array(rows)).to_pylist()) + '"]')
        assert len(meant) == len(rows), "no text ends within another"
        at = np.arange(len(texts))
        at[rows] = len(texts) + np.arange(len(rows))
        return pa.concat_arrays([texts, pa.array(meant, pa.string())]).take(pa.array(at))

    def _trimmed(self) -> BytePositions:
        ends = self._behind
        for _ in range(_BLANKS_BEHIND):
            space = _SPACE[self.bytes[np.maximum(ends, 1) - 1]]
            if not space.any():
                break
            ends = np.maximum(ends - space, self.starts)
        return ends

    def _escapes(self) -> BytePositions:
        """Where the character behind each backslash is, unless that backslash is such a character itself."""
        np.equal(self.bytes, ord("\\"), out=self._mask)
        at = np.flatnonzero(self._mask) if self._mask.any() else np.zeros(0, np.intp)
        if not len(at):
            return at
        run = np.flatnonzero(np.diff(at, prepend=-2) != 1)
        rank = np.arange(len(at)) - np.repeat(run, np.diff(run, append=len(at)))
        escaped: BytePositions = at[rank % 2 == 0] + 1
        wrong = ~_ESCAPED[self.bytes[escaped]]
        coded = np.flatnonzero(self.bytes[escaped] == ord("u"))
        digits = self.bytes[escaped[coded][:, None] + np.arange(1, 5)]
        halves = ((digits[:, 0] | 0x20) == ord("d")) & _SURROGATE[digits[:, 1]]
        wrong[coded] = halves | ~_HEX[digits].all(axis=1)
        self._refuse(escaped[wrong] - 1)
        return escaped

    def _refuse(self, at: BytePositions) -> None:
        rows = np.searchsorted(self._behind, at, side="right")
        self.good[rows[at < self.ends[rows]]] = False
