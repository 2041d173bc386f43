"""The demo's judge: it calls equal what is equal by value, and nothing else; and the tables it makes for one's own file."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from demo import checker, lake
from demo.checker import Compared, Verdict, compare, parse, same
from demo.data import ddl, from_file

ITEM = Compared("t", "d.t", {"a": "Nullable(Int64)", "b": "Nullable(String)"})


@pytest.mark.parametrize(
    ("sent", "landed", "kind"),
    [
        ('{"b": [1, 2.50, {"c": null}], "a": "é"}', r'"{\"a\":\"é\",\"b\":[1,2.5,{\"c\":null}]}"', "Nullable(String)"),
        (r'{"a": "\u00e9"}', r'"{\"a\": \"é\"}"', "Nullable(String)"),
        ('[1 , null , "x"]', r'"[1 , null , \"x\"]"', "String"),
        ("[]", '"[]"', "LowCardinality(Nullable(String))"),
        ('"日本"', r'"\u65e5\u672c"', "Nullable(String)"),
        ('"[1, 2]"', '"[1, 2]"', "String"),
        ("true", '"true"', "Nullable(String)"),
        ("1.50", '"1.50"', "Nullable(String)"),
        ("1e3", "1000", "Nullable(Float64)"),
        ("1.5E-7", "1.5e-7", "Nullable(Float64)"),
        ("0.1", "0.1", "Float32"),
        ("7", "7.0", "Float64"),
        ("1e3", "1000", "Nullable(Int64)"),
        ("9223372036854775807", "9223372036854775807", "Nullable(Int64)"),
        ("-170141183460469231731687303715884105728", "-170141183460469231731687303715884105728", "Int128"),
        ("null", "null", "Nullable(String)"),
        ('["a", null]', '["a",null]', "Array(Nullable(String))"),
    ],
)
def test_equal_by_value(sent: str, landed: str, kind: str) -> None:
    assert same(parse(sent), parse(landed), kind)


@pytest.mark.parametrize(
    ("sent", "landed", "kind"),
    [
        ('{"a": 1}', r'"{\"a\": true}"', "String"),
        ('{"a": 1}', r'"{\"a\": \"1\"}"', "String"),
        ('{"a": 1}', r'"{\"a\": 1, \"b\": null}"', "String"),
        ("[1, 2]", '"[2, 1]"', "String"),
        ('"[1, 2]"', '"[1,2]"', "String"),
        ('"5"', '"5.0"', "String"),
        ("null", '"null"', "Nullable(String)"),
        ('""', "null", "Nullable(String)"),
        ("0", "null", "Nullable(Float64)"),
        ("9223372036854775807", "9223372036854775808", "Nullable(Int64)"),
        ("0.1", "0.10000000000000002", "Float64"),
        ("1", "true", "Nullable(Int64)"),
    ],
)
def test_different_by_value(sent: str, landed: str, kind: str) -> None:
    assert not same(parse(sent), parse(landed), kind)


def record(**fields: Any) -> dict[str, Any]:
    return fields


def judged(sent: Sequence[dict[str, Any]], landed: Sequence[tuple[int, dict[str, Any]]]) -> Verdict:
    verdict = Verdict(sent=len(sent))
    compare(ITEM, 0, enumerate(sent), landed, verdict)
    return verdict


def test_the_same_record_twice_is_two_records() -> None:
    row = record(a=1, b="x")
    verdict = judged([row, row], [(0, row), (1, row)])
    assert verdict.exactly_once
    assert str(verdict) == "sent=2 landed=2 distinct=2 lost=0 duplicated=0"


def test_a_record_that_is_missing_doubled_changed_or_of_nobody_shows() -> None:
    one, other = record(a=1, b="x"), record(a=2, b="x")
    nothing = record(a=None, b=None)
    for landed, lost, duplicated, first in (
        ([(0, one)], 1, 0, "t partition 0 offset 1: no row"),
        ([(0, one), (0, one), (1, other)], 0, 1, "t partition 0 offset 0: 2 rows"),
        ([(0, one), (1, one)], 1, 1, "t partition 0 offset 1: column a"),
        ([(0, one), (1, other), (2, nothing)], 0, 1, "t partition 0 offset 2: a row of no record"),
        ([(0, other), (1, one)], 2, 2, "t partition 0 offset 0: column a"),
    ):
        verdict = judged([one, other], landed)
        assert not verdict.exactly_once
        assert (verdict.lost, verdict.duplicated, verdict.first) == (lost, duplicated, first)


def test_a_missing_field_is_null() -> None:
    assert judged([{"b": "x"}], [(0, record(a=None, b="x"))]).exactly_once


@pytest.mark.parametrize(("module", "foreign"), [(checker, {"chsink", "statemachine", "demo"}), (lake, {"chsink"})])
def test_the_judge_knows_nothing_of_what_it_judges(module: ModuleType, foreign: set[str]) -> None:
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None), *(alias.name for alias in node.names)]
        if name
    }
    assert not {name for name in imported if name.split(".")[0] in foreign}


def test_a_file_s_columns_hold_every_record_of_it(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"int": 1, "big": 2**63, "huge": 2**200, "sum": 1, "text": 1, "any": None}
    ] * 20_000
    records.append({"sum": 1.5, "text": {"a": [1]}, "flag": True, "huger": 2**300, "": 1, "_kafka_offset": 5, "a`b": 1})
    path = tmp_path / "own.jsonl"
    path.write_text("\n\n".join(map(json.dumps, records)) + "\n  \n")

    [dataset] = from_file(path)

    assert dataset.columns == {
        "int": "Nullable(Int64)",
        "big": "Nullable(Int128)",
        "huge": "Nullable(Int256)",
        "sum": "Nullable(Float64)",
        "text": "Nullable(String)",
        "any": "Nullable(String)",
        "flag": "Nullable(Bool)",
        "huger": "Nullable(String)",
        "a`b": "Nullable(Int64)",
    }
    assert len(dataset.lines) == 20_001
    assert r"`a\`b` Nullable(Int64)" in ddl(dataset, "d")


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": NaN}', "\n"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(text)
    with pytest.raises(SystemExit, match="does not hold one JSON object per line|holds no record"):
        from_file(path)
