"""The column that is inferred from JSON values."""

from __future__ import annotations

import pytest

from chsink.decode.inferred import Kinds, wider

INT, FLOAT, TEXT = "Nullable(Int64)", "Nullable(Float64)", "Nullable(String)"


@pytest.mark.parametrize(
    ("values", "column"),
    [
        ("null", None),
        ("[] null", None),
        ("true false null", "Nullable(Bool)"),
        ("1 -2 null", INT),
        ("9223372036854775807 -9223372036854775808", INT),
        ("9223372036854775808 1", "Nullable(Int256)"),
        ("1" + "0" * 77, TEXT),
        ("1 1.5", FLOAT),
        ("1e3", FLOAT),
        ('"x" null', TEXT),
        ('{"a":1}', TEXT),
        ('1 "x"', TEXT),
        ("true 1", TEXT),
        ("[1] [2.5] []", f"Array({FLOAT}) DEFAULT []"),
        ("[null]", None),
        ('[1] ["x"]', f"Array({TEXT}) DEFAULT []"),
        ("[[1],[]]", f"Array(Array({INT})) DEFAULT []"),
        ("[1] 1", TEXT),
        ("[[[[[[[[[[1]]]]]]]]]]", "Array(" * 8 + TEXT + ")" * 8 + " DEFAULT []"),
    ],
)
def test_rules(values: str, column: str | None) -> None:
    kinds = Kinds()
    for value in values.split():
        kinds.add(value.encode())
    assert kinds.column() == column


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (INT, INT, INT),
        (INT, FLOAT, FLOAT),
        ("Nullable(Int256)", INT, "Nullable(Int256)"),
        (INT, "Nullable(Bool)", TEXT),
        ("Array(Nullable(Int64)) DEFAULT []", INT, TEXT),
        ("Nullable(Int8)", "Nullable(Int16)", "Nullable(Int16)"),
        ("Nullable(UInt32)", "Nullable(Int32)", INT),
        ("Nullable(UInt64)", INT, "Nullable(Int128)"),
        ("Nullable(UInt256)", INT, TEXT),
        ("Nullable(Int16)", "Nullable(Float32)", FLOAT),
        ("Nullable(Float32)", "Nullable(Float64)", FLOAT),
    ],
)
def test_a_column_for_the_values_of_two_tasks(one: str, other: str, both: str) -> None:
    assert wider(one, other) == wider(other, one) == both
