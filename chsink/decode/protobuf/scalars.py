"""The types of Protobuf fields that are not messages.

Rules: an integer that does not fit its type is a fault, although Protobuf's own libraries truncate it; an enum becomes
its value's name, or the number as text if the enum is open and the number has no name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.binary import Cursors
from chsink.decode.codec import from_buffer

VARINT: Final = 0
FIXED64: Final = 1
SIZED: Final = 2
FIXED32: Final = 5
NO_NAME: Final = "an enum's number without a name"


class ProtoType:
    """A Protobuf type: reads the next value of every cursor, which is behind the field's tag.

    ``wire`` is the wire type.  ``default`` is an array with one element: the value of a missing field without presence.
    """

    wire: int
    _default: pa.Array

    @property
    def default(self) -> pa.Array:
        """An array with the default."""
        return self._default

    def read(self, c: Cursors) -> pa.Array:
        """The next value of every cursor. A wrong message is marked as a fault; its value is arbitrary."""
        raise NotImplementedError


class ProtoInteger(ProtoType):
    """A base-128 integer of ``bits``, ``signed`` or not, ``zigzag`` or not."""

    wire = VARINT

    def __init__(self, bits: int, *, signed: bool, zigzag: bool = False) -> None:
        name = f"{'' if signed else 'u'}int{bits}"
        self._arrow = pa.type_for_alias(name)
        self._default = pa.array([0], self._arrow)
        self._bits, self._signed, self._zigzag, self._dtype = bits, signed, zigzag, np.dtype(name)

    def read(self, c: Cursors) -> pa.Array:
        """Integers."""
        value: Any = c.zigzag() if self._zigzag else c.varint()
        if self._signed:
            value = value.view(np.int64)
        if self._bits == 32:
            narrow = value.astype(self._dtype)
            c.fault(narrow.astype(value.dtype) != value, "an integer of more than 32 bits in a field of 32")
            value = narrow
        return from_buffer(self._arrow, value, None)


class ProtoBoolean(ProtoType):
    """A base-128 integer; every number except zero is true."""

    wire = VARINT
    _default = pa.array([False])

    def read(self, c: Cursors) -> pa.Array:
        """Booleans."""
        return pa.array(c.varint() != 0)


class ProtoEnum(ProtoType):
    """The number of a named value."""

    wire = VARINT

    def __init__(self, names: Mapping[int, str], default: int, *, closed: bool) -> None:
        self._numbers = np.array(sorted(names), np.int64)
        self._names = pa.array([names[number] for number in sorted(names)], pa.string())
        self._closed = closed
        self._default = pa.array([names[default]], pa.string())

    def read(self, c: Cursors) -> pa.Array:
        """Names."""
        value = c.varint().view(np.int64)
        at = np.minimum(np.searchsorted(self._numbers, value), len(self._numbers) - 1)
        unnamed = self._numbers[at] != value
        names = self._names.take(pa.array(at))
        if not unnamed.any():
            return names
        c.fault(unnamed if self._closed else value != value.astype(np.int32), NO_NAME)
        return pc.if_else(pa.array(unnamed), pa.array(value).cast(pa.string()), names)


class ProtoFixed(ProtoType):
    """Four or eight bytes, least significant first: an integer or a float."""

    def __init__(self, arrow: pa.DataType) -> None:
        self._arrow = arrow
        self._size = arrow.bit_width // 8
        self.wire = FIXED32 if self._size == 4 else FIXED64
        self._default = pa.array([0], arrow)

    def read(self, c: Cursors) -> pa.Array:
        """Numbers."""
        return from_buffer(self._arrow, c.words(c.skip(self._size)).astype(f"<u{self._size}"), None)


class ProtoBytes(ProtoType):
    """A length, then as many bytes."""

    wire = SIZED
    _default = pa.array([b""])

    def read(self, c: Cursors) -> pa.Array:
        """Byte strings."""
        return c.cut(*c.sized(c.varint().view(np.int64)))


class ProtoString(ProtoBytes):
    """Bytes that are UTF-8."""

    _default = pa.array([""])

    def read(self, c: Cursors) -> pa.Array:
        """Strings."""
        return c.text(super().read(c))
