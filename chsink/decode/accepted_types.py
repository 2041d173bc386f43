"""The Arrow types that a codec accepts: those of :meth:`~chsink.decode.codec.Codec.accept`, nulls, text, and unions.

A union is converted branch by branch, each branch like a column of its type; then the values are merged in order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chsink.decode.codec import Codec, Converted, Mask, Reader


def reader_of(codec: Codec, source: pa.DataType) -> Reader | None:
    """A checked conversion from the Arrow type ``source``; None if there is none, so that JSON values must be used."""
    if pa.types.is_null(source):
        return Reader(source, lambda array: (codec.array([None] * len(array)), None))
    if pa.types.is_union(source):
        return _of_branches(codec, source)
    return codec.accept(source) or _of_text(codec, source)


def _of_text(codec: Codec, source: pa.DataType) -> Reader | None:
    """The codec's reader of JSON strings; None if it does not read them as text."""
    reader = codec.reader([""]) if pa.types.is_string(source) else None
    return reader if reader is not None and reader.source == source else None


def _of_branches(codec: Codec, source: pa.UnionType) -> Reader | None:
    readers = [reader_of(codec, source.field(at).type) for at in range(source.num_fields)]
    known = [reader for reader in readers if reader is not None]
    if len(known) != source.num_fields or source.mode != "dense":
        return None

    def convert(array: pa.UnionArray) -> Converted:
        parts = [reader.convert(values) for reader, (_, values) in zip(known, branches(array), strict=True)]
        bad: Mask = np.zeros(len(array), np.bool_)
        for (at, _), (_, suspects) in zip(branches(array), parts, strict=True):
            if suspects is not None:
                bad[at[suspects]] = True
        return together([at for at, _ in branches(array)], [part[0] for part in parts]), bad if bad.any() else None

    return Reader(source, convert)


def branches(array: pa.UnionArray) -> list[tuple[npt.NDArray[np.int64], pa.Array]]:
    """For each branch of a dense union array: the positions that use it, and their values."""
    codes, offsets = array.type_codes.to_numpy(), array.offsets.to_numpy()
    found = []
    for at in range(array.type.num_fields):
        mine = np.flatnonzero(codes == array.type.type_codes[at])
        found.append((mine, array.field(at).take(pa.array(offsets[mine]))))
    return found


def together(positions: Sequence[npt.NDArray[np.int64]], parts: Sequence[pa.Array]) -> pa.Array:
    """Merges the parts into one array; ``positions`` are the places of each part's elements in it."""
    order = np.argsort(np.concatenate(positions), kind="stable")
    return pa.concat_arrays(parts).take(pa.array(order))
