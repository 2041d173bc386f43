"""A target table, judged from its description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from chsink.clickhouse.checks.columns import column_findings
from chsink.clickhouse.checks.tables import target_findings
from chsink.clickhouse.definition import Ttl
from chsink.clickhouse.shards import RoutedTable, ShardTable
from chsink.clickhouse.table import TargetTable
from chsink.decode.columns import Column
from chsink.findings import Severity
from chsink.sharding import Layout, Shard
from tests.support.endpoint import OneServer

WINDOW = {
    "non_replicated_deduplication_window": "100",
    "replicated_deduplication_window": "1000",
    "replicated_deduplication_window_seconds": "3600",
}
URLS = ("http://a:8123", "http://b:8123")


@dataclass(frozen=True)
class Described(OneServer):
    """A server that is not asked: its table is described already."""

    url: str

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        raise AssertionError(sql)


def table(*columns: tuple[str, ...], engine: str = "MergeTree", partition_key: str = "") -> TargetTable:
    described = tuple(Column(*(*c, "", "")[:4]) for c in columns or (("id", "UInt32"),))
    return TargetTable("d", "t", "uuid", engine, described, partition_key, Ttl(), WINDOW, "UTC")


def target(*tables: TargetTable, shard_key: tuple[str, ...] = ()) -> RoutedTable:
    shards = tuple(ShardTable(Described(url), table) for url, table in zip(URLS, tables, strict=False))
    return RoutedTable("topic", "d.t", shards, shard_key)


def found(checked: RoutedTable) -> list[tuple[str, str]]:
    return [(f.id, str(f.severity)) for f in target_findings(checked)]


def test_a_plain_table_is_ok() -> None:
    [finding] = target_findings(target(table()))

    assert (finding.id, finding.severity) == ("CHS-203", Severity.OK)
    assert "MergeTree that remembers 100 blocks" in finding.sentence
    assert "shards" not in finding.sentence


def test_shards_that_are_alike_are_said_once() -> None:
    [finding] = target_findings(target(table(), table(), shard_key=("id",)))

    assert finding.sentence.count("MergeTree that remembers 100 blocks, on 2 shards") == 1
    assert finding.sentence.count("remembers") == 1


@pytest.mark.parametrize(
    ("described", "verdict"),
    [
        (table(engine="Distributed"), ("CHS-203", "error")),
        (replace(table(), merge_tree=dict.fromkeys(WINDOW, "0")), ("CHS-210", "error")),
        (replace(table(), merge_tree={**WINDOW, "async_insert": "1"}), ("CHS-267", "error")),
        (table(("s", "AggregateFunction(sum, UInt8)")), ("CHS-214", "error")),
        (table(("at", "DateTime", "DEFAULT", "now()")), ("CHS-209", "warning")),
        (table(("at", "DateTime", "DEFAULT", "now()"), partition_key="toYYYYMM(at)"), ("CHS-206", "error")),
        (table(("id", "UInt8"), partition_key="toDate(now())"), ("CHS-206", "error")),
        (table(("r", "String", "DEFAULT", "dictGet('d', 'r', id)"), partition_key="r"), ("CHS-206", "error")),
        (table(("n", "UUID", "DEFAULT", "generateUUIDv4()")), ("CHS-209", "warning")),
        (table(engine="ReplacingMergeTree"), ("CHS-240", "warning")),
        (table(engine="SummingMergeTree"), ("CHS-240", "warning")),
        (table(engine="AggregatingMergeTree"), ("CHS-240", "warning")),
        (table(engine="VersionedCollapsingMergeTree"), ("CHS-240", "warning")),
        (table(engine="ReplicatedReplacingMergeTree"), ("CHS-240", "warning")),
        (table(engine="SharedCollapsingMergeTree"), ("CHS-240", "warning")),
    ],
)
def test_what_is_wrong_with_one_table(described: TargetTable, verdict: tuple[str, str]) -> None:
    assert found(target(described)) == [verdict]


@pytest.mark.parametrize("engine", ["MergeTree", "ReplicatedMergeTree", "SharedMergeTree"])
def test_engines_that_keep_every_row(engine: str) -> None:
    assert found(target(table(engine=engine))) == [("CHS-203", "ok")]


@pytest.mark.parametrize(
    "kind",
    [
        "JSON(a UInt8)",
        "JSON(max_dynamic_paths=8, `a)` Decimal(9, 2), SKIP b)",
        "JSON(max_dynamic_paths UInt8)",
        "JSON(`SKIP` UInt8)",
        "JSON(SKIP `x, y`, a UInt8)",
        "Array(Nullable(JSON(a UInt8)))",
        "SimpleAggregateFunction(anyLast, JSON(a UInt8))",
    ],
)
def test_json_with_typed_paths_is_refused(kind: str) -> None:
    """⚑ the server would change values to fit the paths' types, silently: 1.9 becomes 1, null becomes 0."""
    [finding] = target_findings(target(table(("c", kind))))

    assert (finding.id, finding.severity) == ("CHS-214", Severity.ERROR)
    assert "JSON without typed paths" in (finding.fix or "")
    assert columns(("c", kind)) == [("CHS-223", "ok")], "one finding is enough"


@pytest.mark.parametrize(
    "kind",
    [
        "JSON",
        "JSON()",
        "JSON(max_dynamic_types=64, max_dynamic_paths=3)",
        "JSON(SKIP `a.b`, SKIP UInt8, SKIP REGEXP 'x,\\')y')",
        "JSON(SKIP `a\\`, b UInt8`)",
        "Array(JSON(max_dynamic_paths=8))",
        "Tuple(`JSON(a UInt8)` UInt8)",
    ],
)
def test_json_without_typed_paths_is_taken(kind: str) -> None:
    assert found(target(table(("c", kind)))) == [("CHS-203", "ok")]


def test_json_that_keeps_few_types_is_refused() -> None:
    """⚑ 9223372036854775807 became 9223372036854776000 there, beside a fraction."""
    [finding] = target_findings(target(table(("c", "Array(JSON(max_dynamic_types=2))"))))
    assert (finding.id, finding.severity) == ("CHS-214", Severity.ERROR)
    assert "without max_dynamic_types" in (finding.fix or "")


def test_nested_headers_are_refused() -> None:
    """⚑ a Nested column has none of the name that is written to: every record would be bad."""
    described = table(("id", "UInt8"), ("_kafka_headers.key", "Array(String)"), ("n.a", "Array(String)"))

    [finding] = target_findings(target(described))

    assert (finding.id, finding.severity) == ("CHS-214", Severity.ERROR)
    assert "_kafka_headers Array(Tuple(" in (finding.fix or "")


def test_a_partition_key_through_another_columns_default() -> None:
    """⚑ partition keys that depend on server-side defaults are refused, also at one remove."""
    described = table(
        ("at", "DateTime", "DEFAULT", "now()"), ("day", "Date", "DEFAULT", "toDate(at)"), partition_key="day"
    )

    assert ("CHS-206", "error") in found(target(described))


@pytest.mark.parametrize(
    ("default", "volatile"),
    [
        ("initialQueryStartTime()", True),
        ("initial_query_start_time()", True),
        ("currentQueryID()", True),
        ("generateSerialID('x')", True),
        ("dateTimeToUUIDv7(at)", True),
        ("localtime()", True),
        ("curdate()", True),
        ("fuzzBits(s, 0.1)", True),
        ("getSetting('custom_x')", True),
        ("dictHas('d', id)", True),
        ("file('x')", True),
        ("blockNumber()", True),
        ("aiClassify('m', s)", True),
        ("toDate(CURRENT_TIMESTAMP)", True),
        ("now", True),
        ("concat('now', 'it\\'s today')", False),
        ("toDate(today)", False),
        ("toDate(payload.now)", False),
        ("'user (unknown)'", False),
        ("if(`it's` = 'x', now(), at)", True),
        ("if(`it's` = 'now()', at, at)", False),
        ("database()", True),
        ("authenticatedUser()", True),
        ("currentUser()", True),
        ("toDate(payload.`now`)", False),
        ("fromUnixTimestamp(id)", False),
        ("profile(id)", False),
        ("dateTimeToSnowflakeID(at)", False),
    ],
)
def test_functions_that_change_from_insert_to_insert(default: str, *, volatile: bool) -> None:
    described = table(("c", "String", "DEFAULT", default), ("today", "Date"), partition_key="c")

    assert (("CHS-206", "error") in found(target(described))) is volatile


def test_shards_must_be_alike() -> None:
    assert found(target(table(("id", "UInt32")), table(("id", "UInt64")))) == [("CHS-204", "error")]


def test_the_shard_key_is_a_column() -> None:
    assert found(target(table(), table(), shard_key=("nosuch",))) == [("CHS-205", "error")]


# --- columns ---------------------------------------------------------------------------------------------------------

ONE_SHARD = Layout((Shard((URLS[0],)),))


def columns(*described: tuple[str, ...], written: tuple[str, ...] | None = None) -> list[tuple[str, str]]:
    findings = column_findings(target(table(*described)), ONE_SHARD, written)
    return [(f.id, str(f.severity)) for f in findings]


@pytest.mark.parametrize(
    ("name", "kind", "severities"),
    [
        ("_kafka_topic", "LowCardinality(String)", ["ok"]),
        ("_kafka_topic", "Enum8('another' = 1)", ["error"]),
        ("_kafka_partition", "Int32", ["ok"]),
        ("_kafka_partition", "UInt8", ["warning"]),
        ("_kafka_offset", "UInt64", ["ok"]),
        ("_kafka_offset", "UInt32", ["warning"]),
        ("_kafka_timestamp", "DateTime64(3)", ["ok"]),
        ("_kafka_timestamp", "DateTime64(2)", ["error"]),
        ("_kafka_timestamp", "DateTime", ["error"]),
        ("_kafka_key", "Nullable(String)", ["ok"]),
        ("_kafka_key", "String", ["warning"]),
        ("_kafka_headers", "Array(Tuple(key String, value Nullable(String)))", ["warning"]),
        ("_kafka_headers", "Map(String, String)", ["error"]),
    ],
)
def test_columns_of_kafkas_own_fields(name: str, kind: str, severities: list[str]) -> None:
    assert columns((name, kind)) == [("CHS-223", s) for s in severities]


@pytest.mark.parametrize(
    ("name", "kind", "default"),
    [("_kafka_key", "String", "''"), ("_kafka_headers", "Array(Tuple(key String, value Nullable(String)))", "[]")],
)
def test_a_default_stands_in_for_a_missing_field(name: str, kind: str, default: str) -> None:
    assert columns((name, kind, "DEFAULT", default)) == [("CHS-223", "ok")]


def test_a_column_that_no_value_can_be_written_to() -> None:
    assert columns(("v", "Variant(UInt8, Array(Date))")) == [("CHS-504", "error")]


def test_only_written_columns_count() -> None:
    described = (("v", "Variant(UInt8, Array(Date))"), ("id", "UInt8"))

    assert columns(*described, written=("id",)) == [("CHS-223", "ok")]


def test_a_key_type_that_the_hash_does_not_take() -> None:
    layout = Layout((Shard((URLS[0],)), Shard((URLS[1],))), "intHash64", ("name",))
    described = table(("name", "String"))

    findings = column_findings(target(described, described), layout, None)

    assert [(f.id, str(f.severity)) for f in findings] == [("CHS-404", "error")]
