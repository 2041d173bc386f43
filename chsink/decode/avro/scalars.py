"""Avro's primitive types, fixed and enum, and the logical types over them.

A logical type that is unknown, or invalid for its type, is ignored, as Avro's specification requires.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.binary import Cursors, Positions
from chsink.decode.codec import from_buffer, mask_of

DAY_MS: Final = 86_400_000
INT32: Final = (-(2**31), 2**31 - 1, "an int of more than 32 bits")
INT64: Final = (-(2**63), 2**63 - 1, "")
_DIGITS_MAX: Final = 76
_WIDE: Final = Context(prec=200)
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_HYPHENS: Final = (8, 13, 18, 23)
_DIGITS_AT: Final = np.array([at for at in range(36) if at not in _HYPHENS])
Limits = tuple[int, int, str]


class AvroType:
    """An Avro type: reads or skips the next value of every cursor. :meth:`read` returns an array of type ``arrow``."""

    _arrow: pa.DataType

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type."""
        return self._arrow

    def read(self, c: Cursors) -> pa.Array:
        """The next value of every cursor, as an array. A wrong message is marked as a fault; its value is arbitrary."""
        raise NotImplementedError

    def skip(self, c: Cursors) -> None:
        """Move every cursor behind its next value."""
        raise NotImplementedError


class AvroNull(AvroType):
    """No bytes."""

    _arrow = pa.null()

    def read(self, c: Cursors) -> pa.Array:
        """Nulls."""
        return pa.nulls(len(c))

    def skip(self, c: Cursors) -> None:
        """No cursor moves."""


class AvroBoolean(AvroType):
    """One byte, 0 or 1."""

    _arrow = pa.bool_()

    def read(self, c: Cursors) -> pa.Array:
        """Booleans."""
        value = c.byte()
        c.fault(value > 1, "a boolean that is neither 0 nor 1")
        return pa.array(value == 1)

    def skip(self, c: Cursors) -> None:
        """Skip one byte."""
        c.skip(1)


class AvroInteger(AvroType):
    """``int`` and ``long``, and logical types over them: integers within ``limits``, stored as values of ``arrow``."""

    def __init__(self, arrow: pa.DataType, limits: Limits) -> None:
        self._arrow = arrow
        self._low, self._high, self._reason = limits
        self._dtype = np.dtype(f"i{arrow.bit_width // 8}")

    def read(self, c: Cursors) -> pa.Array:
        """Integers, dates, times or timestamps."""
        value = c.zigzag()
        if self._reason:
            wrong = (value < self._low) | (value > self._high)
            if wrong.any():
                c.fault(wrong, self._reason)
                value = np.where(wrong, 0, value)
        return from_buffer(self.arrow, value.astype(self._dtype, copy=False), None)

    def skip(self, c: Cursors) -> None:
        """Skip one integer."""
        c.varint()


class AvroFloat(AvroType):
    """``float`` (4 bytes) and ``double`` (8)."""

    def __init__(self, size: int) -> None:
        self._arrow = pa.float32() if size == 4 else pa.float64()
        self._size = size

    def read(self, c: Cursors) -> pa.Array:
        """Floats."""
        words = c.words(c.skip(self._size))
        return from_buffer(self.arrow, words.astype(f"<u{self._size}"), None)

    def skip(self, c: Cursors) -> None:
        """Skip its bytes."""
        c.skip(self._size)


class AvroBytes(AvroType):
    """``bytes``: a length, then as many bytes."""

    _arrow = pa.binary()

    def read(self, c: Cursors) -> pa.Array:
        """Byte strings."""
        return c.cut(*c.sized(c.zigzag()))

    def skip(self, c: Cursors) -> None:
        """Skip its bytes."""
        c.sized(c.zigzag())


class AvroString(AvroBytes):
    """``string``: bytes that are UTF-8."""

    _arrow = pa.string()

    def read(self, c: Cursors) -> pa.Array:
        """Strings."""
        return c.text(super().read(c))


class AvroFixed(AvroType):
    """``fixed``: ``size`` bytes."""

    def __init__(self, size: int) -> None:
        self._arrow = pa.binary(size)
        self.size = size

    def read(self, c: Cursors) -> pa.Array:
        """Byte strings of one size."""
        return from_buffer(self.arrow, c.fixed(c.skip(self.size), self.size), None)

    def skip(self, c: Cursors) -> None:
        """Skip its bytes."""
        c.skip(self.size)


class AvroUuid(AvroFixed):
    """``uuid`` over ``fixed``: the text that ``uuid`` over ``string`` has."""

    def __init__(self) -> None:
        super().__init__(16)
        self._arrow = pa.string()

    def read(self, c: Cursors) -> pa.Array:
        """Texts with hyphens."""
        data = c.fixed(c.skip(16), 16)
        text = np.full((len(c), 36), ord("-"), np.uint8)
        text[:, _DIGITS_AT[0::2]] = _HEX[data >> 4]
        text[:, _DIGITS_AT[1::2]] = _HEX[data & 15]
        bounds = np.arange(len(c) + 1, dtype=np.int32) * 36
        return pa.Array.from_buffers(pa.string(), len(c), [None, pa.py_buffer(bounds), pa.py_buffer(text)])


class AvroDecimal(AvroType):
    """``decimal`` over ``bytes`` or ``fixed``: an integer, most significant byte first, times 10^-scale."""

    def __init__(self, raw: AvroBytes | AvroFixed, precision: int, scale: int) -> None:
        self._raw = raw
        self._width = 16 if precision <= 38 else 32
        wire = pa.decimal128 if self._width == 16 else pa.decimal256
        precision = min(precision, _DIGITS_MAX)
        self._arrow = wire(precision, scale)
        digits = Decimal("9" * precision).scaleb(-scale, _WIDE)
        self._limit = pa.scalar(digits, self.arrow)

    def read(self, c: Cursors) -> pa.Array:
        """Decimals."""
        if isinstance(self._raw, AvroFixed):
            start = c.skip(self._raw.size)
            end = np.minimum(start + self._raw.size, c.end)
        else:
            start, end = c.sized(c.zigzag())
        c.fault(start == end, "a decimal without digits")
        beyond = end - start > self._width
        value = from_buffer(self.arrow, self._integers(c, np.where(beyond, end - 1, start), end), None)
        inside = pc.and_(pc.less_equal(value, self._limit), pc.greater_equal(value, pc.negate(self._limit)))
        beyond |= ~mask_of(inside)
        c.fault(beyond, "a decimal with more digits than its schema allows")
        return pc.if_else(pa.array(beyond), pa.scalar(None, self.arrow), value) if beyond.any() else value

    def _integers(self, c: Cursors, start: Positions, end: Positions) -> npt.NDArray[np.uint8]:
        """The integers, least significant byte first, in the width of the Arrow type."""
        negative = (c.data[start] >= 0x80) & (start < end)
        at = end[:, None] - 1 - np.arange(self._width)
        sign = np.where(negative, 0xFF, 0).astype(np.uint8)[:, None]
        return np.where(at >= start[:, None], c.data[np.maximum(at, 0)], sign)

    def skip(self, c: Cursors) -> None:
        """Skip the underlying bytes."""
        self._raw.skip(c)


class AvroEnum(AvroType):
    """``enum``: the number of a symbol."""

    _arrow = pa.string()

    def __init__(self, symbols: Sequence[str]) -> None:
        self._symbols = pa.array(list(symbols), pa.string())

    def read(self, c: Cursors) -> pa.Array:
        """Symbols."""
        value = c.zigzag()
        wrong = (value < 0) | (value >= len(self._symbols))
        if wrong.any():
            c.fault(wrong, "an enum's number without a symbol")
            return self._symbols.take(pa.array(np.where(wrong, 0, value), mask=wrong))
        return self._symbols.take(pa.array(value))

    def skip(self, c: Cursors) -> None:
        """Skip one integer."""
        c.varint()
