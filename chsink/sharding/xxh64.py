"""XXH64 (seed 0) of many byte strings at once.

The xxhash package costs about 150 ns per value, including a Python object. Most shard keys are shorter than 32 bytes.
For these, XXH64 consists of steps of eight bytes, then four, then one, then a mix of the bits, and one numpy operation
does a step for all values: two to five times cheaper. Longer values need the four-lane stripes, for which numpy is not
faster, so the package hashes them one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_STRIPE_BYTES = 32
# The number of rows per numpy step, chosen so that temporaries stay in the processor's cache.
_BLOCK_ROWS = 8192


@dataclass(frozen=True, slots=True, eq=False)
class ByteSlices:
    """`n` byte strings inside one buffer: value `i` is `data[starts[i] : starts[i] + lengths[i]]`."""

    data: U8
    starts: I64
    lengths: I64

    def __post_init__(self) -> None:
        assert self.data.ndim == 1, "the buffer is flat"
        assert len(self.starts) == len(self.lengths), "one length a value"

    @staticmethod
    def of_matrix(matrix: U8) -> ByteSlices:
        """The rows of a C-contiguous `(n, width)` matrix."""
        rows, width = matrix.shape
        starts = np.arange(rows, dtype=np.int64) * width
        return ByteSlices(matrix.reshape(-1), starts, np.full(rows, width, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.starts)

    def objects(self) -> npt.NDArray[np.object_]:
        """The values as Python bytes, shape `(n,)`.  They must be adjacent in the buffer."""
        ends = self.starts + self.lengths
        assert (self.starts[1:] == ends[:-1]).all(), "no gaps"
        offsets = pa.py_buffer(np.append(self.starts, ends[-1:]))
        data = pa.py_buffer(np.ascontiguousarray(self.data))
        array = pa.Array.from_buffers(pa.large_binary(), len(self), [None, offsets, data])
        return np.asarray(array.to_numpy(zero_copy_only=False))


def xxh64(values: ByteSlices) -> U64:
    """XXH64 with seed 0 of each value, shape `(n,)`."""
    result = np.empty(len(values), dtype=np.uint64)
    is_long = values.lengths >= _STRIPE_BYTES
    if not is_long.any():
        _hash_short(values, result)
        return result
    rows = np.flatnonzero(is_long)
    result[rows] = _hash_long(values, rows)
    rows = np.flatnonzero(~is_long)
    short = np.empty(len(rows), dtype=np.uint64)
    _hash_short(ByteSlices(values.data, values.starts[rows], values.lengths[rows]), short)
    result[rows] = short
    return result


def _hash_long(values: ByteSlices, rows: I64) -> U64:
    data = values.data.tobytes()
    starts = values.starts[rows]
    spans = zip(starts.tolist(), (starts + values.lengths[rows]).tolist(), strict=True)
    digest = xxhash.xxh64_intdigest
    return np.fromiter((digest(data[start:end]) for start, end in spans), dtype=np.uint64, count=len(rows))


def _hash_short(values: ByteSlices, result: U64) -> None:
    # No read goes beyond its value, but the views below need room for one word.
    data = np.ascontiguousarray(values.data if len(values.data) >= 8 else np.resize(values.data, 8))
    for first in range(0, len(values), _BLOCK_ROWS):
        block = slice(first, first + _BLOCK_ROWS)
        result[block] = _hash_block(data, values.starts[block], values.lengths[block])


def _hash_block(data: U8, at: I64, lengths: I64) -> U64:
    acc = _P5 + lengths.astype(np.uint64)
    words, halves = _words(data), _halves(data)
    for step in range(_STRIPE_BYTES // 8 - 1):
        active = _rows_of(lengths >= 8 * (step + 1))
        word = _rotate(words[at[active] + 8 * step] * _P2, 31) * _P1
        acc[active] = _rotate(acc[active] ^ word, 27) * _P1 + _P4
    at = at + (lengths & ~7)
    active = _rows_of((lengths & 4) != 0)
    half = halves[at[active]].astype(np.uint64) * _P1
    acc[active] = _rotate(acc[active] ^ half, 23) * _P2 + _P3
    at = at + (lengths & 4)
    for step in range(3):
        active = _rows_of((lengths & 3) > step)
        byte = data[at[active] + step].astype(np.uint64) * _P5
        acc[active] = _rotate(acc[active] ^ byte, 11) * _P1
    return _mix(acc)


def _mix(acc: U64) -> U64:
    acc ^= acc >> np.uint64(33)
    acc *= _P2
    acc ^= acc >> np.uint64(29)
    acc *= _P3
    acc ^= acc >> np.uint64(32)
    return acc


def _rotate(value: U64, bits: int) -> U64:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


def _rows_of(mask: npt.NDArray[np.bool_]) -> slice | I64:
    """The rows of `mask`.  All rows, the usual case, are a slice, which needs no index."""
    return slice(None) if mask.all() else np.flatnonzero(mask)


def _words(data: U8) -> U64:
    """The little-endian 64-bit word at every byte position."""
    return np.ndarray((len(data) - 7,), dtype="<u8", buffer=data.data, strides=(1,))


def _halves(data: U8) -> U32:
    """The little-endian 32-bit word at every byte position."""
    return np.ndarray((len(data) - 3,), dtype="<u4", buffer=data.data, strides=(1,))
