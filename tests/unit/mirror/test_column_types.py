"""The types of new Iceberg columns: from values, from schemas, and the ones that hold both of two."""

from __future__ import annotations

import json
from datetime import date, datetime
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from chsink.decode.connect import ConnectType
from chsink.formats.record_fields import offered_by
from chsink.formats.settings import JSON
from chsink.mirror.column_types import ICEBERG
from chsink.mirror.nested_types import list_of, map_of
from chsink.mirror.types import TableColumns
from tests.unit.mirror.test_types import records

FLAT = st.one_of(
    st.sampled_from([BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), DateType(), StringType()]),
    st.sampled_from([TimestampType(), TimestamptzType(), BinaryType()]),
    st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: DecimalType(p, s))),
)
TYPES = st.recursive(
    FLAT,
    lambda inner: st.one_of(
        inner.map(list_of),
        st.builds(map_of, FLAT, inner),
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(lambda fields: struct(**fields)),
    ),
    max_leaves=6,
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "x", "2026-01-31", "2026-01-31T23:59:59.5Z", "2026-01-31T23:59:59.123456789Z"]),
)
NESTED = st.recursive(
    VALUES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "c", "d.e"]), inner, max_size=3)
    ),
    max_leaves=12,
)


def struct(**fields: IcebergType) -> StructType:
    return StructType(*(NestedField(0, name, kind, required=False) for name, kind in fields.items()))


def union(*kinds: pa.DataType) -> pa.DataType:
    return pa.dense_union([pa.field(str(at), kind) for at, kind in enumerate(kinds)])


def sorted_fields(kind: IcebergType | None) -> IcebergType | None:
    """Without the order of fields, which is that of the records."""
    match kind:
        case StructType():
            fields = {field.name: sorted_fields(field.field_type) for field in kind.fields}
            return struct(**{name: fields[name] or StringType() for name in sorted(fields)})
        case ListType():
            return list_of(sorted_fields(kind.element_type) or StringType())
        case MapType():
            return map_of(kind.key_type, sorted_fields(kind.value_type) or StringType())
    return kind


def seen(*values: Any) -> IcebergType | None:
    """The type for a field with these values."""
    kinds = ICEBERG.kinds(times=True)
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
        ([{"a": 1}, {"b": None}, {"c": True}], struct(a=LongType(), c=BooleanType())),
        ([{"a": 1}, {"a": "x"}], struct(a=StringType())),
        ([[1], [], [None, 1.5]], list_of(DoubleType())),
        ([[[1]], [["x"]]], list_of(list_of(StringType()))),
        ([[{"a": [1]}, {"b": {"c": "2026-01-31"}}]], list_of(struct(a=list_of(LongType()), b=struct(c=DateType())))),
        ([{"a": 1, "b": [], "c": {}}], struct(a=LongType())),
        ([{"a.b": 1}], StringType()),
        ([{"": 1}], StringType()),
        ([{"a": {"b.c": 1}}], struct(a=StringType())),
        ([{"a": 1}, [1]], StringType()),
        ([{"a": 1}, 1], StringType()),
        ([{}, 1], StringType()),
        ([[], {}], StringType()),
        ([{}], None),
        ([{"a": None}, {"b": [[]]}], None),
        ([[{}]], None),
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
        (pa.struct([("a", pa.int8()), ("b", pa.null())]), struct(a=IntegerType())),
        (pa.struct([("a", pa.null())]), None),
        (pa.struct([]), None),
        (pa.list_(pa.list_(pa.int8())), list_of(list_of(IntegerType()))),
        (pa.list_(pa.struct([])), None),
        (pa.map_(pa.int32(), pa.struct([("a", pa.string())])), map_of(IntegerType(), struct(a=StringType()))),
        (union(pa.null(), pa.int32(), pa.int64()), LongType()),
        (union(pa.null(), pa.int32(), pa.string()), StringType()),
        (union(pa.int64(), pa.float64()), StringType()),
        (pa.list_(union(pa.int64(), pa.float32())), list_of(StringType())),
        (union(pa.binary(), pa.string()), None),
        (union(pa.int32(), pa.list_(pa.int32())), None),
    ],
)
def test_a_schema(arrow: pa.DataType, kind: IcebergType | None) -> None:
    assert ICEBERG.of_schema(arrow) == kind


def test_two_schemas() -> None:
    """⚑ A double would round long whole numbers, also those inside."""
    text = StringType()
    for kind, both in ((IntegerType(), DoubleType()), (LongType(), text), (DecimalType(20, 0), text)):
        for fraction in (FloatType(), DoubleType()):
            assert ICEBERG.of_schemas(kind, fraction) == ICEBERG.of_schemas(fraction, kind) == both
            for outer in (list_of, lambda inner: struct(x=inner), lambda inner: map_of(text, inner)):
                assert ICEBERG.of_schemas(outer(kind), outer(fraction)) == outer(both)
    assert ICEBERG.wider(list_of(LongType()), list_of(DoubleType())) == list_of(DoubleType()), "of two tasks"


def test_connect() -> None:
    instant = ConnectType(type="int64", name="io.debezium.time.MicroTimestamp")
    assert ICEBERG.of_connect(instant, times=False) == LongType()
    assert ICEBERG.of_connect(instant, times=True) == TimestamptzType()
    assert ICEBERG.of_connect(ConnectType(type="int16"), times=True) == IntegerType()
    point = ConnectType(type="struct", fields=[ConnectType(type="double", field="x"), instant])
    assert ICEBERG.of_connect(point, times=True) == StringType(), "a name that no field can have"
    at = ConnectType(type="int64", field="at", name=instant.name)
    several = ConnectType(type="array", items=ConnectType(type="struct", fields=[point.fields[0], at]))
    assert ICEBERG.of_connect(several, times=True) == list_of(struct(x=DoubleType(), at=TimestamptzType()))
    assert ICEBERG.of_connect(ConnectType(type="map"), times=True) == StringType()


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
        ("Array(Int64) DEFAULT []", list_of(LongType())),
    ],
)
def test_a_column_that_the_job_file_names(declared: str, kind: IcebergType) -> None:
    assert ICEBERG.of_clickhouse(declared) == kind


@given(st.permutations(range(4)), st.lists(TYPES, min_size=4, max_size=4))
def test_what_holds_all_types_does_not_depend_on_their_order(order: list[int], types: list[IcebergType]) -> None:
    for both in (ICEBERG.wider, ICEBERG.of_schemas):
        wide = reduce(both, types)
        assert sorted_fields(reduce(both, [types[i] for i in order])) == sorted_fields(wide)
        assert all(both(wide, kind) == wide for kind in types), "wide enough for each"


@given(st.lists(NESTED, max_size=6), st.randoms(use_true_random=False))
def test_more_values_only_widen(values: list[Any], random: Any) -> None:
    shuffled = random.sample(values, len(values))
    kind = seen(*values)
    assert sorted_fields(seen(*shuffled)) == sorted_fields(kind)
    fewer = seen(*values[:3])
    assert fewer is None or kind is None or ICEBERG.wider(kind, fewer) == kind


@settings(max_examples=60, deadline=None)
@given(st.lists(NESTED, max_size=6))
def test_every_value_fits_the_column_that_was_made_for_it(values: list[Any]) -> None:
    """⚑ A-2: and it is there, but for what shows no type."""
    texts = [json.dumps({"a": value, "b": 1}).encode() for value in values]
    offered = offered_by(JSON, ICEBERG)
    assert offered is not None
    types = {n: kind for n, kind in offered.columns(pa.array(texts, pa.binary()), (), times=True).items() if kind}
    if types:
        fields = [NestedField(0, name, kind, required=False) for name, kind in types.items()]
        decoded = TableColumns(assign_fresh_schema_ids(Schema(*fields))).decode(records(*texts))
        assert not decoded.bad
        kind = types.get("a")
        rows = decoded.batch.to_pylist()
        assert [row.get("a") for row in rows] == [None if kind is None else read(kind, value) for value in values]


def read(kind: IcebergType, value: Any) -> Any:
    """The value in the column, by rules of its own."""
    match kind:
        case _ if value is None:
            return None
        case StructType():
            return {field.name: read(field.field_type, value.get(field.name)) for field in kind.fields}
        case ListType():
            return [read(kind.element_type, item) for item in value]
        case StringType():
            return value if isinstance(value, str) else json.dumps(value)
        case DateType():
            return date.fromisoformat(value)
        case TimestamptzType():
            return datetime.fromisoformat(value)
    assert isinstance(value, bool | int | float), value
    return value
