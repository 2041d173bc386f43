"""Hashes of many values at once, as ClickHouse computes them.

A package hashes values one by one, at the cost of one Python object each (about 90 ns with the hash itself).
Functions that no package offers are written here in numpy: the integer hashes, javaHash, MurmurHash64A, and the
combinations of two hashes.  Unsigned arithmetic wraps around, as in the engine.
"""

from __future__ import annotations

import zlib
from itertools import repeat
from typing import TYPE_CHECKING, Any

import farmhash
import mmh3
import numpy as np
import siphashc
import xxhash
from clickhouse_cityhash import cityhash

from chsink.sharding.xxh64 import I64, U8, U32, U64, ByteSlices

if TYPE_CHECKING:
    from collections.abc import Iterable

_CITY_MULTIPLIER = np.uint64(0x9DDFEA08EB382D69)
_INT32_SALT = np.uint64(0x75D9543DE018BF45)
_INT64_SEED = np.uint64(0x4CF2D2BAAE6DA887)
_MURMUR2_MULTIPLIER = np.uint64(0xC6A4A7935BD1E995)
_SIPHASH_KEY = bytes(16)
_WORD_BYTES = 8


# --- by a package, one value after the other -------------------------------------------------------------------------


def xxh3(values: ByteSlices) -> U64:
    """XXH3, 64 bits."""
    return _collect(map(xxhash.xxh3_64_intdigest, values.objects()), len(values))


def city64(values: ByteSlices) -> U64:
    """CityHash64 of version 1.0.2, which the engine uses; later versions differ."""
    return _collect(map(cityhash.CityHash64, values.objects()), len(values))


def farm64(values: ByteSlices) -> U64:
    """FarmHash's Hash64."""
    return _collect(map(farmhash.FarmHash64, values.objects()), len(values))


def sip64(values: ByteSlices) -> U64:
    """SipHash-2-4 with a key of zeros."""
    return _collect(map(siphashc.siphash, repeat(_SIPHASH_KEY), values.objects()), len(values))


def crc32(values: ByteSlices) -> U64:
    """The CRC-32 of zlib."""
    return _collect(map(zlib.crc32, values.objects()), len(values))


def murmur3_64(values: ByteSlices) -> U64:
    """The two halves of MurmurHash3_x64_128, combined by exclusive or."""
    digests = b"".join(map(mmh3.mmh3_x64_128_digest, values.objects()))
    halves: U64 = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
    combined: U64 = halves[:, 0] ^ halves[:, 1]
    return combined


def _collect(hashes: Iterable[int], count: int) -> U64:
    return np.fromiter(hashes, dtype=np.uint64, count=count)


# --- in numpy --------------------------------------------------------------------------------------------------------


def murmur2_64(values: ByteSlices) -> U64:
    """MurmurHash64A with seed 0.  Sorts values by length, longest first, so values with an n-th word are a prefix."""
    order = np.argsort(-values.lengths, kind="stable")
    starts, lengths = values.starts[order], values.lengths[order]
    words = _words(values.data)
    acc = lengths.astype(np.uint64) * _MURMUR2_MULTIPLIER
    whole = lengths // _WORD_BYTES
    for step in range(int(whole[0]) if len(whole) else 0):
        active = slice(int(np.searchsorted(-whole, -step, side="left")))
        word = words[starts[active] + _WORD_BYTES * step] * _MURMUR2_MULTIPLIER
        word = (word ^ (word >> np.uint64(47))) * _MURMUR2_MULTIPLIER
        acc[active] = (acc[active] ^ word) * _MURMUR2_MULTIPLIER
    rest = np.flatnonzero(lengths % _WORD_BYTES)
    unused_bits = (8 * (_WORD_BYTES - lengths[rest] % _WORD_BYTES)).astype(np.uint64)
    tail = (words[starts[rest] + _WORD_BYTES * whole[rest]] << unused_bits) >> unused_bits
    acc[rest] = (acc[rest] ^ tail) * _MURMUR2_MULTIPLIER
    acc = (acc ^ (acc >> np.uint64(47))) * _MURMUR2_MULTIPLIER
    result = np.empty_like(acc)
    result[order] = acc ^ (acc >> np.uint64(47))
    return result


def _words(data: U8) -> U64:
    """The little-endian 64-bit word at every byte position; zeros follow the end of the data."""
    padded = np.concatenate((data, np.zeros(_WORD_BYTES, dtype=np.uint8)))
    return np.ndarray((len(data) + 1,), dtype="<u8", buffer=padded.data, strides=(1,))


def java(values: ByteSlices) -> U64:
    """Java's string hash over signed bytes: the sum of byte × 31^(distance from the last byte), 32 bits.

    The values must tile the buffer, because one running sum computes all hashes.
    """
    ends = values.starts + values.lengths
    factors = np.full(int(values.lengths.max(initial=0)) + 1, 31, dtype=np.uint32)
    factors[0] = 1
    powers: U32 = np.cumprod(factors, dtype=np.uint32)
    distance: I64 = np.repeat(ends, values.lengths) - np.arange(len(values.data)) - 1
    terms = values.data.view(np.int8).astype(np.uint32) * powers[distance]
    sums: U32 = np.concatenate((np.zeros(1, dtype=np.uint32), np.cumsum(terms, dtype=np.uint32)))
    return np.asarray(sums[ends] - sums[values.starts], dtype=np.uint64)


def int_hash64(bits: U64) -> U64:
    """intHash64 of 64-bit integers."""
    acc = bits ^ _INT64_SEED
    acc ^= acc >> np.uint64(33)
    acc *= np.uint64(0xFF51AFD7ED558CCD)
    acc ^= acc >> np.uint64(33)
    acc *= np.uint64(0xC4CEB9FE1A85EC53)
    acc ^= acc >> np.uint64(33)
    return acc


def int_hash32(bits: U64) -> U64:
    """intHash32 of 64-bit integers."""
    acc = bits ^ _INT32_SALT
    acc = ~acc + (acc << np.uint64(18))
    acc ^= (acc >> np.uint64(31)) | (acc << np.uint64(33))
    acc *= np.uint64(21)
    acc ^= (acc >> np.uint64(11)) | (acc << np.uint64(53))
    acc += acc << np.uint64(6)
    acc ^= (acc >> np.uint64(22)) | (acc << np.uint64(42))
    return acc & np.uint64(0xFFFFFFFF)


# --- two hashes to one -----------------------------------------------------------------------------------------------


def city_combined(low: U64, high: U64) -> U64:
    """CityHash's and FarmHash's Hash128to64."""
    mixed = (low ^ high) * _CITY_MULTIPLIER
    mixed ^= mixed >> np.uint64(47)
    mixed = (high ^ mixed) * _CITY_MULTIPLIER
    mixed ^= mixed >> np.uint64(47)
    return mixed * _CITY_MULTIPLIER


def murmur_combined(first: U64, second: U64) -> U64:
    """The combination of two hashes in murmurHash2_64 and murmurHash3_64."""
    return int_hash64(first) ^ second


def sip_combined(first: U64, second: U64) -> U64:
    """SipHash of both hashes' bytes."""
    return sip64(as_bytes(np.stack((first, second), axis=1)))


def as_bytes(numbers: Any) -> ByteSlices:
    """The stored bytes of numbers, shape `(n,)` or `(n, k)`."""
    return ByteSlices.of_matrix(np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), -1))
