"""Reads many binary messages at once: one NumPy step reads the next value of all of them.

:class:`Cursors` holds one position in each of many messages in one buffer, and moves all of them together.  So the
number of Python steps depends on the schema, not on the number of rows.  A damaged message does not affect the others:
its cursor moves to the end of the message, and :class:`Faults` keeps the first reason.

Rules:

* The positions of one call ascend, at most one in each message.  So strings can be cut out of the buffer at once.
* A cursor never leaves its message: a step that would leave it marks a fault and stops at the message's end.
"""

from __future__ import annotations

from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chsink.decode.codec import Mask

Positions = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

MAX_DEPTH: Final = 100
_PAD: Final = np.zeros(16, np.uint8)
_STOPS: Final = np.uint64(0x8080808080808080)
_BITS: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONE: Final = np.uint64(1)
_FOLDS: Final = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
TRUNCATED: Final = "the record ends inside a value"
UTF8: Final = "a string that is not valid UTF-8"
LONG_VARINT: Final = "an integer of more than 64 bits"
DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"


class Faults:
    """The first fault of each of ``size`` messages."""

    def __init__(self, size: int) -> None:
        self._codes = np.zeros(size, np.int32)
        self._reasons: list[str] = [""]

    def mark(self, rows: Positions, reason: str) -> None:
        """Mark these messages as wrong for this reason, unless they already have one."""
        if reason not in self._reasons:
            self._reasons.append(reason)
        fresh = rows[self._codes[rows] == 0]
        self._codes[fresh] = self._reasons.index(reason)

    @property
    def any(self) -> bool:
        """Whether any message is wrong."""
        return len(self._reasons) > 1

    def wrong(self, rows: Positions) -> Mask:
        """Which of these messages are wrong."""
        mask: Mask = self._codes[rows] != 0
        return mask

    def good(self) -> Positions:
        """The messages without a fault."""
        return np.flatnonzero(self._codes == 0)

    def of(self, reason: str) -> Positions:
        """The messages that are wrong for this reason."""
        code = self._reasons.index(reason) if reason in self._reasons else -1
        return np.flatnonzero(self._codes == code)

    def reasons(self) -> dict[int, str]:
        """Maps each wrong message to its reason."""
        return {int(row): self._reasons[self._codes[row]] for row in np.flatnonzero(self._codes)}


class Cursors:
    """One reading position per message: ``data[pos:end]`` is still to be read.  ``rows`` are the messages' numbers."""

    __slots__ = ("_words", "data", "depth", "end", "faults", "pos", "rows")

    def __init__(self, records: pa.Array, skip: int | Positions = 0) -> None:
        """Start ``skip`` bytes into each value of ``records``, a binary array without nulls."""
        self.restart(records, skip)

    def restart(self, records: pa.Array, skip: int | Positions = 0) -> None:
        """Start again with other records, as a new object would."""
        _, offsets, data = records.buffers()
        bounds = np.frombuffer(offsets or bytes(4), np.int32)[
            records.offset : records.offset + len(records) + 1
        ].astype(np.int64)
        start, end = int(bounds[0]), int(bounds[-1])
        self._over(np.frombuffer(data or b"", np.uint8)[start:end])
        self.pos: Positions = bounds[:-1] - start + skip
        self.end: Positions = bounds[1:] - start
        self.rows: Positions = np.arange(len(records))
        self.faults = Faults(len(records))
        self.depth = 0

    def _over(self, data: npt.NDArray[np.uint8]) -> None:
        self.data = np.concatenate((data, _PAD))
        self._words: Words = np.ndarray((len(self.data) - 7,), "<u8", self.data.data, 0, (1,))

    def __len__(self) -> int:
        return len(self.pos)

    def some(self, at: Positions | slice) -> Self:
        """Independent cursors at the positions of those selected by ``at``."""
        part = object.__new__(type(self))
        part.data, part._words, part.faults, part.depth = self.data, self._words, self.faults, self.depth
        part.pos, part.end, part.rows = self.pos[at].copy(), self.end[at], self.rows[at]
        return part

    def inside(self, start: Positions, end: Positions) -> Self:
        """Independent cursors over ``data[start:end]`` of each message."""
        part = self.some(slice(None))
        part.pos, part.end = start.copy(), end
        return part

    def within(self, owners: Positions, data: npt.NDArray[np.uint8], start: Positions, end: Positions) -> Self:
        """Cursors over ``data[start:end]``.  ``owners`` are their messages, in which several cursors may be."""
        part = self.some(owners)
        part._over(data)
        part.pos, part.end = start, end
        return part

    def fault(self, wrong: Mask, reason: str) -> None:
        """Mark the wrong messages, and move their cursors to the end."""
        if wrong.any():
            self.faults.mark(self.rows[wrong], reason)
            self.pos[wrong] = self.end[wrong]

    def too_deep(self) -> bool:
        """Go one level deeper.  Beyond the limit, mark all messages as wrong and return True."""
        self.depth += 1
        if self.depth <= MAX_DEPTH:
            return False
        self.fault(np.ones(len(self), np.bool_), DEEP)
        return True

    # --- values ------------------------------------------------------------------------------------------------------

    def byte(self) -> npt.NDArray[np.uint8]:
        """The next byte of each message; zero if there is none."""
        short = self.pos >= self.end
        value = self.data[self.pos]
        if short.any():
            value = np.where(short, 0, value).astype(np.uint8)
        self.pos += 1
        self._within(self.pos, TRUNCATED)
        return value

    def skip(self, size: int | Positions) -> Positions:
        """Skip ``size`` bytes, which must exist, and return the positions before."""
        start = self.pos
        self.pos = start + size
        if self._within(self.pos, TRUNCATED):
            start = np.minimum(start, self.pos)
        return start

    def words(self, start: Positions) -> Words:
        """The eight bytes at each position as a little-endian integer; bytes beyond the buffer are arbitrary."""
        return self._words[np.minimum(start, len(self._words) - 1)]

    def varint(self) -> Words:
        """The next base-128 integer of each message, least significant group first."""
        first = self.data[self.pos]
        if not (first >= 0x80).any():
            self.pos += 1
            self._within(self.pos, TRUNCATED)
            return first.astype(np.uint64)
        word = self._words[self.pos]
        value, size = _folded(word)
        if (long := size == 0).any():
            at = np.flatnonzero(long)
            value[at], size[at] = self._long(self.pos[at], word[at])
        start = self.pos
        self.pos = start + size
        # It is too long only if all ten bytes belong to this message and not to the next one.
        too_long = (size > 10) & (start + 10 <= self.end)
        self._within(np.where(too_long, self.end, self.pos), TRUNCATED)
        self.fault(too_long, LONG_VARINT)
        return value

    def _long(self, pos: Positions, word: Words) -> tuple[Words, Positions]:
        """Values and sizes of integers with nine or ten bytes; the size is 11 for longer ones."""
        low = word & _BITS
        for left, right, shift in _FOLDS:
            low = (low & left) | ((low & right) >> shift)
        ninth, tenth = self.data[pos + 8].astype(np.uint64), self.data[pos + 9].astype(np.uint64)
        value = low | ((ninth & np.uint64(0x7F)) << np.uint64(56))
        ten = ninth >= 0x80
        value |= np.where(ten, (tenth & _ONE) << np.uint64(63), np.uint64(0))
        size = np.where(ten, np.where(tenth <= 1, 10, 11), 9)
        return value, size

    def zigzag(self) -> Positions:
        """The next zigzag-encoded signed integer of each message."""
        return unzigzag(self.varint())

    def sized(self, length: Positions) -> tuple[Positions, Positions]:
        """The start and end of the next ``length`` bytes of each message, which are skipped."""
        wrong = (length < 0) | (length > self.end - self.pos)
        if wrong.any():
            self.fault(wrong, TRUNCATED)
            length = np.where(wrong, 0, length)
        start = self.pos
        self.pos = start + length
        return start, self.pos

    def _within(self, pos: Positions, reason: str) -> bool:
        beyond = pos > self.end
        if not beyond.any():
            return False
        self.fault(beyond, reason)
        return True

    # --- columns -----------------------------------------------------------------------------------------------------

    def cut(self, start: Positions, end: Positions) -> pa.Array:
        """``data[start:end]`` of each message as a binary array.  The positions must ascend."""
        size = len(start)
        bounds = np.empty(2 * size + 1, np.int32)
        bounds[0:-1:2], bounds[1::2] = start, end
        bounds[-1] = bounds[-2] if size else 0
        both = pa.Array.from_buffers(pa.binary(), 2 * size, [None, pa.py_buffer(bounds), pa.py_buffer(self.data)])
        return both.take(pa.array(np.arange(0, 2 * size, 2, dtype=np.int32)))

    def text(self, binary: pa.Array) -> pa.Array:
        """A binary array, one value per message, as strings.  A value that is not UTF-8 is a fault, and empty."""
        try:
            return binary.cast(pa.string())
        except pa.ArrowInvalid:
            values = binary.to_pylist()
            wrong = np.array([not _is_utf8(value) for value in values], np.bool_)
            self.fault(wrong, UTF8)
            return pa.array([b"" if bad else value for bad, value in zip(wrong, values, strict=True)]).cast(pa.string())

    def fixed(self, start: Positions, size: int) -> npt.NDArray[np.uint8]:
        """``size`` bytes from each position, as the rows of a matrix."""
        at = np.minimum(start[:, None] + np.arange(size), len(self.data) - 1)
        data: npt.NDArray[np.uint8] = self.data[at]
        return data


def _folded(word: Words) -> tuple[Words, Positions]:
    """The base-128 integers at the start of these words, and their sizes in bytes; zero if longer than eight."""
    stops = ~word & _STOPS
    lowest = stops & (~stops + _ONE)
    below = lowest - _ONE
    size = ((np.bitwise_count(below).astype(np.int64) + 1) >> 3) * (stops != 0)
    value = word & (below | lowest) & _BITS
    for left, right, shift in _FOLDS:
        value = (value & left) | ((value & right) >> shift)
    return value, size


def unzigzag(value: Words) -> Positions:
    """Undo the zigzag encoding: 0, 1, 2, 3 … become 0, -1, 1, -2 …"""
    sign: Words = (value & _ONE) * np.uint64(0xFFFFFFFFFFFFFFFF)
    return ((value >> _ONE) ^ sign).view(np.int64)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
