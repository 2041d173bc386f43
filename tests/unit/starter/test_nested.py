"""Notes beside a proposed table: fields without a column, numbers that a Float64 rounds, and numbers that are text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from chsink.config import load
from chsink.starter.nested import nested_notes

TEXT, FLOAT, INT = "Nullable(String)", "Nullable(Float64)", "Nullable(Int64)"
JOB = """
[sink]
name = "s"
checkpoint = "/c"
[kafka]
bootstrap = "k:1"
[[route]]
topic = "orders"
table = "orders"
format = "{format}"
[clickhouse]
endpoints = ["http://c:8123"]
"""


def notes(folder: Path, columns: dict[str, str], records: list[Any], format: str = "json") -> list[str]:
    path = folder / "job.toml"
    path.write_text(JOB.replace("{format}", format), encoding="utf-8")
    config = load(path, environ={})
    values = [None if r is None else r.encode() if isinstance(r, str) else json.dumps(r).encode() for r in records]
    nothing = pa.nulls(len(values), pa.binary())
    batch = pa.record_batch({"key": nothing, "value": pa.array(values, pa.binary())})
    return list(nested_notes(config, config.routes[0], columns, [batch]))


def changes(*rows: dict[str, Any]) -> list[Any]:
    return [{"before": None, "after": row, "source": {"lsn": 1}, "op": "c"} for row in rows]


def test_numbers_that_a_float_rounds(tmp_path: Path) -> None:
    """⚑ Money became Float64, and nothing said that it rounds."""
    columns = {"n": INT, "price": FLOAT, "lines": TEXT, "total": FLOAT}
    records = ['{"n": 1, "price": 12.50, "lines": [{"x": 1.5}], "total": 0.1234567890123456789, "a.b": 1.5}', None]
    [*_, said] = notes(tmp_path, columns, records)
    assert said.startswith("a Float64 rounds to about 16 digits (price, lines, total); for money, declare a Decimal(")
    assert notes(tmp_path, {"n": INT}, [{"n": 1}]) == []


@pytest.mark.parametrize("values", [["12.50", "1", None], ["-0.05"], ["1", 2.5, "3"]])
def test_numbers_that_are_text(tmp_path: Path, values: list[Any]) -> None:
    """⚑ Nothing said that the columns could be of numbers."""
    [said] = notes(tmp_path, {"price": TEXT, "b": TEXT}, ["no record", *({"price": v, "b": "x"} for v in values)])
    assert said.startswith("text that looks like numbers stays text (price); for amounts, declare a Decimal(P, S)")


@pytest.mark.parametrize("values", [["12.50", "n/a"], ["", "1"], ["1,5"], ["2026-01"], [True, "1.5", "x"]])
def test_text_that_is_text(tmp_path: Path, values: list[Any]) -> None:
    assert notes(tmp_path, {"a": TEXT}, [{"a": value} for value in values]) == []


def test_decimals_of_debezium(tmp_path: Path) -> None:
    """⚑ It said to declare a Tuple(scale, value): chsink reads a VariableScaleDecimal as the number that it is."""
    rows = changes({"total": {"scale": 3, "value": "ATA5"}, "price": "12.50", "base64": "MDk=", "nothing": None})
    gone, said = notes(tmp_path, {"total": TEXT, "price": TEXT, "base64": TEXT}, rows, "debezium")
    assert gone.startswith(
        "field 'nothing' is left out, because the sample does not tell its type: nulls and empty arr"
    )
    assert "schema" not in gone and said.startswith("text that looks like numbers stays text (total, price); ")
