"""The texts of JSON numbers as numbers: all of a column at once.

Most columns hold only digits, with a minus before or a point between them, which is seen from the bytes.  A regular
expression decides all others, one text at a time.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.codec import Mask, Suspects, from_buffer, mask_of, numpy_of, valid_of
from chsink.decode.prefilter import first_bytes, window

_INTEGER: Final = r"^-?(0|[1-9][0-9]*)$"
_NUMBER: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$"
_SHORT: Final = 18
"""Digits of a whole number that Int64 holds, sign included."""


def numbers_of(texts: pa.Array, kind: pa.DataType | None) -> tuple[pa.Array, Suspects]:
    """The texts as numbers of this kind (None: as they are); and those that JSON forbids, or that the kind does not
    hold, which are null.
    """
    points = _points(texts)
    bad: Suspects = None
    if points is None or not _holds(kind, texts, points):
        right = pc.match_substring_regex(texts, _pattern(kind))
        points = None
        if not pc.all(right, min_count=0).as_py():
            bad = ~mask_of(right.fill_null(True))
            texts = pc.if_else(right, texts, None)
    if kind is None:
        return texts, bad
    if pa.types.is_integer(kind):
        return _integers(texts, kind, bad)
    if points is not None and pa.types.is_decimal128(kind) and kind.precision <= _SHORT:
        return _decimals(texts, kind, points), bad
    return texts.cast(kind), bad


def _points(texts: pa.Array) -> npt.NDArray[np.int32] | None:
    """Where in the bytes each number's point is, or its end if it has none; None if there is any number of another
    form: with an exponent, a needless zero, or no digit where one must be.
    """
    offsets, data = window(texts)
    starts, ends = offsets[:-1], offsets[1:]
    if not len(data) or (valid_of(texts) & (starts == ends)).any():
        return None
    other = (data - np.uint8(ord("0"))) > 9
    minus = (first_bytes(offsets, data) == ord("-")) & (starts < ends)
    if minus.any():
        other[starts[minus]] = False
        starts = starts + minus
    points = ends.copy()
    at = np.flatnonzero(other)
    if len(at):
        before = np.concatenate(([0], np.cumsum(other, dtype=np.int32)))
        first, last = before[offsets[:-1]], before[ends]
        if (data[at] != ord(".")).any() or (last - first > 1).any():
            return None
        points[last > first] = at
    zero = data[np.minimum(starts, len(data) - 1)] == ord("0")
    right = (points > starts) & (points != ends - 1) & (~zero | (points == starts + 1))
    return points if (right | (offsets[:-1] == ends)).all() else None


def _holds(kind: pa.DataType | None, texts: pa.Array, points: npt.NDArray[np.int32]) -> bool:
    """Whether numbers of this form are numbers of the kind; an integer may still be too large."""
    offsets, _ = window(texts)
    if isinstance(kind, pa.Decimal128Type | pa.Decimal256Type):
        before, behind = points - offsets[:-1], offsets[1:] - points - 1
        return int(before.max()) <= kind.precision - kind.scale and int(behind.max()) <= kind.scale
    return kind is None or not pa.types.is_integer(kind) or bool((points == offsets[1:]).all())


def _pattern(kind: pa.DataType | None) -> str:
    if isinstance(kind, pa.Decimal128Type | pa.Decimal256Type):
        before, scale = kind.precision - kind.scale, kind.scale
        whole = f"(0|[1-9][0-9]{{0,{before - 1}}})" if before else "0"
        return f"^-?{whole}(\\.[0-9]{{1,{scale}}})?$" if scale else f"^-?{whole}$"
    return _INTEGER if kind is not None and pa.types.is_integer(kind) else _NUMBER


def _integers(texts: pa.Array, kind: pa.DataType, bad: Suspects) -> tuple[pa.Array, Suspects]:
    """Whole numbers.  If the kind does not hold some, those with many digits are taken for such."""
    try:
        return texts.cast(kind), bad
    except pa.ArrowInvalid:
        short = mask_of(pc.less_equal(pc.binary_length(texts), _SHORT).fill_null(True))
        numbers = pc.if_else(pa.array(short), texts, None).cast(pa.int64())
    signed, values = pa.types.is_signed_integer(kind), numpy_of(numbers)
    low, high = (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1) if signed else (0, 2**kind.bit_width - 1)
    wrong: Mask = ~short | (values < low) | (values > min(high, 2**63 - 1))
    return pc.if_else(pa.array(~wrong), numbers, None).cast(kind), wrong if bad is None else bad | wrong


def _decimals(texts: pa.Array, kind: pa.Decimal128Type, points: npt.NDArray[np.int32]) -> pa.Array:
    """Numbers that the kind holds, of at most 18 digits.  If all have as many digits behind the point as it has, they
    are whole numbers once the points are gone.
    """
    offsets, data = window(texts)
    ends = offsets[1:]
    given = offsets[:-1] != ends
    if not kind.scale or not (given <= (ends - points - 1 == kind.scale)).all():
        return texts.cast(kind)
    kept = np.ones(len(data), np.bool_)
    kept[points[given]] = False
    cut = np.concatenate((offsets[:1], ends - np.cumsum(given, dtype=np.int32)))
    buffers = [None, pa.py_buffer(cut), pa.py_buffer(data[kept])]
    digits = pa.Array.from_buffers(pa.string(), len(texts), buffers)
    valid = valid_of(texts)
    if not valid.all():
        digits = pc.if_else(pa.array(valid), digits, None)
    words = np.empty((len(texts), 2), np.int64)
    words[:, 0] = numpy_of(digits.cast(pa.int64()))
    words[:, 1] = words[:, 0] >> 63
    return from_buffer(kind, words, valid)
