"""Dates and times given as whole numbers of a configured unit since 1970, or since midnight, also in quotes: JSON of
Protobuf, and so OpenTelemetry's, quotes 64-bit integers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.codec import Codec, Converted, Reader, WireValue
from chsink.decode.numbers import split_number
from chsink.decode.times import EXPONENT_MAX, DateCodec, InstantCodec, TimeCodec, shifted
from chsink.decode.values import JsonValue, MisfitError, Number, kinds_of
from chsink.decode.wrapping_codecs import OuterCodec

DIGITS: Final = {"seconds": 0, "millis": 3, "micros": 6, "nanos": 9}
_WHOLE: Final = re.compile(r"-?[0-9]+", re.ASCII)
ARROW: Final = {"seconds": "s", "millis": "ms", "micros": "us", "nanos": "ns"}


def with_unit(codec: Codec, unit: str) -> EpochCodec | None:
    """The codec with numbers in ``unit``; None if the unit does not fit: dates take days, times the other units."""
    if isinstance(codec, DateCodec):
        return EpochCodec(codec, unit) if unit == "days" else None
    return EpochCodec(codec, unit) if isinstance(codec, InstantCodec | TimeCodec) and unit != "days" else None


class EpochCodec(OuterCodec):
    """Reads numbers as counts of ``unit``, and leaves all other values to ``inner``."""

    inner: DateCodec | InstantCodec | TimeCodec

    def __init__(self, inner: DateCodec | InstantCodec | TimeCodec, unit: str) -> None:
        super().__init__(inner)
        self.unit = unit
        self._digits = 0 if isinstance(inner, DateCodec) else inner.precision - DIGITS[unit]

    def exact(self, value: JsonValue) -> WireValue:
        """The value in the form of ``inner``."""
        if not isinstance(value, str) or not (isinstance(value, Number) or _WHOLE.fullmatch(value)):
            return self.inner.exact(value)
        digits, exponent = split_number(value) or (1, EXPONENT_MAX + 1)
        return self.inner.from_ticks(shifted(digits, exponent + self._digits, self.label))

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """Integers by way of Arrow's type for the unit, quoted ones too; other text by the reader of ``inner``."""
        kinds = kinds_of(samples)
        quoted = kinds == {"string"} and all(isinstance(one, str) and _WHOLE.fullmatch(one) for one in samples)
        if kinds != {"int"} and not quoted:
            return self.inner.reader(samples) if kinds == {"string"} else None
        through = self._through()
        other = self.inner.accept(through)
        if other is None:
            return None

        def convert(array: pa.Array) -> Converted:
            counted = array.cast(pa.int32()) if through.bit_width == 32 else array
            return other.convert(counted.view(through))

        def convert_text(array: pa.Array) -> Converted:
            if not pc.all(pc.match_substring_regex(array, f"^{_WHOLE.pattern}$")).as_py():
                raise MisfitError("not whole numbers")
            return convert(array.cast(pa.int64()))

        return Reader(pa.string(), convert_text) if quoted else Reader(pa.int64(), convert)

    def _through(self) -> pa.DataType:
        """Arrow's type for the unit."""
        if self.unit == "days":
            return pa.date32()
        arrow = ARROW[self.unit]
        if isinstance(self.inner, TimeCodec):
            return pa.time32(arrow) if arrow in ("s", "ms") else pa.time64(arrow)
        return pa.timestamp(arrow, "UTC")
