"""Rows that the recorded state does not account for: which ones stop a start, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from chsink.clickhouse.checks.existing_rows import existing_rows_findings
from chsink.clickhouse.shards import RoutedTable, ShardTable
from chsink.clickhouse.unaccounted import check_nothing_landed
from chsink.findings import Finding, Severity
from chsink.ports import ServerRefused
from chsink.statemachine import writes
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey, StateRecord
from tests.support.endpoint import OneServer
from tests.unit.clickhouse.server import table

SAID = writes.Announcement("id", Sending(10, "layout", "pipeline"), Seen(1000))
Records = dict[StateKey, StateRecord]
Rows = list[tuple[int, int, int]]


def key(partition: int, table: str = "db.t") -> StateKey:
    return StateKey("sink", "topic", partition, table)


def before(end: int) -> StateRecord:
    return writes.before(writes.empty(1, "a"), OffsetRange(0, end), SAID, epoch=1, attempt="b", fresh=True)


def landed(end: int) -> StateRecord:
    return writes.after(before(end), epoch=1, attempt="c")


@dataclass
class Shard(OneServer):
    """Answers with (partition, rows, last offset); keeps what it was asked."""

    rows: Rows
    asked: str = ""
    url: str = "http://a"

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        assert parameters == {"topic": "topic"}
        self.asked = sql
        return list(self.rows)


@dataclass
class Clock:
    """Nobody waits."""

    slept: float = 0

    def now_ms(self) -> int:
        return 0

    def steady_ms(self) -> int:
        return 0

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


def findings(records: Records, *shards: Rows, latest: Records | None = None, columns: Any = None) -> list[Finding]:
    described = table() if columns is None else table(columns=columns)
    target = RoutedTable("topic", "db.t", tuple(ShardTable(Shard(rows), described) for rows in shards))
    return list(existing_rows_findings(records, target, lambda: records if latest is None else latest, Clock()))


def test_rows_beyond_the_recorded_end() -> None:
    [finding] = findings({key(0): landed(30), key(1): landed(5)}, [(0, 2, 31)], [(0, 3, 40)])

    assert (finding.id, finding.severity) == ("CHS-229", Severity.ERROR)
    assert "beyond what is recorded (partition 0: 5 rows up to offset 40, recorded end 30)" in finding.sentence
    assert finding.fix.startswith("if you changed sink.name or [state], change it back;")
    assert "`chsink state recover --senders-gone --replace`" in finding.fix


@pytest.mark.parametrize("records", [{}, {key(0): writes.empty(1, "a")}, {key(0, "db.other"): landed(90)}])
def test_rows_without_state(records: Records) -> None:
    [finding] = findings(records, [(0, 7, 6)])

    assert "for which this sink has no state (partition 0: 7 rows up to offset 6)" in finding.sentence
    assert finding.fix.startswith("if you changed sink.name or [state], change it back;")
    assert (
        "was lost, or you renamed the table, make sure that no process of the job is running, executors included, and no "
        "`chsink dlq replay` of the sink; if you removed a replica that does not answer, first wait "
        "for clickhouse.insert_timeout_s, at least 120 s, because it may still run an insert; then run `chsink state recover "
        "--senders-gone`, and start the job; to land the records a second time on purpose, set"
    ) in finding.fix
    assert finding.fix.index("do not run recover") < finding.fix.index("`chsink state recover")


def test_no_more_partitions_are_named_than_a_line_holds() -> None:
    [finding] = findings({}, [(p, 1, 0) for p in range(8)])

    assert "partition 4: 1 rows up to offset 0; 3 more partitions)" in finding.sentence


def test_a_driver_that_still_runs_landed_more_meanwhile() -> None:
    """It announced before it inserted, so records that are read after the rows cover them."""
    assert not findings({key(0): landed(30)}, [(0, 5, 34)], latest={key(0): before(35)})
    assert findings({key(0): landed(30)}, [(0, 6, 35)], latest={key(0): before(35)})


def test_rows_of_earlier_incarnations_are_known() -> None:
    reset = writes.reset(landed(30), epoch=1, attempt="d")
    again = writes.before(reset, OffsetRange(0, 4), SAID, epoch=1, attempt="e", fresh=True)
    for record in (reset, again):
        assert not findings({key(0): record}, [(0, 30, 29)])
        [finding] = findings({key(0): record}, [(0, 1, 30)])
        assert "recorded end 30" in finding.sentence


def test_the_question_names_every_recorded_end() -> None:
    shard = Shard([])
    target = RoutedTable("topic", "db.t", (ShardTable(shard, table()),))

    assert not list(existing_rows_findings({key(4): landed(30), key(1): before(5)}, target, dict, Clock()))

    assert "transform(toInt64(_kafka_partition), [toInt64(1), toInt64(4)], [toInt64(5), toInt64(30)]" in shard.asked


def test_a_table_that_cannot_tell_is_not_asked() -> None:
    assert not findings({}, [(0, 7, 6)], columns=())


def test_a_store_that_lags_is_asked_again_before_a_start_is_refused() -> None:
    """⚑ A replica of the Keeper that is behind answers with an earlier state, twice."""
    answers = [{}, {key(0): landed(5)}, {key(0): landed(30)}]
    target, clock = RoutedTable("topic", "db.t", (ShardTable(Shard([(0, 30, 29)]), table()),)), Clock()

    assert not list(existing_rows_findings({}, target, lambda: answers.pop(0), clock))
    assert (answers, clock.slept > 0) == ([], True)


@dataclass
class Refusing(OneServer):
    """Answers with an error."""

    code: int
    url: str = "http://a"

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        raise ServerRefused(self.code, "no")


def test_a_server_that_cannot_search_in_time_has_said_so() -> None:
    check_nothing_landed([ShardTable(Refusing(159), table())], "db.t", "topic", [0], Clock())


def test_a_user_who_may_not_look_knows_nothing() -> None:
    """⚑ Rows that nobody was allowed to see would be taken for rows that are not there."""
    with pytest.raises(ServerRefused):
        check_nothing_landed([ShardTable(Refusing(497), table())], "db.t", "topic", [0], Clock())
