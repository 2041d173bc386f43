"""UUID, IPv4, IPv6 and Enum.

Rules: chsink parses whatever the server would parse from text, and sends binary values, so that a wrong value is one
bad row and not a refused insert.  The server does not check the number of an Enum, so this module does.
"""

from __future__ import annotations

import re
import socket
import uuid
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.codec import (
    Codec,
    Converted,
    Reader,
    WireValue,
    by_distinct,
    from_buffer,
    mask_of,
    numpy_of,
    valid_of,
)
from chsink.decode.types import EnumType
from chsink.decode.values import JsonValue, MisfitError, Number, kinds_of


class UuidCodec(Codec):
    """``UUID`` as its 16 bytes; text with hyphens, or 32 hexadecimal digits."""

    def __init__(self) -> None:
        super().__init__("UUID", pa.binary(16))

    def exact(self, value: JsonValue) -> WireValue:
        """16 bytes, in text order."""
        if isinstance(value, Number) or not isinstance(value, str):
            raise self.misfit(value)
        if _UUID.fullmatch(value) is None:
            raise MisfitError("a string that is not a UUID")
        return uuid.UUID(value).bytes

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """Reads text; UUIDs with hyphens are all parsed at once."""
        del samples
        return Reader(pa.string(), self._from_text)

    def accept(self, source: pa.DataType) -> Reader | None:
        """Text, or 16 bytes."""
        if source == self.wire:
            return Reader(source, lambda array: (array, None))
        return Reader(source, self._from_text) if pa.types.is_string(source) else None

    def _from_text(self, array: pa.Array) -> Converted:
        valid = valid_of(array)
        filled = array.fill_null(_NIL)
        regular = numpy_of(pc.binary_length(filled)) == len(_NIL)
        if not regular.all():
            filled = pc.if_else(pa.array(regular), filled, pa.scalar(_NIL))
        start = np.frombuffer(filled.buffers()[1], np.int32)[filled.offset]
        size = len(filled) * len(_NIL)
        chars = np.frombuffer(filled.buffers()[2], np.uint8)[start : start + size].reshape(-1, len(_NIL))
        digits = _NIBBLE[chars[:, _HEX_AT]]
        bad = ~regular | (digits > 15).any(axis=1) | (chars[:, _HYPHEN_AT] != ord("-")).any(axis=1)
        bytes16 = (digits[:, 0::2] << 4) | (digits[:, 1::2] & 15)
        return from_buffer(self.wire, bytes16, valid & ~bad), bad & valid if bad.any() else None


_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-?)[0-9a-fA-F]{4}(\1[0-9a-fA-F]{4}){2}\1[0-9a-fA-F]{12}")
_NIL: Final = "00000000-0000-0000-0000-000000000000"
_HYPHEN_AT: Final = np.array([8, 13, 18, 23])
_HEX_AT: Final = np.array([at for at in range(36) if at not in (8, 13, 18, 23)])
_NIBBLE: Final = np.full(256, 255, np.uint8)
for _digit in "0123456789abcdefABCDEF":
    _NIBBLE[ord(_digit)] = int(_digit, 16)


_MAPPED: Final = bytes(10) + b"\xff\xff"


class IpCodec(Codec):
    """``IPv4`` as UInt32, ``IPv6`` as 16 bytes; an IPv4 address in an IPv6 column becomes the IPv4-mapped address."""

    def __init__(self, version: int) -> None:
        super().__init__(f"IPv{version}", pa.uint32() if version == 4 else pa.binary(16))
        self.version = version

    def exact(self, value: JsonValue) -> WireValue:
        """The address as a number (IPv4) or as bytes (IPv6)."""
        if isinstance(value, Number) or not isinstance(value, str):
            raise self.misfit(value)
        try:
            if self.version == 4:
                return int.from_bytes(socket.inet_pton(socket.AF_INET, value), "big")
            if ":" not in value:
                return _MAPPED + socket.inet_pton(socket.AF_INET, value)
            return socket.inet_pton(socket.AF_INET6, value)
        except (OSError, ValueError):
            raise MisfitError(f"a string that is not an {self.label} address") from None

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """Reads text, each distinct address once."""
        del samples
        return Reader(pa.string(), lambda texts: by_distinct(self, texts))

    def accept(self, source: pa.DataType) -> Reader | None:
        """Text, or the wire type itself."""
        if source == self.wire:
            return Reader(source, lambda array: (array, None))
        return Reader(source, lambda texts: by_distinct(self, texts)) if pa.types.is_string(source) else None


class EnumCodec(Codec):
    """``Enum8`` / ``Enum16``: a member's name, or its number. Checks the number, because the server does not."""

    def __init__(self, kind: EnumType) -> None:
        super().__init__(f"Enum{kind.bits}", pa.int8() if kind.bits == 8 else pa.int16())
        self.by_name = dict(kind.members)
        self.numbers = frozenset(self.by_name.values())

    def exact(self, value: JsonValue) -> WireValue:
        """The member's number."""
        if isinstance(value, Number):
            number = int(value) if value.integral_text and len(value) < 9 else None
            if number not in self.numbers:
                raise MisfitError(f"a number that is not a member of {self.label}")
            return number
        if not isinstance(value, str):
            raise self.misfit(value)
        if value not in self.by_name:
            raise MisfitError(f"a string that is not a member of {self.label}")
        return self.by_name[value]

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """Reads names, or numbers."""
        kinds = kinds_of(samples)
        if kinds <= {"string"}:
            return Reader(pa.string(), self._from_names)
        return Reader(self.wire, self._from_numbers) if kinds <= {"int"} else None

    def accept(self, source: pa.DataType) -> Reader | None:
        """Names, or numbers of the wire's width."""
        if pa.types.is_string(source):
            return Reader(source, self._from_names)
        return Reader(source, self._from_numbers) if source == self.wire else None

    def _from_names(self, array: pa.Array) -> Converted:
        at = pc.index_in(array, pa.array(list(self.by_name), pa.string()))
        numbers = pa.array(list(self.by_name.values()), self.wire).take(at)
        bad = valid_of(array) & ~valid_of(at)
        return numbers, bad if bad.any() else None

    def _from_numbers(self, array: pa.Array) -> Converted:
        known = mask_of(pc.is_in(array, pa.array(sorted(self.numbers), self.wire)))
        bad = valid_of(array) & ~known
        return array, bad if bad.any() else None
