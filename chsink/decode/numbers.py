"""Integers, floats, decimals and Bool.

Rules: an integer or decimal is exact or refused; an integral number (``1.0``, ``1e2``) is an integer; a quoted number
equals the number; a float is rounded to the nearest value of its width, and overflow is refused; booleans are not
numbers.  The strings in :data:`_WORDS` are floats, as ClickHouse, Jackson and JavaScript write them.  BFloat16 is sent
as Float32, and the server truncates it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Context, Decimal
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
from chsink.decode.types import DecimalType, FloatType, IntType
from chsink.decode.values import JsonValue, MisfitError, Number, kinds_of

# A quoted number: JSON's grammar, and ClickHouse's extensions: a plus sign, leading zeros, a bare point.
_QUOTED: Final = re.compile(r"([-+]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([-+]?[0-9]{1,9}))?", re.ASCII)
_PLAIN_INT: Final = r"^-?[0-9]+$"
_PLAIN_NUMBER: Final = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,9})?$"
_WORDS: Final = frozenset({"nan", "inf", "-inf", "NaN", "Infinity", "-Infinity"})
_NO_NUMBER: Final = "a string that is not a number in "
_HUGE: Final = 10**9
_DIGITS_MAX: Final = 80  # beyond any ClickHouse number: 2^256 has 78 digits


def split_number(text: str) -> tuple[int, int] | None:
    """``(digits, exponent)`` with the number = digits · 10^exponent and no trailing zero; None if the text is not a
    number.

    More than :data:`_DIGITS_MAX` digits fit no type: the result then has an exponent that is too large or too small.
    """
    found = _QUOTED.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        return None
    fraction = found[3] or ""
    digits = (found[2] + fraction).lstrip("0")
    exponent = int(found[4] or 0) - len(fraction)
    kept = digits.rstrip("0")
    if not kept:
        return 0, 0
    exponent += len(digits) - len(kept)
    if len(kept) > _DIGITS_MAX:
        return 1, _HUGE if exponent >= 0 else -_HUGE
    return int(found[1] + kept), exponent


def _split(codec: Codec, value: str) -> tuple[int, int]:
    split = split_number(value)
    if split is None:
        raise codec.out_of_range() if isinstance(value, Number) else MisfitError(_NO_NUMBER + codec.label)
    return split


class IntCodec(Codec):
    """``Int8`` … ``UInt256``: Arrow integers up to 64 bits, little-endian bytes beyond."""

    numbers_are_text = True

    def __init__(self, kind: IntType) -> None:
        name = f"{'' if kind.signed else 'U'}Int{kind.bits}"
        native = None if kind.bits > 64 else pa.type_for_alias(name.lower())
        super().__init__(name, native or pa.binary(kind.bits // 8))
        self.kind = kind
        self.native = native is not None

    def exact(self, value: JsonValue) -> WireValue:
        """Python int, or its bytes for the wide types."""
        if isinstance(value, bool) or not isinstance(value, str):
            raise self.misfit(value)
        digits, exponent = _split(self, value)
        if exponent < 0:
            raise MisfitError(f"a number with a fraction in {self.label}")
        if exponent > _DIGITS_MAX:
            raise self.out_of_range()
        number = digits * 10**exponent
        if not self.kind.low <= number <= self.kind.high:
            raise self.out_of_range()
        return number if self.native else number.to_bytes(self.kind.bits // 8, "little", signed=self.kind.signed)

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """Reads integers as integers, numbers like ``1.0`` as decimals, quoted numbers as text."""
        kinds = kinds_of(samples)
        if not self.native:
            return Reader(pa.decimal256(76, 0), self._from_wide) if kinds <= {"int", "string"} else None
        if kinds <= {"int"}:
            return Reader(self.wire, _unchanged)
        if kinds == {"string"}:
            return Reader(pa.string(), self._from_text)
        if kinds <= {"int", "frac"}:
            return Reader(pa.decimal128(28, 9), lambda array: (array.cast(self.wire), None))
        return None

    def accept(self, source: pa.DataType) -> Reader | None:
        """Integers, with a check of their range; text, as quoted numbers."""
        if pa.types.is_integer(source):
            wide = pa.decimal256(76, 0)
            return Reader(source, self._from_integers if self.native else lambda a: self._from_wide(a.cast(wide)))
        if pa.types.is_string(source):
            return Reader(source, self._from_text)
        return None

    def _from_integers(self, array: pa.Array) -> Converted:
        try:
            return array.cast(self.wire), None
        except pa.ArrowInvalid:
            fits = pc.and_(*(self._bound(array, bound) for bound in (self.kind.low, self.kind.high)))
            kept = pc.if_else(fits, array, pa.scalar(None, array.type))
            return kept.cast(self.wire), ~mask_of(fits) & valid_of(array)

    def _bound(self, array: pa.Array, bound: int) -> pa.Array:
        inside = IntType(array.type.bit_width, pa.types.is_signed_integer(array.type))
        clamped = pa.scalar(min(max(bound, inside.low), inside.high), array.type)
        return pc.less_equal(array, clamped) if bound > 0 else pc.greater_equal(array, clamped)

    def _from_text(self, array: pa.Array) -> Converted:
        if not self.native:
            return by_distinct(self, array)
        if not pc.all(pc.match_substring_regex(array, _PLAIN_INT)).as_py() and array.null_count < len(array):
            raise MisfitError("not plain integers")
        return array.cast(self.wire), None

    def _from_wide(self, array: pa.Array) -> Converted:
        """Converts decimal256, whose 32 bytes are already the two's complement."""
        words = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 4)[array.offset : array.offset + len(array)]
        width = self.kind.bits // 64
        valid = valid_of(array)
        sign = words[:, 3] >> 63
        bad = (sign != 0) if not self.kind.signed else np.zeros(len(array), np.bool_)
        if width == 2:
            fill = words[:, 1] >> 63 if self.kind.signed else np.zeros(len(array), np.int64)
            bad |= (words[:, 2] != fill) | (words[:, 3] != fill)
        return from_buffer(self.wire, words[:, :width], valid), bad & valid


class FloatCodec(Codec):
    """``BFloat16`` and ``Float32`` as float32, ``Float64`` as float64."""

    numbers_are_text = True

    def __init__(self, kind: FloatType) -> None:
        super().__init__("BFloat16" if kind.bits == 16 else f"Float{kind.bits}", _FLOAT_WIRE[kind.bits])

    def exact(self, value: JsonValue) -> WireValue:
        """The nearest NumPy float of the wire's width, rounded only once, from the text."""
        if isinstance(value, bool) or not isinstance(value, str):
            raise self.misfit(value)
        if not isinstance(value, Number):
            if value in _WORDS:
                return float(value)
            _split(self, value)
        nearest = pa.scalar(str(value)).cast(self.wire).as_py()
        if nearest in (float("inf"), float("-inf")):
            raise self.out_of_range()
        return nearest

    def stored(self, value: WireValue) -> WireValue:
        """All NaN are alike, and so are the zeros."""
        return None if math.isnan(value) else value

    def stored_array(self, array: pa.Array) -> pa.Array:
        """The zeros are alike."""
        return pc.add(array, pa.scalar(0.0, array.type))

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """Reads numbers as floats, quoted numbers as text."""
        kinds = kinds_of(samples)
        if kinds <= {"int", "frac"}:
            return Reader(self.wire, self._finite)
        return Reader(pa.string(), self._from_text) if kinds == {"string"} else None

    def accept(self, source: pa.DataType) -> Reader | None:
        """Floats (NaN and infinities too) and integers, rounded to the nearest; text, as quoted numbers."""
        if pa.types.is_floating(source) or pa.types.is_integer(source):
            return Reader(source, self._from_numbers)
        return Reader(source, self._from_text) if pa.types.is_string(source) else None

    def _finite(self, array: pa.Array) -> Converted:
        suspects = ~np.isfinite(numpy_of(array))
        return array, suspects if suspects.any() else None

    def _from_numbers(self, array: pa.Array) -> Converted:
        result = array.cast(self.wire, safe=False)
        overflow = np.isinf(numpy_of(result)) & ~np.isinf(numpy_of(array).astype(np.float64))
        return result, overflow if overflow.any() else None

    def _from_text(self, array: pa.Array) -> Converted:
        number = mask_of(pc.match_substring_regex(array, _PLAIN_NUMBER))
        if not (number | ~valid_of(array)).all():
            raise MisfitError("not plain numbers")
        return self._finite(array.cast(self.wire))


_FLOAT_WIRE: Final = {16: pa.float32(), 32: pa.float32(), 64: pa.float64()}


_WIDE: Final = Context(prec=200)


class DecimalCodec(Codec):
    """``Decimal(P, S)`` as decimal128 up to 38 digits, decimal256 beyond."""

    def __init__(self, kind: DecimalType) -> None:
        wire = pa.decimal128 if kind.precision <= 38 else pa.decimal256
        super().__init__(f"Decimal({kind.precision}, {kind.scale})", wire(kind.precision, kind.scale))
        self.kind = kind
        self.limit = pa.scalar(Decimal("9" * kind.precision).scaleb(-kind.scale, _WIDE), self.wire)

    def exact(self, value: JsonValue) -> WireValue:
        """Python Decimal with exactly this value."""
        if isinstance(value, bool) or not isinstance(value, str):
            raise self.misfit(value)
        digits, exponent = _split(self, value)
        if exponent < -self.kind.scale:
            raise MisfitError(f"more digits after the point than {self.label} holds")
        if exponent > _DIGITS_MAX or abs(digits) * 10 ** (exponent + self.kind.scale) >= 10**self.kind.precision:
            raise self.out_of_range()
        return Decimal(digits).scaleb(exponent, _WIDE)

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """Reads numbers and quoted numbers alike, if the parser's type is wide enough.

        Arrow scales a number by 10^scale without detecting overflow, so its type must hold precision + scale digits.
        """
        digits = self.kind.precision + self.kind.scale
        if digits > 76 or not kinds_of(samples) <= {"int", "frac", "string"}:
            return None
        roomy = pa.decimal128 if digits <= 38 else pa.decimal256
        return Reader(roomy(self.kind.precision, self.kind.scale), self._in_range)

    def accept(self, source: pa.DataType) -> Reader | None:
        """Decimals and integers that need no rounding, and plain numbers in text; the reference converts all others."""
        if pa.types.is_string(source):
            return Reader(source, self._from_text)
        if pa.types.is_integer(source):
            source_digits = 20
        elif pa.types.is_decimal(source):
            source_digits = source.precision - source.scale
        else:
            return None
        if source_digits + self.kind.scale > 76:
            return None
        roomy = pa.decimal256(76, self.kind.scale)
        return Reader(source, lambda array: self._in_range(array.cast(roomy)))

    def _from_text(self, texts: pa.Array) -> Converted:
        """Converts numbers with at most as many digits before and after the point as the type; others are suspect."""
        before, scale = self.kind.precision - self.kind.scale, self.kind.scale
        whole = f"[0-9]{{1,{before}}}" if before else "0"
        plain = pc.match_substring_regex(texts, f"^-?{whole}(\\.[0-9]{{1,{scale}}})?$" if scale else f"^-?{whole}$")
        if pc.all(plain, min_count=0).as_py():
            return texts.cast(self.wire), None
        kept = pc.if_else(plain, texts, pa.scalar(None, pa.string()))
        return kept.cast(self.wire), ~mask_of(plain) & valid_of(texts)

    def _in_range(self, array: pa.Array) -> Converted:
        limit = self.limit.cast(array.type)
        inside = pc.and_(pc.less_equal(array, limit), pc.greater_equal(array, pc.negate(limit)))
        bad = ~mask_of(inside) & valid_of(array)
        if not bad.any():
            return array.cast(self.wire), None
        return pc.if_else(pa.array(~bad), array, pa.scalar(None, array.type)).cast(self.wire), bad


class BoolCodec(Codec):
    """``Bool``: true and false, the numbers 1 and 0, the strings ``"true"`` and ``"false"``."""

    def __init__(self) -> None:
        super().__init__("Bool", pa.bool_())

    def exact(self, value: JsonValue) -> WireValue:
        """Python bool."""
        if isinstance(value, bool):
            return value
        if isinstance(value, Number):
            split = split_number(value)
            if split not in ((0, 0), (1, 0)):
                raise MisfitError(f"a number other than 0 and 1 in {self.label}")
            return split == (1, 0)
        if not isinstance(value, str):
            raise self.misfit(value)
        if value not in ("true", "false"):
            raise MisfitError(f"a string other than true and false in {self.label}")
        return value == "true"

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """Reads the kind of value in the samples: booleans, 0 and 1, or words."""
        kinds = kinds_of(samples)
        if kinds <= {"bool"}:
            return Reader(self.wire, _unchanged)
        if kinds <= {"int"}:
            return Reader(pa.int8(), self._from_integers)
        return Reader(pa.string(), lambda texts: by_distinct(self, texts)) if kinds == {"string"} else None

    def accept(self, source: pa.DataType) -> Reader | None:
        """Booleans, and integers that are 0 or 1."""
        if pa.types.is_boolean(source):
            return Reader(source, _unchanged)
        return Reader(source, self._from_integers) if pa.types.is_integer(source) else None

    def _from_integers(self, array: pa.Array) -> Converted:
        numbers = numpy_of(array)
        bad = (numbers != 0) & (numbers != 1)
        return pc.equal(array, 1), bad if bad.any() else None


def _unchanged(array: pa.Array) -> Converted:
    return array, None
