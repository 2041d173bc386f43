"""A row's hash depends on its own value alone: not on its neighbours, on the batch's size, or on a slice's offset."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from chsink.notation.hash_functions import HASH_FUNCTIONS
from chsink.sharding.functions import apply
from chsink.sharding.keytypes import parse_key_type
from chsink.sharding.stored import stored_values

VALUES = [
    b"",
    b"a",
    b"\0",
    b"\0\0",
    bytes(7),
    b"x" * 8,
    b"y" * 15,
    b"z" * 16,
    "é漢🙂".encode(),
    b"w" * 700,
    b"",
    b"end",
]
TEXT = parse_key_type("String")
OF_TEXT = [name for name, function in HASH_FUNCTIONS.items() if "String" in function.families]


def hashes(name: str, column: pa.Array, columns: int = 1) -> list[int]:
    stored = [stored_values("k", TEXT, column)] * columns
    return [int(value) for value in apply(name, [TEXT] * columns, stored)]


@pytest.mark.parametrize("name", OF_TEXT)
def test_of_its_own_value_alone(name: str) -> None:
    column = pa.array(VALUES, pa.binary())
    whole = hashes(name, column)
    assert whole == [hashes(name, pa.array([value], pa.binary()))[0] for value in VALUES]
    assert hashes(name, column.slice(3, 6)) == whole[3:9]
    assert hashes(name, column.take(pa.array(range(len(VALUES) - 1, -1, -1)))) == whole[::-1]
    assert hashes(name, pa.array([b""] * 3, pa.binary())) == [whole[0]] * 3
    assert len(set(whole)) >= len(set(VALUES)) - 3 * (name == "javaHash"), "javaHash is 0 for zero bytes"


@pytest.mark.parametrize("name", [name for name in OF_TEXT if HASH_FUNCTIONS[name].columns == "several"])
def test_so_is_the_hash_of_several(name: str) -> None:
    whole = hashes(name, pa.array(VALUES, pa.binary()), 3)
    assert whole == [hashes(name, pa.array([value], pa.binary()), 3)[0] for value in VALUES]


def test_numbers_out_of_a_slice() -> None:
    column = pa.array(np.arange(-50, 50, dtype=np.int64))
    number = parse_key_type("Int64")
    for name in (name for name, function in HASH_FUNCTIONS.items() if "Int64" in function.families):
        whole, part = (apply(name, [number], [stored_values("k", number, c)]) for c in (column, column.slice(40, 20)))
        assert part.tolist() == whole[40:60].tolist()
