"""Converts a column of texts that its reader refuses as a whole, by finding the texts that cause the refusal.

Texts that differ only in their digits have the same shape, and one text of each shape is tried.  If few rows have a
refused shape, the others are converted at once; otherwise the reference converts each text.  So the shapes only affect
the speed, never the result.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.codec import Codec, Converted, Mask, Reader, Suspects, merge, numpy_of
from chsink.decode.values import MisfitError

Refused = (pa.ArrowInvalid, MisfitError, msgspec.DecodeError, RecursionError)
SHAPES: Final = 64
"""With more distinct shapes than this, do not try them: the texts are too varied."""
FEW: Final = 8
"""At most one row in this many may have a refused shape."""
_SHAPE: Final = np.arange(256, dtype=np.uint8)
_SHAPE[ord("0") : ord("9") + 1] = ord("0")


def converted(codec: Codec, reader: Reader, array: pa.Array) -> Converted:
    """The wire array of ``codec``, and the suspects.  Texts that the reader refuses become null and suspect.

    Raises one of :data:`Refused` if the reader refuses an array that is not text.
    """
    try:
        return reader.convert(array)
    except Refused:
        if not pa.types.is_string(array.type) or len(array) < FEW:
            raise
    odd = _odd(reader, array)
    if odd is not None:
        try:
            wire, wrong = reader.convert(pc.if_else(pa.array(odd), pa.scalar(None, array.type), array))
        except Refused:
            pass
        else:
            return wire, merge(odd, wrong)
    wire, reasons = codec.one_by_one(array.to_pylist())
    bad: Mask = np.zeros(len(array), np.bool_)
    bad[list(reasons)] = True
    return wire, bad if reasons else None


def _odd(reader: Reader, array: pa.Array) -> Suspects:
    """A mask of the texts with a refused shape; None if there are none, or too many."""
    shapes = _shapes(array).dictionary_encode()
    if len(shapes.dictionary) > SHAPES:
        return None
    of = numpy_of(shapes.indices.fill_null(len(shapes.dictionary)))
    odd: Mask = np.zeros(len(array), np.bool_)
    for shape in range(len(shapes.dictionary)):
        rows = of == shape
        try:
            reader.convert(array.slice(int(rows.argmax()), 1))
        except Refused:
            odd |= rows
    return odd if 0 < odd.sum() <= len(array) // FEW else None


def _shapes(array: pa.Array) -> pa.Array:
    """The texts with each digit replaced by 0."""
    valid, offsets, data = array.buffers()
    bytes_ = np.frombuffer(data if data is not None else b"", np.uint8)
    buffers = [valid, offsets, pa.py_buffer(_SHAPE[bytes_])]
    return pa.Array.from_buffers(array.type, len(array), buffers, array.null_count, array.offset)
