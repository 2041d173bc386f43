"""The Iceberg types of ClickHouse's columns: the table in the documentation, and which ClickHouse table is meant."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from chsink.config import Config
from chsink.errors import PreflightError
from chsink.mirror.clickhouse_types import type_of_column
from chsink.tables import clickhouse_columns as room

PAGE = Path(__file__).parents[3] / "docs/mirror.md"


def rows() -> list[tuple[str, str]]:
    """Each ClickHouse type of the page, and the Iceberg type beside it; "none" for none."""
    _, _, table = PAGE.read_text(encoding="utf-8").partition("| ClickHouse | Iceberg |")
    found = []
    for line in table.partition("\n\n")[0].splitlines()[2:]:
        left, right = line.strip("| ").split(" | ")
        kinds = [kind for kind in re.findall("`([^`]+)`", left) if kind not in ("n.x", "Nested")]
        found += [(kind, "".join(re.findall("`([^`]+)`", right)[:1]) or "none") for kind in kinds]
    assert len(found) > 40
    return found


@pytest.mark.parametrize(("declared", "kind"), rows())
def test_the_page_says_what_a_column_becomes(declared: str, kind: str) -> None:
    found = type_of_column(declared, "UTC")
    assert ("none" if found is None else re.sub(r"\d+: ", "", str(found))) == kind


@pytest.mark.parametrize(
    ("declared", "zone", "kind"),
    [
        ("DateTime", "Europe/Berlin", "None"),
        ("DateTime64(3)", "Etc/UTC", "timestamptz"),
        ("DateTime('UTC')", "Europe/Berlin", "timestamptz"),
        ("Array(DateTime)", "Europe/Berlin", "None"),
        ("Map(Array(String), String)", "UTC", "None"),
        ("Map(String, Int128)", "UTC", "None"),
        ("Tuple(`a.b` Int64)", "UTC", "None"),
        ("Tuple(x Int64, y Int256)", "UTC", "None"),
        ("LowCardinality(Nullable(String))", "UTC", "string"),
    ],
)
def test_zones_and_what_lies_inside(declared: str, zone: str, kind: str) -> None:
    assert str(type_of_column(declared, zone)) == kind


# --- which table ------------------------------------------------------------------------------------------------------

BY = {"field": "$.type", "tables": {"order": "orders", "refund": "refunds"}}
MIRRORED = {"field": "$.type", "tables": {"refund": "shop.refunds", "order": "shop.orders"}}


def config(routes: list[dict[str, Any]], mirrored: list[dict[str, Any]]) -> Config:
    return Config.from_mapping(
        {
            "sink": {"name": "s"},
            "kafka": {"bootstrap": "k:9092"},
            "route": routes,
            "clickhouse": {"endpoints": ["http://a:8123"]},
            "mirror": {"enabled": True, "catalog": {"name": "lake"}, "route": mirrored},
        }
    )


def source(routes: list[dict[str, Any]], mirrored: dict[str, Any], table: str = "shop.orders") -> str:
    loaded = config(routes, [mirrored])
    return loaded.table_of(room._route(loaded, table)).canonical


def test_the_table_with_the_same_records() -> None:
    orders = {"topic": "t", "table": "shop.orders"}
    assert source([{"topic": "u", "table": "a"}, {"topic": "t", "table": "b"}], orders) == "default.b"
    by = {"topic": "t", "table_by": MIRRORED}
    assert source([{"topic": "t", "table_by": BY}], by) == "default.orders"
    assert source([{"topic": "t", "table_by": BY}], by, "shop.refunds") == "default.refunds"
    several = {"topics": ["t", "u"], "table": "shop.orders"}
    assert source([{"topics": ["t", "u"], "table": "a"}], several) == "default.a"


@pytest.mark.parametrize(
    ("routes", "mirrored", "words"),
    [
        ([{"topic": "u", "table": "a"}], {"topic": "t", "table": "shop.orders"}, "no .* of the topic t"),
        ([{"topic": "t", "table_by": BY}], {"topic": "t", "table": "shop.orders"}, "no .* of the topic t"),
        (
            [{"topic": "t", "table": "a"}, {"topic": "t", "table": "b"}],
            {"topic": "t", "table": "shop.orders"},
            r"several: default\.a, default\.b",
        ),
        (
            [{"topics": ["t", "u"], "table": "{topic}"}],
            {"topics": ["t", "u"], "table": "shop.orders"},
            r"several: default\.t, default\.u",
        ),
    ],
)
def test_no_table_or_several(routes: list[dict[str, Any]], mirrored: dict[str, Any], words: str) -> None:
    with pytest.raises(PreflightError, match=f"CHS-284.*{words}"):
        source(routes, mirrored)
