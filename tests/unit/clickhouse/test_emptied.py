"""A table without rows in which rows landed: what is noticed, and what may be empty by right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from chsink.clickhouse.checks.emptied import emptied_findings
from chsink.clickhouse.definition import Ttl
from chsink.clickhouse.shards import RoutedTable, ShardTable
from chsink.findings import Severity
from chsink.statemachine.parts import Mark, Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Phase, StateKey, StateRecord
from chsink.statemachine.tally import Tally
from tests.support.endpoint import OneServer
from tests.unit.clickhouse.server import StoppedClock, table

KEY = StateKey("sink", "topic", 0, "db.t")
LANDED = StateRecord(Phase.AFTER, 1, "a", 50, 60, sent=Sending(layout="now", pipeline="columns=1"))
HELD, BARE = Mark(7, 0), Mark(0, 0)


@dataclass
class Shard(OneServer):
    """Has a row, or none."""

    row: bool
    url: str

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        assert sql == "SELECT 1 FROM `db`.`t` LIMIT 1"
        return [(1,)] if self.row else []


def findings(*rows: bool, key: StateKey = KEY, layout: str = "now", **changes: Any) -> list[tuple[str, Severity, str]]:
    described = table(**{k: changes.pop(k) for k in ("engine", "ttl") if k in changes})
    shards = tuple(ShardTable(Shard(row, f"http://{n}"), described) for n, row in enumerate(rows))
    record = replace(LANDED, **changes)
    found = emptied_findings({key: record}, RoutedTable("topic", "db.t", shards), layout, StoppedClock())
    return [(one.id, one.severity, one.sentence) for one in found]


def test_an_empty_table_in_which_offsets_landed() -> None:
    """⚑ created again, it would lack them for ever, and nothing would say so."""
    for rows in ([False], [False, False]):
        [(number, severity, sentence)] = findings(*rows)
        assert (number, severity) == ("CHS-266", Severity.WARNING)
        assert "offsets of topic landed in it: 60;" in sentence


def test_a_table_with_rows() -> None:
    assert findings(True) == [("CHS-266", Severity.OK, "db.t holds rows of topic, as recorded")]


@pytest.mark.parametrize(
    "changes",
    [
        {"key": replace(KEY, table="db.other")},
        {"key": replace(KEY, topic="other")},
        {"phase": Phase.EMPTY, "start": 0, "end": 0},
        {"phase": Phase.BEFORE, "start": 0},
        {"tally": Tally(skipped=20, dead_letters=40)},
        {"gaps": (OffsetRange(0, 60),)},
        {"sent": Sending(layout="now", pipeline="columns=1,table_by=2")},
        {"sent": Sending(layout="now")},
        {"ttl": Ttl(removes_rows=True)},
        {"engine": "ReplicatedCollapsingMergeTree"},
        {"engine": "VersionedCollapsingMergeTree"},
        {"engine": "SummingMergeTree"},
    ],
)
def test_a_table_that_may_be_empty(changes: dict[str, Any]) -> None:
    assert findings(False, **changes) == []


@pytest.mark.parametrize("pipeline", ["columns=1,table_by=2", ""])
def test_a_table_that_shares_a_topic_and_had_rows(pipeline: str) -> None:
    [(_, severity, _)] = findings(False, sent=Sending(layout="now", pipeline=pipeline), seen=Seen(0, (HELD,)))
    assert severity is Severity.WARNING


def test_one_shard_that_held_blocks() -> None:
    """⚑ a server that was set up again, with an empty table."""
    [(number, severity, sentence)] = findings(True, False, seen=Seen(0, (HELD, HELD)))
    assert (number, severity) == ("CHS-266", Severity.WARNING)
    assert "at http://1" in sentence


@pytest.mark.parametrize(
    ("layout", "marks"), [("now", (HELD, BARE)), ("other", (HELD, HELD)), ("now", (HELD,)), ("now", ())]
)
def test_a_shard_that_may_have_no_row(layout: str, marks: tuple[Mark, ...]) -> None:
    assert [severity for _, severity, _ in findings(True, False, layout=layout, seen=Seen(0, marks))] == [Severity.OK]
