"""Assigning and splitting: nulls, wire types that do not fit, order, and batches that need no work."""

from __future__ import annotations

import pickle
from dataclasses import replace
from decimal import Decimal
from typing import Any, get_args

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from chsink.errors import ConfigError, HaltError
from chsink.sharding import NO_SHARD, Layout, NullShardKey, Shard, ShardAssignment, Sharder, split


def layout(*weights: int, function: str = "xxHash64", key: tuple[str, ...] = ("k",)) -> Layout:
    shards = tuple(Shard((f"http://h{number}:8123",), weight) for number, weight in enumerate(weights))
    return Layout(shards, function, key)


def assign(
    values: list[Any],
    type_: str = "Nullable(Int64)",
    null_shard_key: NullShardKey = "halt",
) -> ShardAssignment:
    sharder = Sharder(replace(layout(1, 2, 5), null_shard_key=null_shard_key), [type_])
    return sharder.assign([pa.array(values, pa.int64())], len(values))


def test_known_answers_of_the_engine() -> None:
    """`SELECT intHash64(-5), xxHash64('abc'), xxHash64(1, 2)` → these hashes, cut at weights 1, 2, 5."""
    slices = [0, 1, 1, 2, 2, 2, 2, 2]
    ints = Sharder(layout(1, 2, 5, function="intHash64"), ["Int8"]).assign([pa.array([-5], pa.int8())], 1)
    text = Sharder(layout(1, 2, 5), ["String"]).assign([pa.array(["abc"], pa.binary())], 1)
    two = Sharder(layout(1, 2, 5, key=("a", "b")), ["UInt8", "UInt8"])
    both = two.assign([pa.array([1], pa.uint8()), pa.array([2], pa.uint8())], 1)
    assert ints.shard.tolist() == [slices[13263830642547698461 % 8]]
    assert text.shard.tolist() == [slices[4952883123889572249 % 8]]
    assert both.shard.tolist() == [slices[6381735198130655124 % 8]]


def test_shares_follow_weights() -> None:
    counts = assign(list(range(80_000))).counts
    assert np.abs(counts / 10_000 - [1, 2, 5]).max() < 0.1
    assert counts.sum() == 80_000


def test_null_key_is_a_dead_letter() -> None:
    assignment = assign([1, None, 2, None])
    assert assignment.null_rows is not None
    assert assignment.null_rows.tolist() == [1, 3]
    assert (assignment.shard == NO_SHARD).tolist() == [False, True, False, True]
    assert assignment.shard[[0, 2]].tolist() == assign([1, 2]).shard.tolist()
    assert assignment.counts.sum() == 2


def test_null_key_goes_first_by_config() -> None:
    assignment = assign([1, None, 2], null_shard_key="first_shard")
    assert assignment.null_rows is None
    assert assignment.shard[1] == 0
    assert assignment.shard[[0, 2]].tolist() == assign([1, 2]).shard.tolist()
    assert assignment.counts.sum() == 3


@pytest.mark.parametrize("null_shard_key", get_args(NullShardKey))
def test_all_null(null_shard_key: NullShardKey) -> None:
    assignment = assign([None, None], null_shard_key=null_shard_key)
    assert assignment.shard.tolist() == ([NO_SHARD] * 2 if null_shard_key == "halt" else [0, 0])


def test_unknown_default_is_a_null_key_too() -> None:
    """A missing field of a DEFAULT column is an Arrow null in a type that is not Nullable."""
    assert assign([None, 7], "Int64").null_rows is not None


def test_one_null_column_of_several() -> None:
    sharder = Sharder(layout(1, 1, key=("a", "b")), ["Nullable(Int64)", "Nullable(String)"])
    columns = [pa.array([1, None, 3]), pa.array(["x", "y", None], pa.binary())]
    assert (sharder.assign(columns, 3).shard == NO_SHARD).tolist() == [False, True, True]


def test_one_shard_hashes_nothing() -> None:
    assignment = Sharder(Layout((Shard(("http://h:8123",)),)), []).assign([], 3)
    assert assignment.shard.tolist() == [0, 0, 0]
    assert assignment.null_rows is None
    assert assignment.counts.tolist() == [3]


def test_empty_batch() -> None:
    assignment = assign([])
    assert len(assignment.shard) == 0
    assert assignment.counts.tolist() == [0, 0, 0]
    assert split(pa.record_batch({"k": pa.array([], pa.int64())}), assignment) == []


def test_sliced_columns() -> None:
    columns = {
        "Int64": pa.array(range(100)),
        "String": pa.array([f"k{row}" for row in range(100)], pa.binary()),
        "UUID": pa.array([row.to_bytes(16, "big") for row in range(100)], pa.binary(16)),
        "Decimal(9, 2)": pa.array([Decimal(row) for row in range(100)]).cast(pa.decimal128(9, 2)),
        "Bool": pa.array([row % 3 == 0 for row in range(100)]),
    }
    sharder = Sharder(layout(1, 2, 5, key=tuple(columns)), tuple(columns))
    whole = sharder.assign(list(columns.values()), 100).shard
    part = sharder.assign([column.slice(30, 20) for column in columns.values()], 20).shard
    assert part.tolist() == whole[30:50].tolist()


@pytest.mark.parametrize(
    ("type_", "wire", "value"),
    [
        ("UInt8", pa.int64(), 300),
        ("UInt64", pa.int64(), -1),
        ("Int32", pa.string(), "1"),
        ("Float32", pa.float64(), 1.5),
        ("Bool", pa.int8(), 1),
        ("String", pa.int64(), 1),
        ("FixedString(2)", pa.binary(), "abc"),
        ("String", pa.string(), "abc"),
        ("UUID", pa.string(), "61f0c404-5cb3-11e7-907b-a6006ad3dbag"),
        ("UUID", pa.binary(8), b"61f0c404"),
        ("Enum8('a' = 1)", pa.string(), "b"),
        ("IPv4", pa.string(), "1.2.3"),
        ("IPv4", pa.int64(), 1),
        ("IPv6", pa.binary(4), b"1234"),
        ("Date", pa.date32(), -1),
        ("Date", pa.date32(), 65536),
        ("Date", pa.timestamp("s"), 0),
        ("DateTime", pa.timestamp("s", "UTC"), -1),
        ("DateTime", pa.timestamp("s", "UTC"), 2**32),
        ("DateTime", pa.timestamp("ms", "UTC"), 1),
        ("DateTime64(4)", pa.timestamp("us", "UTC"), 101),
        ("DateTime64(3)", pa.int64(), 1),
        ("Date", pa.int32(), 1),
        ("Int128", pa.binary(8), b"x" * 8),
        ("FixedString(2)", pa.binary(3), b"abc"),
        ("DateTime64(8)", pa.decimal128(20, 9), "0.000000001"),
        ("DateTime64(8)", pa.decimal128(20, 0), "999999999999"),
        ("Decimal(9, 2)", pa.decimal128(9, 3), "0.001"),
        ("Decimal(9, 2)", pa.float64(), 0.1),
        ("Decimal(50, 2)", pa.string(), "0.001"),
        ("Int128", pa.string(), str(2**127)),
        ("UInt256", pa.string(), "-1"),
    ],
)
def test_what_does_not_fit_halts_without_the_value(type_: str, wire: pa.DataType, value: Any) -> None:
    column = pa.array([value]).cast(wire) if pa.types.is_decimal(wire) else pa.array([value], wire)
    with pytest.raises(HaltError) as error:
        Sharder(layout(1, 1), [type_]).assign([column], 1)
    assert error.value.id == "CHS-406"
    assert error.value.__cause__ is None
    assert error.value.__context__ is None
    if isinstance(value, str) and value not in type_:
        assert f"'{value}'" not in str(error.value)


@pytest.mark.parametrize(
    "type_",
    [
        *("Array(String)", "Map(String, String)", "JSON", "BFloat16", "Time"),
        *("Tuple(a Array(Int8))", "Tuple(a Nullable(Int8))", "Tuple(a Int8, b Tuple(c Nullable(Int8)))", "Tuple()"),
    ],
)
def test_unproven_types_are_refused(type_: str) -> None:
    with pytest.raises(ConfigError) as error:
        Sharder(layout(1, 1), [type_])
    assert error.value.id == "CHS-404"
    assert type_ in error.value.message
    assert "LowCardinality" not in error.value.hint
    assert "UUID" in error.value.hint


def test_refusal_names_the_function_that_takes_the_type() -> None:
    with pytest.raises(ConfigError) as error:
        Sharder(layout(1, 1, function="intHash64"), ["LowCardinality(String)"])
    assert error.value.hint.startswith("use xxHash64, which supports this type")


def test_a_sharder_can_be_sent_to_a_worker() -> None:
    sharder = Sharder(layout(1, 2, 5), ["Int64"])
    columns = [pa.array(range(50))]
    copy = pickle.loads(pickle.dumps(sharder))
    assert copy.assign(columns, 50).shard.tolist() == sharder.assign(columns, 50).shard.tolist()


@given(st.lists(st.none() | st.integers(-9, 9)), st.sampled_from(get_args(NullShardKey)))
def test_split_keeps_order_and_every_row(values: list[int | None], null_shard_key: NullShardKey) -> None:
    assignment = assign(values, null_shard_key=null_shard_key)
    batch = pa.record_batch({"k": pa.array(values, pa.int64()), "row": pa.array(range(len(values)), pa.int64())})
    parts = split(batch, assignment)
    assert [shard for shard, _ in parts] == sorted({shard for shard in assignment.shard.tolist() if shard != NO_SHARD})
    for shard, part in parts:
        assert part.column("row").to_pylist() == np.flatnonzero(assignment.shard == shard).tolist()
        assert part.schema == batch.schema
        assert part.num_rows == assignment.counts[shard] > 0
    lost = 0 if assignment.null_rows is None else len(assignment.null_rows)
    assert sum(part.num_rows for _, part in parts) + lost == len(values)


def test_split_returns_a_whole_batch_as_it_is() -> None:
    batch = pa.record_batch({"k": pa.array([4, 4, 4])})
    ((_, part),) = split(batch, assign([4, 4, 4]))
    assert part is batch
