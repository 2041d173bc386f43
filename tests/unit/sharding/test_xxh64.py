"""The vectorised XXH64 gives what the xxhash package gives, whatever lengths stand side by side."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import xxhash
from hypothesis import example, given

from chsink.sharding.xxh64 import ByteSlices, xxh64


def slices(values: list[bytes], lead: bytes = b"") -> ByteSlices:
    lengths = np.array([len(value) for value in values], dtype=np.int64)
    starts = len(lead) + np.cumsum(lengths) - lengths
    return ByteSlices(np.frombuffer(lead + b"".join(values), dtype=np.uint8), starts, lengths)


def reference(values: list[bytes]) -> list[int]:
    return [xxhash.xxh64_intdigest(value) for value in values]


@given(st.lists(st.binary(max_size=70)), st.binary(max_size=9))
@example([], b"")
@example([b""], b"")
@example([bytes(range(length)) for length in range(100)], b"x")
def test_equals_the_package(values: list[bytes], lead: bytes) -> None:
    assert xxh64(slices(values, lead)).tolist() == reference(values)


@pytest.mark.parametrize("rows", [8191, 8192, 8193, 20000])
def test_rows_across_blocks(rows: int) -> None:
    values = [str(row).encode() * (row % 4) for row in range(rows)]
    assert xxh64(slices(values)).tolist() == reference(values)


def test_rows_of_a_matrix() -> None:
    matrix = np.arange(60, dtype=np.uint8).reshape(5, 12)
    assert xxh64(ByteSlices.of_matrix(matrix)).tolist() == reference([row.tobytes() for row in matrix])


def test_values_may_share_bytes() -> None:
    data = np.frombuffer(b"abcdefgh", dtype=np.uint8)
    values = ByteSlices(data, np.array([4, 0, 0]), np.array([4, 4, 8]))
    assert xxh64(values).tolist() == reference([b"efgh", b"abcd", b"abcdefgh"])
