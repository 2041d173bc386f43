"""The registry of hash functions: what each takes and how it hashes, exactly as ClickHouse does.

A function is listed only with the types that a test compares with the engine; any other combination is
refused before the first record. To add one, write its `apply` over the stored forms and name its families;
the engine test then covers it, since it runs over this registry.

What the engine does, found by asking it: `xxHash64` hashes the stored bytes of each argument and folds the
hashes from the left with CityHash's `Hash128to64`; `intHash64` takes one integer of at most 64 bits,
sign-extended, and nothing that is not a plain number inside (no Enum, no DateTime64, no Decimal over 18
digits).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from chsink.errors import shards
from chsink.sharding.stored import ENCODERS, Stored
from chsink.sharding.xxh64 import U64, ByteSlices, xxh64

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chsink.sharding.keytypes import KeyType

_FOLD = np.uint64(0x9DDFEA08EB382D69)
_INT_SEED = np.uint64(0x4CF2D2BAAE6DA887)
_INT_FAMILIES = frozenset(
    (
        *("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"),
        *("Bool", "Date", "Date32", "DateTime", "Decimal32", "Decimal64", "IPv4"),
    )
)


@dataclass(frozen=True, slots=True)
class HashFunction:
    """`apply` takes the key columns in order, `n` values each, and gives `n` hashes."""

    name: str
    families: frozenset[str]
    max_columns: int | None
    apply: Callable[[Sequence[Stored]], U64]

    def check_columns(self, key: Sequence[str]) -> None:
        """Raise ConfigError CHS-403 unless the function takes this many columns."""
        if not key or (self.max_columns is not None and len(key) > self.max_columns):
            takes = f"exactly {self.max_columns} column" if self.max_columns else "one or more columns"
            columns = ", ".join(key) or "none"
            raise shards.KEY_COLUMN_COUNT(function=self.name, takes=takes, count=len(key), columns=columns)

    def check_type(self, column: str, key_type: KeyType) -> None:
        """Raise ConfigError CHS-404 unless this function's hash of the type is known to be the engine's."""
        if key_type.family not in self.families:
            others = sorted(name for name, other in FUNCTIONS.items() if key_type.family in other.families)
            raise shards.KEY_TYPE(
                column=repr(column),
                type=key_type.text,
                function=self.name,
                remedy=f"use {others[0]}, which supports this type" if others else "choose another key column",
                families=", ".join(sorted(self.families)),
            )


def hash_function(name: str) -> HashFunction:
    """The function of this name, or ConfigError CHS-402."""
    if name not in FUNCTIONS:
        raise shards.UNKNOWN_HASH_FUNCTION(name=repr(name), supported=", ".join(sorted(FUNCTIONS)))
    return FUNCTIONS[name]


def _xx_hash64(columns: Sequence[Stored]) -> U64:
    return reduce(_hash128_to_64, (xxh64(_as_bytes(column)) for column in columns))


def _int_hash64(columns: Sequence[Stored]) -> U64:
    (column,) = columns
    assert not isinstance(column, ByteSlices), "the registry lets only numbers in"
    bits = column.astype(np.uint64) ^ _INT_SEED  # a negative number is sign-extended
    bits ^= bits >> np.uint64(33)
    bits *= np.uint64(0xFF51AFD7ED558CCD)
    bits ^= bits >> np.uint64(33)
    bits *= np.uint64(0xC4CEB9FE1A85EC53)
    bits ^= bits >> np.uint64(33)
    return bits


def _hash128_to_64(low: U64, high: U64) -> U64:
    mixed = (low ^ high) * _FOLD
    mixed ^= mixed >> np.uint64(47)
    mixed = (high ^ mixed) * _FOLD
    mixed ^= mixed >> np.uint64(47)
    return mixed * _FOLD


def _as_bytes(column: Stored) -> ByteSlices:
    if isinstance(column, ByteSlices):
        return column
    return ByteSlices.of_matrix(np.ascontiguousarray(column).view(np.uint8).reshape(len(column), -1))


FUNCTIONS: Mapping[str, HashFunction] = MappingProxyType(
    {
        "xxHash64": HashFunction("xxHash64", frozenset(ENCODERS), None, _xx_hash64),
        "intHash64": HashFunction("intHash64", _INT_FAMILIES, 1, _int_hash64),
    }
)
