"""Which halts the recorded state and Kafka's logs show, and what is counted as the lag there."""

from __future__ import annotations

import pytest

from chsink.config import Config
from chsink.statemachine import writes
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey, StateRecord
from chsink.status.ahead import KafkaFacts, LogBounds, halts_ahead
from chsink.status.reader import _lag, _next

ONE, TWO = StateKey("s", "t", 0, "d.t"), StateKey("s", "t", 1, "d.t")


def before(topic_id: str = "old") -> StateRecord:
    """[40, 50) is in doubt."""
    said = writes.Announcement(topic_id, Sending(4, "L", "P"), Seen(0))
    return writes.before(writes.empty(1, "-"), OffsetRange(40, 50), said, epoch=1, attempt="b", fresh=True)


def after(topic_id: str = "old") -> StateRecord:
    return writes.after(before(topic_id), epoch=1, attempt="a")


def kafka(log: LogBounds, topic_id: str = "old") -> KafkaFacts:
    return KafkaFacts({TopicPartition("t", n): log for n in (0, 1)}, {"t": topic_id})


def ahead(records: dict[StateKey, StateRecord], facts: KafkaFacts, **errors: str) -> list[tuple[str, str, str]]:
    config = Config.from_mapping(
        {
            "sink": {"name": "s", "checkpoint": "/c"},
            "kafka": {"bootstrap": "k:9092"},
            "route": [{"topic": "t", "table": "d.t"}],
            "clickhouse": {"endpoints": ["http://c:8123"]},
            "errors": errors,
        }
    )
    return [(halt.id, halt.message, halt.fix) for halt in halts_ahead(config, {("t", "d.t"): None}, records, facts)]


@pytest.mark.parametrize("log", [(0, 5), (0, 55), (3, 5), (5, 5)])
def test_a_recreated_topic_that_holds_or_held_records(log: LogBounds) -> None:
    """⚑ nothing was said, and fewer records than landed before were no lag, or a shorter one."""
    [(code, message, fix)] = ahead({ONE: after()}, kafka(log, "new"))
    assert code == "CHS-303" and "recorded topic id old, now new; [40, 50) landed before" in message
    assert "start with a new checkpoint" in fix and "chsink state reset t 0" in fix
    assert _lag(ONE, after(), kafka(log, "new"), "latest") == log[1] - log[0]
    assert _next(ONE, after(), kafka(log, "new")) == log[0]


def test_a_recreated_topic_without_a_record_is_idle() -> None:
    assert ahead({ONE: after()}, kafka((0, 0), "new")) == []
    assert _lag(ONE, after(), kafka((0, 0), "new"), "earliest") == 0


def test_a_recreated_topic_of_which_records_landed_is_read_from_its_start() -> None:
    """A job with a new checkpoint: the other partition's first record has just come."""
    assert ahead({ONE: after(), TWO: after("new")}, kafka((0, 50), "new")) == []


def test_a_range_in_doubt_of_a_deleted_topic() -> None:
    [(code, *_)] = ahead({ONE: before()}, kafka((0, 5), "new"))
    assert code == "CHS-308"


@pytest.mark.parametrize("end", [60, 70])
def test_offsets_that_kafka_deleted(end: int) -> None:
    """⚑ the fix left out the new checkpoint, and nothing was said if Kafka had deleted all that was unread."""
    [(code, message, fix)] = ahead({ONE: after()}, kafka((60, end)))
    assert code == "CHS-307" and "Kafka no longer holds [50, 60)" in message
    assert fix.index("start with a new checkpoint") < fix.index('also set errors.on_gap = "record"')
    assert ahead({ONE: after()}, kafka((60, end)), on_gap="record") == []


def test_the_same_topic() -> None:
    assert ahead({ONE: after(), TWO: before()}, kafka((0, 70))) == []
    assert (_lag(ONE, after(), kafka((0, 70)), "latest"), _next(ONE, after(), kafka((0, 70)))) == (20, 50)
