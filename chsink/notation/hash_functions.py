"""The sharding expressions that chsink computes as ClickHouse does: their names, and the types that each takes.

A function is listed only with the types that a test compares with the engine; any other combination is refused before
the first record.  ``chsink.sharding.functions`` has the code of each.

A function takes one column, or any number of columns if the engine's function can combine hashes.  Two names are not
hash functions.  With ``none``, the sharding expression is a plain integer column.  ``rand`` replaces `rand()`, which
would send a record to a different shard at each attempt: it hashes the record's topic, partition and offset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from chsink.errors import shards
from chsink.notation.metadata_columns import PROBE_COLUMNS
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
    "rand",
]

RAND_KEY = PROBE_COLUMNS
"""The fields that ``rand`` hashes.  They are always taken from the record."""

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
    """A hash function: ``families`` are the accepted types without parameters, ``columns`` the number of columns."""

    name: str
    families: frozenset[str]
    columns: Literal["one", "several", "no"] = "one"

    def expression(self, key: Sequence[str]) -> str:
        """The sharding expression, as SQL."""
        columns = "" if self.columns == "no" else ", ".join(map(quote_identifier, key))
        return columns if self.name == "none" else f"{self.name}({columns})"

    def check_columns(self, key: Sequence[str]) -> None:
        """Raise ConfigError CHS-403 unless the function takes this many columns."""
        if not self.takes(len(key)):
            takes = {"one": "exactly 1 column", "several": "one or more columns", "no": "no column"}[self.columns]
            columns = ", ".join(key) or "none"
            raise shards.KEY_COLUMN_COUNT(function=self.name, takes=takes, count=len(key), columns=columns)

    def takes(self, count: int) -> bool:
        """Whether the shard key can have this many columns."""
        return count in {"one": (1,), "several": range(1, count + 1), "no": (0,)}[self.columns]

    def check_type(self, column: str, text: str, family: str) -> None:
        """Raise ConfigError CHS-404 unless a test has compared this function's hash of the type with the engine's."""
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
            HashFunction("xxHash64", _EVERY, "several"),
            HashFunction("xxh3", _EVERY, "several"),
            HashFunction("cityHash64", _EVERY, "several"),
            HashFunction("sipHash64", _EVERY, "several"),
            HashFunction("murmurHash2_64", _EVERY, "several"),
            HashFunction("murmurHash3_64", _EVERY, "several"),
            HashFunction("farmHash64", _EVERY, "several"),
            HashFunction("intHash32", _PLAIN),
            HashFunction("intHash64", _PLAIN),
            HashFunction("javaHash", _EVERY.difference(_UNSIGNED, _UNSIGNED_TIMES)),
            HashFunction("CRC32", frozenset(_TEXT)),
            HashFunction("none", frozenset((*_SIGNED, *_UNSIGNED))),
            HashFunction("rand", frozenset(("String", "UInt32", "UInt64")), "no"),
        )
    }
)


def hash_function(name: str) -> HashFunction:
    """The function of this name.  Raises ConfigError CHS-402 if there is none."""
    if name not in HASH_FUNCTIONS:
        raise shards.UNKNOWN_HASH_FUNCTION(name=repr(name), supported=", ".join(HASH_FUNCTIONS))
    return HASH_FUNCTIONS[name]
