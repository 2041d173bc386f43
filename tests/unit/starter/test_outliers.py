"""Columns that became text because of a few values are named, with how many and where; others are not."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chsink.config import Config, load
from chsink.decode.inferred import Kinds
from chsink.starter.outliers import outliers

JOB = """
[sink]
name = "s"
checkpoint = "/c"
[kafka]
bootstrap = "k:1"
[[route]]
topic = "orders"
table = "orders"
[clickhouse]
endpoints = ["http://c:8123"]
"""
TEXT = "Nullable(String)"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    path = tmp_path_factory.mktemp("job") / "job.toml"
    path.write_text(JOB, encoding="utf-8")
    return load(path, environ={})


def said(config: Config, columns: dict[str, str], records: Sequence[Any]) -> list[dict[str, str]]:
    """The parameters of each finding."""
    batch = pa.record_batch(
        {
            "partition": [3] * len(records),
            "offset": range(100, 100 + len(records)),
            "value": pa.array([None if r is None else json.dumps(r).encode() for r in records], pa.binary()),
        }
    )
    return [dict(finding.params) for finding in outliers(config, config.routes[0], columns, [batch])]


@pytest.mark.parametrize(
    ("values", "type"),
    [
        ([*range(18), "n/a", ""], "Nullable(Int64)"),
        ([*range(9), 0.5, *range(9), "n/a"], "Nullable(Float64)"),
        ([True] * 9 + ["yes"], "Nullable(Bool)"),
        (["2026-01-31"] * 9 + [""], "Nullable(Date32)"),
        (["2026-01-31T00:00:00Z"] * 9 + ["2026-01-31T00:00:00.123456Z", "soon"], "Nullable(DateTime64(6, 'UTC'))"),
        ([[1]] * 9 + ["1,2"], "Array(Nullable(Int64)) DEFAULT []"),
        ([0.5] * 12 + ["12,50 €"] + ["8.95"] * 7, "Nullable(Float64)"),
        ([7] * 12 + ["8.95"] + ["8"] * 7, "Nullable(Int64)"),
    ],
)
def test_a_few_values_that_made_a_column_text(config: Config, values: list[Any], type: str) -> None:
    [found] = said(config, {"a": TEXT, "b": TEXT}, [{"a": value, "b": "x"} for value in [None, *values]])
    odd = [
        n for n, v in enumerate(values) if isinstance(v, str) and not v.startswith("2026") and v not in {"8", "8.95"}
    ]
    odd = odd or [values.index("8.95")]  # which is no whole number
    assert (found["column"], found["type"], found["records"]) == ("a", type, str(len(values)))
    assert (found["count"], found["first"]) == (str(len(odd)), f"orders-3@{101 + odd[0]}")


def test_numbers_of_which_some_are_in_quotes(config: Config) -> None:
    """A column of numbers takes both, and says so; where most are in quotes, they may be names."""
    [found] = said(config, {"a": TEXT}, [{"a": value} for value in [1.5] * 6 + ["8.95", "nan"] * 2])
    assert (found["column"], found["type"], found["count"]) == ("a", "Nullable(Float64)", "4")
    assert (found["records"], found["first"]) == ("10", "orders-3@106")
    assert said(config, {"a": TEXT}, [{"a": value} for value in [1.5] * 4 + ["8.95"] * 6]) == []
    assert said(config, {"a": TEXT}, [{"a": value} for value in [True] * 6 + ["8.95"] * 6]) == []


@pytest.mark.parametrize(
    "values", [["x"] * 20, [1, "x"], [*range(8), "x", "y"], ["12"] * 20, [{"x": 1}] * 9 + [1], [], [None, "x"]]
)
def test_text_that_is_text(config: Config, values: list[Any]) -> None:
    assert said(config, {"a": TEXT}, [{"a": value} for value in values]) == []


def test_what_is_no_record_has_no_values(config: Config) -> None:
    assert said(config, {"a": "Nullable(Int64)"}, [{"a": 1}] * 20) == []
    assert said(config, {"a": TEXT}, [None, "text", 7, {}]) == []


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text("xyz €")
)


@example([False, (1 << 53) + 1, 0.0], [0] * 7)
@example([(1 << 53) + 1, 0.0], [0] * 30)
@given(st.lists(scalars, max_size=12), st.lists(st.integers(-9, 9), min_size=0, max_size=80))
def test_the_type_that_is_named_is_that_of_the_other_values(config: Config, odd: list[Any], numbers: list[int]) -> None:
    """Without the values that are counted, the column is inferred as the type that is named."""
    values = [*odd, *numbers]
    for found in said(config, {"a": TEXT}, [{"a": value} for value in values]):
        held = [v for v in values if _fits(v, found["type"])]
        kinds = Kinds(times=True)
        for value in held:
            kinds.add(json.dumps(value).encode())
        assert kinds.column() == found["type"]
        assert len(held) + int(found["count"]) == int(found["records"]) == sum(v is not None for v in values)


def _fits(value: Any, type: str) -> bool:
    fits: dict[str, Callable[[Any], bool]] = {
        "Bool": lambda v: isinstance(v, bool),
        "Int": lambda v: isinstance(v, int) and not isinstance(v, bool) and abs(v) < 1 << 255,
        "Float": lambda v: (
            isinstance(v, float) or (isinstance(v, int) and not isinstance(v, bool) and abs(v) <= 1 << 53)
        ),
        "Date": lambda v: False,
    }
    return next(fit for name, fit in fits.items() if name in type)(value)
