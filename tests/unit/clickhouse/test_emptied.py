"""A table without rows in which rows landed: what is noticed, and what may be empty by right."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from chsink.clickhouse.checks.emptied import emptied_findings
from chsink.clickhouse.definition import Ttl
from chsink.clickhouse.shards import RoutedTable, ShardTable
from chsink.decode.columns import Column
from chsink.findings import Severity
from chsink.formats.pipeline import digest_of
from chsink.notation.metadata_columns import PROBE_COLUMNS
from chsink.sharding import Layout
from chsink.sharding import Shard as Listed
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
    """Has a row of the topic, of another one, of none that it names (""), or no row at all."""

    row: str | None
    url: str

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        found = re.fullmatch(
            r"SELECT 1 FROM `db`.`t` (WHERE _kafka_topic IN \('topic', ''\) OR _kafka_topic IS NULL )?LIMIT 1 "
            r"SETTINGS max_execution_time = 20",
            sql,
        )
        assert found
        return [(1,)] if self.row in (("topic", "") if found[1] else ("topic", "", "other")) else []


def findings(
    *rows: str | None, key: StateKey = KEY, layout: str = "now", before: int = 1, **changes: Any
) -> list[tuple[str, Severity, str]]:
    described = table(**{k: changes.pop(k) for k in ("engine", "ttl", "columns") if k in changes})
    shards = tuple(ShardTable(Shard(row, f"http://{n}"), described) for n, row in enumerate(rows))
    record = replace(LANDED, **changes)
    stored = {"before": Layout(tuple(Listed((f"http://{n}",)) for n in range(before)), "xxHash64", ("id",)).to_json()}
    found = emptied_findings({key: record}, RoutedTable("topic", "db.t", shards), layout, stored, StoppedClock())
    return [(one.id, one.severity, one.sentence) for one in found]


def test_an_empty_table_in_which_offsets_landed() -> None:
    """⚑ created again, it would lack them for ever, and nothing would say so."""
    for rows in ([None], [None, None]):
        [(number, severity, sentence)] = findings(*rows)
        assert (number, severity) == ("CHS-266", Severity.WARNING)
        assert "offsets of topic landed in it: 60;" in sentence


def test_a_table_with_rows() -> None:
    for row in ("topic", ""):
        assert findings(row) == [("CHS-266", Severity.OK, "db.t holds rows of topic, as recorded")]


def test_a_table_with_rows_of_another_topic() -> None:
    """⚑ they hid that this topic's were lost when the table was dropped and created again."""
    [(number, severity, sentence)] = findings("other", None)
    assert (number, severity) == ("CHS-266", Severity.WARNING)
    assert "db.t has no row of topic" in sentence


@pytest.mark.parametrize(
    "changes",
    [
        {"sent": Sending(layout="now", pipeline="columns=1,table_by=2"), "seen": Seen(0, (HELD,))},
        {"columns": (Column("n", "Int8", "", ""),)},
        {"columns": tuple(Column(c, "Int8", "ALIAS", "n") for c in sorted(PROBE_COLUMNS))},
    ],
)
def test_rows_that_do_not_tell_their_topic(changes: dict[str, Any]) -> None:
    assert [severity for _, severity, _ in findings("other", **changes)] == [Severity.OK]


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
    assert findings(None, **changes) == []


@pytest.mark.parametrize("pipeline", ["columns=1,table_by=2", ""])
def test_a_table_that_shares_a_topic_and_had_rows(pipeline: str) -> None:
    [(_, severity, _)] = findings(None, sent=Sending(layout="now", pipeline=pipeline), seen=Seen(0, (HELD,)))
    assert severity is Severity.WARNING


def test_one_shard_that_held_blocks() -> None:
    """⚑ a server that was set up again, with an empty table."""
    [(number, severity, sentence)] = findings("topic", None, seen=Seen(0, (HELD, HELD)))
    assert (number, severity) == ("CHS-266", Severity.WARNING)
    assert "at http://1" in sentence


def test_a_shard_with_rows_of_another_topic() -> None:
    """By its shard key, a topic may have rows on some shards only."""
    assert [one[1] for one in findings("topic", "other", seen=Seen(0, (HELD, HELD)))] == [Severity.OK]


@pytest.mark.parametrize(
    ("layout", "marks"), [("now", (HELD, BARE)), ("other", (HELD, HELD)), ("now", (HELD,)), ("now", ())]
)
def test_a_shard_that_may_have_no_row(layout: str, marks: tuple[Mark, ...]) -> None:
    assert [severity for _, severity, _ in findings("topic", None, layout=layout, seen=Seen(0, marks))] == [Severity.OK]


def test_the_newest_range_landed_in_another_table_of_this_name() -> None:
    """⚑ a copy of the job landed it on another server: the first job skipped its offsets without a word."""
    here = fingerprint_of("u")
    of = {"here": here, "there": fingerprint_of("another uuid")}
    for pipeline, noticed in ((of["here"], False), (of["there"], True), ("columns=1", False)):
        found = findings("topic", sent=Sending(layout="now", pipeline=pipeline))
        assert [(number, severity is Severity.WARNING) for number, severity, _ in found] == [("CHS-266", noticed)]
        assert not noticed or "of topic-0 landed in another table named db.t" in found[0][2]
    moved = Sending(layout="before", pipeline=of["there"])
    assert findings("topic", sent=moved)[0][1] is Severity.WARNING
    assert findings("topic", "topic", sent=moved)[0][1] is Severity.OK
    assert findings("topic", phase=Phase.BEFORE, sent=Sending(layout="now", pipeline=of["there"]))[0][1] is Severity.OK


def test_one_shard_of_two_is_left() -> None:
    """⚑ two shards have two marks, as one shard and a table of dead letters have: their rows are where they landed."""
    seen = Seen(1, (HELD, HELD))
    for layout, before, severity in (("before", 2, "OK"), ("before", 1, "WARNING"), ("not stored", 1, "OK")):
        sent = Sending(layout=layout, pipeline=fingerprint_of("both"))
        assert findings("topic", sent=sent, seen=seen, before=before)[0][1] is Severity[severity]


def fingerprint_of(identity: str) -> str:
    return f"columns=1,table={digest_of([identity])}"
