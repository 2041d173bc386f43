"""The types of new Iceberg columns: from values, from schemas, and the ones that hold both of two."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from chsink.decode.connect import ConnectType
from chsink.decode.inferred import Kinds
from chsink.formats.record_fields import offered_by
from chsink.formats.settings import JSON
from chsink.mirror.column_types import ICEBERG
from chsink.mirror.types import TableColumns
from tests.unit.mirror.test_types import records

TYPES = st.one_of(
    st.sampled_from([BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), DateType(), StringType()]),
    st.sampled_from([TimestampType(), TimestamptzType(), BinaryType()]),
    st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: DecimalType(p, s))),
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "x", "2026-01-31", "2026-01-31T23:59:59.5Z", "2026-01-31T23:59:59.123456789Z"]),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.sampled_from("ab"), st.integers(0, 3), max_size=2),
)


def seen(*values: Any) -> IcebergType | None:
    """The type for a field with these values."""
    kinds = Kinds(times=True)
    for value in values:
        kinds.add(json.dumps(value).encode())
    return ICEBERG.of_json(kinds)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True], BooleanType()),
        ([1, None], LongType()),
        ([1, 1.5], DoubleType()),
        ([2**63], StringType()),
        (["2026-01-31"], DateType()),
        (["2026-01-31T23:59:59.5Z"], TimestamptzType()),
        (["2026-01-31T23:59:59.123456789Z"], StringType()),
        (["2026-01-31", "x"], StringType()),
        ([{"a": 1}], StringType()),
        ([[1]], StringType()),
        ([1, "x"], StringType()),
        ([None], None),
        ([[]], None),
        ([], None),
    ],
)
def test_json(values: list[Any], kind: IcebergType | None) -> None:
    assert seen(*values) == kind


@pytest.mark.parametrize(
    ("arrow", "kind"),
    [
        (pa.int8(), IntegerType()),
        (pa.int32(), IntegerType()),
        (pa.uint16(), IntegerType()),
        (pa.uint32(), LongType()),
        (pa.int64(), LongType()),
        (pa.uint64(), DecimalType(20, 0)),
        (pa.float32(), FloatType()),
        (pa.float64(), DoubleType()),
        (pa.decimal128(9, 2), DecimalType(9, 2)),
        (pa.decimal256(40, 2), StringType()),
        (pa.timestamp("us", "UTC"), TimestamptzType()),
        (pa.timestamp("ms"), TimestampType()),
        (pa.time32("ms"), StringType()),
        (pa.binary(4), BinaryType()),
        (pa.struct([("a", pa.int8())]), None),
        (pa.list_(pa.int8()), None),
    ],
)
def test_a_schema(arrow: pa.DataType, kind: IcebergType | None) -> None:
    assert ICEBERG.of_schema(arrow) == kind


def test_connect() -> None:
    instant = ConnectType(type="int64", name="io.debezium.time.MicroTimestamp")
    assert ICEBERG.of_connect(instant, times=False) == LongType()
    assert ICEBERG.of_connect(instant, times=True) == TimestamptzType()
    assert ICEBERG.of_connect(ConnectType(type="int16"), times=True) == IntegerType()


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("Nullable(Int64)", LongType()),
        ("UInt8", IntegerType()),
        ("UInt64", DecimalType(20, 0)),
        ("Nullable(Decimal(38, 2))", DecimalType(38, 2)),
        ("Nullable(Decimal(76, 20))", StringType()),
        ("Nullable(DateTime64(6, 'UTC'))", TimestamptzType()),
        ("Nullable(DateTime64(9, 'UTC'))", StringType()),
        ("LowCardinality(Nullable(String))", StringType()),
        ("Array(Int64) DEFAULT []", StringType()),
    ],
)
def test_a_column_that_the_job_file_names(declared: str, kind: IcebergType) -> None:
    assert ICEBERG.of_clickhouse(declared) == kind


@given(st.permutations(range(4)), st.lists(TYPES, min_size=4, max_size=4))
def test_what_holds_all_types_does_not_depend_on_their_order(order: list[int], types: list[IcebergType]) -> None:
    wide = reduce(ICEBERG.wider, types)
    assert reduce(ICEBERG.wider, [types[i] for i in order]) == wide
    assert all(ICEBERG.wider(wide, kind) == wide for kind in types), "wide enough for each"


@given(st.lists(VALUES, max_size=6), st.randoms(use_true_random=False))
def test_more_values_only_widen(values: list[Any], random: Any) -> None:
    shuffled = random.sample(values, len(values))
    kind = seen(*values)
    assert seen(*shuffled) == kind
    fewer = seen(*values[:3])
    assert fewer is None or kind is None or ICEBERG.wider(kind, fewer) == kind


@given(st.lists(VALUES.filter(lambda v: v != []), max_size=6))
def test_every_value_fits_the_column_that_was_made_for_it(values: list[Any]) -> None:
    texts = [json.dumps({"a": value, "b": 1}).encode() for value in values]
    offered = offered_by(JSON, ICEBERG)
    assert offered is not None
    types = offered.columns(pa.array(texts, pa.binary()), (), times=True)
    fields = [NestedField(i, n, kind) for i, (n, kind) in enumerate(types.items()) if kind is not None]
    if fields:
        assert not TableColumns(Schema(*fields)).decode(records(*texts)).bad
