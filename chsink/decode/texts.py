"""String and FixedString.

Rules: a String keeps a JSON string's text, and any other JSON value as written.  ClickHouse strings are bytes, so their
wire type is binary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.codec import Codec, Converted, Reader, WireValue, numpy_of
from chsink.decode.types import FixedStringType
from chsink.decode.values import JsonValue, MisfitError, Number, Pairs, RawList, RawNeededError, kinds_of, parse_value


def is_text(source: pa.DataType) -> bool:
    """Whether an Arrow type holds byte strings."""
    tests = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
    return any(test(source) for test in tests)


def raw_text(value: JsonValue) -> str:
    """The JSON text of a value that is not a string, as written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Number):
        return str(value)
    raw = value.raw if isinstance(value, Pairs | RawList) else None
    if raw is None:
        raise RawNeededError
    return str(raw)


def encoded(text: str) -> bytes:
    """UTF-8 bytes of a JSON string."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise MisfitError("a string with an unpaired surrogate, which has no UTF-8 form") from None


class StringCodec(Codec):
    """``String``; its wire type is binary, because ClickHouse strings are bytes."""

    numbers_are_text = True

    def __init__(self) -> None:
        super().__init__("String", pa.binary())

    def exact(self, value: JsonValue) -> WireValue:
        """UTF-8 bytes of the string, or of the raw JSON text."""
        if isinstance(value, bytes):
            return value
        return encoded(value if isinstance(value, str) and not isinstance(value, Number) else raw_text(value))

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """Reads strings as strings; there is no reader for other kinds (they need the raw text)."""
        return Reader(pa.string(), self._from_text) if kinds_of(samples) <= {"string"} else None

    def accept(self, source: pa.DataType) -> Reader | None:
        """Any strings; integers and booleans as their JSON texts."""
        if is_text(source) or pa.types.is_fixed_size_binary(source):
            return Reader(source, self._from_text)
        if pa.types.is_integer(source) or pa.types.is_boolean(source):
            return Reader(source, lambda array: self._from_text(array.cast(pa.string())))
        return None

    def build_raw(self, texts: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
        """Parses strings; keeps the text of all other values."""
        reasons: dict[int, str] = {}
        out: list[bytes | None] = []
        for at, text in enumerate(texts):
            try:
                out.append(self.exact(parse_value(text)) if text[:1] == b'"' else raw_or_null(text))
            except MisfitError as misfit:
                reasons[at] = misfit.reason
                out.append(None)
        return self.array(out), reasons

    def _from_text(self, array: pa.Array) -> Converted:
        return array.cast(pa.binary()), None


def raw_or_null(text: bytes) -> bytes | None:
    """A raw JSON text; None if it is missing or null."""
    return None if text in (b"", b"null") else text


class FixedStringCodec(StringCodec):
    """``FixedString(N)``: at most N bytes; the server pads shorter ones with zero bytes."""

    def __init__(self, kind: FixedStringType) -> None:
        super().__init__()
        self.label = f"FixedString({kind.size})"
        self.size = kind.size

    def exact(self, value: JsonValue) -> WireValue:
        """At most N bytes."""
        data = super().exact(value)
        if len(data) > self.size:
            raise MisfitError(f"longer than {self.label}")
        return data

    def stored(self, value: WireValue) -> WireValue:
        """Without the zero bytes that the server would pad."""
        return value.rstrip(b"\0")

    def stored_array(self, array: pa.Array) -> pa.Array:
        """Without the zero bytes that the server would pad."""
        return pc.replace_substring_regex(array, r"\x00+$", "")

    def build_raw(self, texts: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
        """As for String, followed by a check of the length."""
        array, reasons = super().build_raw(texts)
        data = array.to_pylist()
        for at in np.flatnonzero(numpy_of(pc.binary_length(array)) > self.size).tolist():
            reasons[at] = f"longer than {self.label}"
            data[at] = None
        return self.array(data), reasons

    def _from_text(self, array: pa.Array) -> Converted:
        data = array.cast(pa.binary())
        long = numpy_of(pc.binary_length(data)) > self.size
        return data, long if long.any() else None
