"""Types of Iceberg columns as the job file names them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import DecimalType, FixedType, IcebergType, LongType, StringType, TimestamptzType, UUIDType

from chsink.config.mirror import NewTable
from chsink.mirror.nested_types import list_of, map_of, struct_of, type_of

FLAT = st.sampled_from([LongType(), StringType(), TimestamptzType(), UUIDType(), DecimalType(9, 2), FixedType(4)])


def struct(fields: dict[str, IcebergType]) -> IcebergType:
    return struct_of(fields) or StringType()


TYPES: st.SearchStrategy[IcebergType] = st.recursive(
    FLAT,
    lambda inner: st.one_of(
        inner.map(list_of),
        st.builds(map_of, FLAT, inner),
        st.dictionaries(st.sampled_from(["a", "b c", "ü"]), inner, min_size=1).map(struct),
    ),
    max_leaves=8,
)


@given(TYPES)
def test_a_type_is_read_as_pyiceberg_writes_it(kind: IcebergType) -> None:
    text = re.sub(r"\d+: (.*?): optional ", r"\1: ", str(kind))
    assert type_of(text) == kind
    assert type_of(text.replace("<", " < ").replace(">", " >").replace(", ", ",")) == kind


@pytest.mark.parametrize(
    "text",
    ["", "text", "LONG", "decimal(2, 3)", "decimal(39, 0)", "fixed[0]", "list<>", "list<long", "list<long, long>"],
)
def test_what_is_no_type(text: str) -> None:
    not_a_type(text)


@pytest.mark.parametrize(
    "text",
    [
        "map<string>",
        "map<list<long>, long>",
        "struct<>",
        "struct<long>",
        "struct<a.b: long>",
        "struct<a: long, a: int>",
    ],
)
def test_what_cannot_be_inside(text: str) -> None:
    not_a_type(text)


def not_a_type(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        type_of(text)
    with pytest.raises(ValueError, match="CHS-104"):
        NewTable(types={"x": text})


@pytest.mark.parametrize("name", ["", "a.b", "_kafka_offset"])
def test_what_is_no_column(name: str) -> None:
    types: Any = {name: "long"}
    with pytest.raises(ValueError, match="CHS-104"):
        NewTable(types=types)
