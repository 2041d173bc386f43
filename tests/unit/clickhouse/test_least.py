"""⚑ Each replica has a deduplication window of its own, and removes tokens of all: the least one counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from chsink.clickhouse.checks.replicas import forgetting
from chsink.clickhouse.table import remembering_least
from chsink.findings import Severity
from tests.support.endpoint import OneServer
from tests.unit.clickhouse.server import table
from tests.unit.clickhouse.test_window import remembering

A_WEEK = 604_800


@dataclass
class Replica(OneServer):
    """Knows the table ``db.t``, whose settings are the server's defaults."""

    url: str
    defaults: Mapping[str, str]
    tables: tuple[str, ...] = ("t",)

    def query(self, sql: str, _: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        if "engine_full" in sql:
            return [("db", name, "ReplicatedMergeTree('/p', 'r') ORDER BY n") for name in self.tables]
        assert "system.replicated_merge_tree_settings" in sql, sql
        return [*self.defaults.items()]


def two(first: tuple[int, int], second: tuple[int, int], *, heard: bool = True) -> list[tuple[str, Severity, str]]:
    """What is said about replicas that remember so many blocks, for so many seconds; the first one is in use.  Unless
    ``heard``, the other one answers only now.
    """
    used = table("ReplicatedMergeTree", merge_tree=remembering(*first))
    used = remembering_least(used, {used.at: remembering(*second)}) if heard else used
    asked = [Replica("http://a", remembering(*first)), Replica("http://b", remembering(*second))]
    return [(one.id, one.severity, one.sentence) for one in forgetting(used, asked)]


@pytest.mark.parametrize(
    ("theirs", "least"),
    [
        ((100, 1000), (100, 1000)),
        ((1000, A_WEEK), (100, 1000)),
        ((10, A_WEEK), (10, 1000)),
        ((1000, 60), (100, 60)),
        ((0, 60), (100, 1000)),
    ],
)
def test_a_table_is_remembered_as_by_the_replica_that_remembers_least(
    theirs: tuple[int, int], least: tuple[int, int]
) -> None:
    fed = table("ReplicatedMergeTree", name="fed", merge_tree=remembering(100, 1000))
    other = table("ReplicatedMergeTree", name="other", merge_tree=remembering(100, 1000))
    target = table("ReplicatedMergeTree", merge_tree=remembering(100, 1000), feeds=(fed, other))
    there = {target.at: remembering(*theirs), fed.at: remembering(*theirs)}
    found = remembering_least(target, there)
    assert [(each.window_blocks, each.window_s) for each in found.with_fed] == [least, least, (100, 1000)]


def test_replicas_of_two_versions_of_clickhouse_are_named_and_not_refused() -> None:
    """⚑ 25.9 remembers more blocks by default, for less time: no start was possible while replicas were upgraded."""
    said = two((1000, A_WEEK), (10_000, 3600))
    assert [(name, severity) for name, severity, _ in said] == [("CHS-234", Severity.WARNING)] * 2
    assert said[0][2].startswith("db.t at http://a remembers 1000 blocks for 604800 s, less than another replica")
    assert said[1][2].endswith("relies on the shortest memory only: 1000 blocks for 3600 s")


def test_a_replica_that_is_heard_too_late_is_refused() -> None:
    """⚑ The start counts with what the others remember."""
    assert [severity for _, severity, _ in two((1000, 3600), (1000, 60), heard=False)] == [Severity.ERROR]
    [(_, severity, sentence)] = two((100, 3600), (1000, 3600), heard=False)
    assert (severity, sentence.partition(" remembers")[0]) == (Severity.WARNING, "db.t at http://a")


def test_replicas_that_remember_alike_are_not_named() -> None:
    assert two((1000, 3600), (1000, 3600)) == []


def test_a_replica_that_remembers_nothing_is_refused() -> None:
    """The fix names it, not the one in use."""
    [(name, severity, sentence)] = two((1000, 3600), (0, 3600))
    assert (name, severity) == ("CHS-210", Severity.ERROR)
    assert sentence == "db.t at http://b does not deduplicate inserts: replicated_deduplication_window is 0"


def test_a_server_without_the_table_says_nothing() -> None:
    assert [*forgetting(table("ReplicatedMergeTree"), [Replica("http://a", remembering(1, 1), ())])] == []
