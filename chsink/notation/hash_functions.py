"""The sharding expressions that chsink computes as ClickHouse does: their names, and the types that each takes.

A function is listed only with the types that a test compares with the engine; any other combination is refused before
the first record.  ``chsink.sharding.functions`` has the code of each.

``none`` is the shard key itself: a plain integer column as the sharding expression.  A function takes one column,
or, where the engine's function has a way to combine hashes, any number of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from chsink.errors import shards
from chsink.notation.sql import quote_identifier

HashName = Literal[
    "xxHash64",
    "xxh3",
    "cityHash64",
    "sipHash64",
    "murmurHash2_64",
    "murmurHash3_64",
    "farmHash64",
    "intHash32",
    "intHash64",
    "javaHash",
    "CRC32",
    "none",
]

_SIGNED = ("Int8", "Int16", "Int32", "Int64")
_UNSIGNED = ("UInt8", "UInt16", "UInt32", "UInt64", "Bool")
_WIDE = ("Int128", "UInt128", "Int256", "UInt256", "Decimal128", "Decimal256", "IPv6", "UUID")
_TEXT = ("String", "FixedString")
_UNSIGNED_TIMES = ("Date", "DateTime")
_OTHERS = ("Float32", "Float64", "Enum8", "Enum16", "IPv4", "Date32", "DateTime64", "Decimal32", "Decimal64")
_EVERY = frozenset((*_SIGNED, *_UNSIGNED, *_WIDE, *_TEXT, *_UNSIGNED_TIMES, *_OTHERS))
_PLAIN = frozenset((*_SIGNED, *_UNSIGNED, *_UNSIGNED_TIMES, "Date32", "Decimal32", "Decimal64", "IPv4"))


@dataclass(frozen=True, slots=True)
class HashFunction:
    """``families`` are the types it takes, without parameters; ``several`` says that it takes several columns."""

    name: str
    families: frozenset[str]
    several: bool = False

    def expression(self, key: Sequence[str]) -> str:
        """The sharding expression, as SQL."""
        columns = ", ".join(map(quote_identifier, key))
        return columns if self.name == "none" else f"{self.name}({columns})"

    def check_columns(self, key: Sequence[str]) -> None:
        """Raise ConfigError CHS-403 unless the function takes this many columns."""
        if not key or (len(key) > 1 and not self.several):
            takes = "one or more columns" if self.several else "exactly 1 column"
            columns = ", ".join(key) or "none"
            raise shards.KEY_COLUMN_COUNT(function=self.name, takes=takes, count=len(key), columns=columns)

    def check_type(self, column: str, text: str, family: str) -> None:
        """Raise ConfigError CHS-404 unless this function's hash of the type is known to be the engine's."""
        if family not in self.families:
            others = [name for name, other in HASH_FUNCTIONS.items() if family in other.families]
            raise shards.KEY_TYPE(
                column=repr(column),
                type=text,
                function=self.name,
                remedy=f"use {others[0]}, which supports this type" if others else "choose another key column",
                families=", ".join(sorted(self.families)),
            )


HASH_FUNCTIONS: Mapping[str, HashFunction] = MappingProxyType(
    {
        function.name: function
        for function in (
            HashFunction("xxHash64", _EVERY, several=True),
            HashFunction("xxh3", _EVERY, several=True),
            HashFunction("cityHash64", _EVERY, several=True),
            HashFunction("sipHash64", _EVERY, several=True),
            HashFunction("murmurHash2_64", _EVERY, several=True),
            HashFunction("murmurHash3_64", _EVERY, several=True),
            HashFunction("farmHash64", _EVERY, several=True),
            HashFunction("intHash32", _PLAIN),
            HashFunction("intHash64", _PLAIN),
            HashFunction("javaHash", _EVERY.difference(_UNSIGNED, _UNSIGNED_TIMES)),
            HashFunction("CRC32", frozenset(_TEXT)),
            HashFunction("none", frozenset((*_SIGNED, *_UNSIGNED))),
        )
    }
)


def hash_function(name: str) -> HashFunction:
    """The function of this name, or ConfigError CHS-402."""
    if name not in HASH_FUNCTIONS:
        raise shards.UNKNOWN_HASH_FUNCTION(name=repr(name), supported=", ".join(HASH_FUNCTIONS))
    return HASH_FUNCTIONS[name]
