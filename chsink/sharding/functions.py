"""The functions of `chsink.notation.hash_functions`: they hash the stored forms of values exactly as ClickHouse does.

To add a function, list it there with its type families, and here with its hash of one column and its way to combine
two hashes.  The engine test runs over that list, so it then covers the new function.

The engine's behaviour, as measured:
- Most functions hash the stored bytes.  For plain numbers, cityHash64 and farmHash64 instead apply intHash64 to the
  zero-extended bits; for Decimals and DateTime64 they hash the bytes.
- Hashes of several columns are combined from the left; each function has its own rule.
- intHash32 and intHash64 take one integer of at most 64 bits, sign-extended, and only types that are stored as plain
  numbers (no Enum, no DateTime64, no Decimal over 18 digits).
- javaHash is the number itself up to 32 bits, its folded halves for Int64, and Java's string hash of the bytes
  otherwise.
- `Distributed` reads a result of at most 32 bits as a UInt32 and a wider one as a UInt64, even if it is negative.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from chsink.sharding import hashes
from chsink.sharding.xxh64 import U64, ByteSlices, xxh64

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chsink.sharding.keytypes import KeyType
    from chsink.sharding.stored import Stored

    OfColumn = Callable[[KeyType, Stored], U64]
    Combined = Callable[[U64, U64], U64]

_BYTES_OF_NUMBERS = frozenset(("DateTime64", "Decimal32", "Decimal64"))
_JAVA_NUMBERS = frozenset(("Int8", "Int16", "Int32", "Int64", "Enum8", "Enum16", "Date32"))


def apply(name: str, key_types: Sequence[KeyType], columns: Sequence[Stored]) -> U64:
    """The value of the sharding expression for each row.  `columns` are the key columns, in order."""
    of_column, combined = FUNCTIONS[name]
    hashed = [of_column(key_type, column) for key_type, column in zip(key_types, columns, strict=True)]
    if combined is None:
        (only,) = hashed
        return only
    return reduce(combined, hashed)


def _of_bytes(hashed: Callable[[ByteSlices], U64]) -> OfColumn:
    return lambda _, column: hashed(column if isinstance(column, ByteSlices) else hashes.as_bytes(column))


def _of_bits(hashed: Callable[[ByteSlices], U64]) -> OfColumn:
    """A hash by intHash64 for plain numbers, and by `hashed` of the stored bytes for all other types."""
    of_bytes = _of_bytes(hashed)

    def of_column(key_type: KeyType, column: Stored) -> U64:
        if isinstance(column, ByteSlices) or key_type.family in _BYTES_OF_NUMBERS:
            return of_bytes(key_type, column)
        return hashes.int_hash64(column.view(f"<u{column.itemsize}").astype(np.uint64))

    return of_column


def _of_number(hashed: Callable[[U64], U64]) -> OfColumn:
    return lambda _, column: hashed(_extended(column))


def _java(key_type: KeyType, column: Stored) -> U64:
    if key_type.family not in _JAVA_NUMBERS:
        return _of_bytes(hashes.java)(key_type, column)
    bits = _extended(column)
    return _low_half(bits ^ (bits >> np.uint64(32)) if key_type.family == "Int64" else bits)


def _itself(key_type: KeyType, column: Stored) -> U64:
    bits = _extended(column)
    return bits if key_type.family in {"Int64", "UInt64"} else _low_half(bits)


def _extended(column: Stored) -> U64:
    """The numbers, sign-extended to 64 bits."""
    assert not isinstance(column, ByteSlices), "the registry lets only numbers in"
    return np.asarray(column).astype(np.uint64)


def _low_half(bits: U64) -> U64:
    return bits & np.uint64(0xFFFFFFFF)


FUNCTIONS: Mapping[str, tuple[OfColumn, Combined | None]] = {
    "xxHash64": (_of_bytes(xxh64), hashes.city_combined),
    "xxh3": (_of_bytes(hashes.xxh3), hashes.city_combined),
    "cityHash64": (_of_bits(hashes.city64), hashes.city_combined),
    "sipHash64": (_of_bytes(hashes.sip64), hashes.sip_combined),
    "murmurHash2_64": (_of_bytes(hashes.murmur2_64), hashes.murmur_combined),
    "murmurHash3_64": (_of_bytes(hashes.murmur3_64), hashes.murmur_combined),
    "farmHash64": (_of_bits(hashes.farm64), hashes.city_combined),
    "intHash32": (_of_number(hashes.int_hash32), None),
    "intHash64": (_of_number(hashes.int_hash64), None),
    "javaHash": (_java, None),
    "CRC32": (_of_bytes(hashes.crc32), None),
    "none": (_itself, None),
    "rand": (_of_bytes(xxh64), hashes.city_combined),
}
