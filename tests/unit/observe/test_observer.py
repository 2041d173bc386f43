"""Several tables: lag by table, and log lines that name the tables."""

from __future__ import annotations

from structlog.testing import capture_logs

from chsink.batch.model import Ack, ChunkAck, PlannedBatch
from chsink.clock import SystemClock
from chsink.observe.logs import logger
from chsink.observe.metrics import Metrics
from chsink.observe.observer import NAMED, JobObserver
from chsink.statemachine.parts import Sending
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord
from chsink.statemachine.table import Decision, Halt, Step, StepKind

TP = TopicPartition("t", 3)
BATCH = PlannedBatch(7, {TP: OffsetRange(10, 20)})


def observed() -> JobObserver:
    return JobObserver(logger("s"), Metrics("s"), SystemClock())


def lag(observer: JobObserver, table: str) -> float | None:
    labels = {"sink": "s", "topic": "t", "partition": "3", "table": table}
    return observer.metrics.registry.get_sample_value("chsink_lag_offsets", labels)


def test_each_table_of_a_topic_has_a_lag_of_its_own() -> None:
    observer = observed()
    record = StateRecord(Phase.AFTER, 1, "a", 10, 20, sent=Sending(5))
    ahead = StateRecord(Phase.AFTER, 1, "a", 10, 26, sent=Sending(5))
    left = StateRecord(Phase.AFTER, 1, "a", 0, 2, sent=Sending(5))
    by_table = {"db.a": record, "db.ahead": ahead, "db.left": left}
    observer.state({StateKey("s", TP.topic, TP.partition, table): r for table, r in by_table.items()})

    observer.finished(BATCH, {TP: 25}, [("t", "db.a"), ("t", "db.ahead"), ("other", "db.a")])

    assert [lag(observer, t) for t in ("db.a", "db.ahead", "db.left")] == [5, 0, None]


def test_a_line_names_its_tables_or_their_number() -> None:
    observer = observed()
    ack = Ack(0, "t", 3, (ChunkAck(10, 20, 10, 8),))
    with capture_logs() as lines:
        for tables in (["db.b"], ["db.b", "db.a"], [f"db.t{n}" for n in range(NAMED + 1)]):
            keys = {StateKey("s", "t", 3, table): Decision("NEW/x") for table in tables}
            observer.decided(BATCH, keys)
            observer.landed({table: [ack] for table in tables})

    assert [line["event"] for line in lines] == ["batch planned", "landed"] * 3
    assert [line.get("table") for line in lines] == ["db.b", "db.b", None, None, None, None]
    assert [line.get("tables") for line in lines[2:]] == [["db.a", "db.b"]] * 2 + [NAMED + 1] * 2
    assert [line["rows"] for line in lines[1::2]] == [8, 16, 8 * (NAMED + 1)]


def test_a_partition_that_does_not_simply_continue_is_said_in_words() -> None:
    """It was the name of a cell of the decision table: ``SAME/AFTER``."""
    observer = observed()
    keys = [StateKey("s", "t", 3, table) for table in ("db.a", "db.b")]
    again = (Step(StepKind.SETTLE, OffsetRange(10, 15)), Step(StepKind.WRITE, OffsetRange(15, 20)))
    skip = Decision("SAME/AFTER", (Step(StepKind.SKIP, OffsetRange(10, 20)),))
    with capture_logs() as lines:
        observer.decided(BATCH, {keys[0]: skip})
        observer.decided(BATCH, {keys[0]: skip, keys[1]: Decision("AHEAD/BEFORE", again)})
        observer.decided(BATCH, {keys[0]: Decision("BACK/AFTER", halt=Halt.REWOUND)})
        observer.decided(BATCH, {keys[0]: Decision("NEW/AFTER", (Step(StepKind.WRITE, OffsetRange(10, 20)),))})

    said = "skip [10, 20), which was processed before"
    assert [line.get("unusual") for line in lines] == [
        {"t-3": said},
        {"t-3 of db.a": said, "t-3 of db.b": "send [10, 15) again, from Kafka; land [15, 20)"},
        {"t-3": "halt with CHS-306"},
        None,
    ]


def test_the_last_line_has_the_sums_of_the_whole_run() -> None:
    idle, observer = observed(), observed()
    with capture_logs() as lines:
        idle.ended("")
        for skipped in (0, 2):
            ack = Ack(0, "t", 3, (ChunkAck(10, 20, 10, 8, skipped, inserts=1, first_skipped="t-3 offset 10"),))
            observer.landed({"db.a": [ack], "db.b": [ack]})
        observer.ended("SIGTERM")

    first, *_, last = lines
    assert first == {"event": "ended", "log_level": "info", "sink": "s", "rows": 0}
    assert last == {**first, "rows": 32, "inserts": 4, "skipped": 4, "signal": "SIGTERM"}
