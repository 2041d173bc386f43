"""What is said of planned records of a topic that waits for its first one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from chsink.batch.model import PlannedBatch
from chsink.errors import HaltError
from chsink.kafka import sample
from chsink.spark import opening, sink
from chsink.spark.opening import never_read, nothing_waits
from chsink.statemachine import writes
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey

W, T = TopicPartition("w", 0), TopicPartition("t", 0)


def check(start: int, end: int) -> None:
    """[0, 500) was planned of both; only ``w`` waits."""
    kafka = SimpleNamespace(
        log_starts=lambda tps: dict.fromkeys(tps, start), log_ends=lambda tps: dict.fromkeys(tps, end)
    )
    services: Any = SimpleNamespace(config=SimpleNamespace(waiting=("w",)), kafka=kafka)
    assert not nothing_waits(services, dict.fromkeys((W, T), OffsetRange(0, 500)))


def test_kafka_has_deleted_them() -> None:
    """⚑ Each start planned them again, and none could say what to do."""
    with pytest.raises(
        HaltError, match=r"CHS-307.*w-0: Kafka deleted \[0, 500\) before these offsets landed"
    ) as halted:
        check(500, 500)
    assert "new checkpoint" in halted.value.hint
    assert "t-0" not in halted.value.message


def test_the_topic_was_recreated() -> None:
    with pytest.raises(HaltError, match=r"CHS-301.*w-0: the planned offsets \[0, 500\) lie beyond the end"):
        check(0, 0)


def test_kafka_holds_them_by_now() -> None:
    """Of a topic that was created again: the next start gives it a route."""
    check(0, 600)


def log(start: Callable[[], int]) -> SimpleNamespace:
    """One that ends at 5, and is not compacted."""
    return SimpleNamespace(
        log_starts=lambda tps: dict.fromkeys(tps, start()),
        log_ends=lambda tps: dict.fromkeys(tps, 5),
        may_be_compacted=lambda _: False,
    )


def readable(monkeypatch: pytest.MonkeyPatch, *parts: TopicPartition) -> None:
    """Only of these a record can be read."""
    for module in (opening, sample):
        monkeypatch.setattr(module, "holding", lambda _config, ranges: (tp for tp in ranges if tp in parts))


def test_what_cannot_be_read_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ A transaction that was given up is no record."""
    kafka = SimpleNamespace(log_starts=lambda tps: dict.fromkeys(tps, 0), log_ends=lambda tps: dict.fromkeys(tps, 9))
    services: Any = SimpleNamespace(config=SimpleNamespace(waiting=("w",)), kafka=kafka)
    readable(monkeypatch)
    assert nothing_waits(services, {W: OffsetRange(0, 5)})
    assert not nothing_waits(services, {W: OffsetRange(0, 5), T: OffsetRange(0, 5)}), "no pattern matches the other"
    readable(monkeypatch, W)
    assert not nothing_waits(services, {W: OffsetRange(0, 5)})


@pytest.mark.parametrize(
    ("held_from", "holds", "recorded"), [(0, False, False), (3, False, False), (0, True, False), (0, False, True)]
)
def test_a_checkpoint_that_passed_nothing_has_no_history(
    monkeypatch: pytest.MonkeyPatch, held_from: int, holds: bool, recorded: bool
) -> None:
    """What Kafka has deleted, or what a range is recorded for, may have been read; so may what no pattern matches."""
    landed = writes.empty(1, "a") if not recorded else SimpleNamespace(phase="AFTER")
    monkeypatch.setattr(opening, "read_records", lambda *_: {StateKey("s", "w", 0, "d.w"): landed})
    readable(monkeypatch, *([W] if holds else []))
    config = SimpleNamespace(matched_topics=("w",), waiting=(), sink=SimpleNamespace(name="s"))
    kafka = log(lambda: held_from)
    services: Any = SimpleNamespace(config=config, kafka=kafka, store=None)
    unread = never_read(services, dict.fromkeys((W, T), OffsetRange(0, 5)))
    assert unread == ({W} if (held_from, holds, recorded) == (0, False, False) else set())


def test_what_kafka_deletes_during_the_question_may_have_been_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ The log began at the range when asked, and was empty when read."""
    starts = [0]

    def deleting(*_: object) -> Iterator[TopicPartition]:
        starts[0] = 5
        yield from ()

    monkeypatch.setattr(opening, "read_records", lambda *_: {})
    monkeypatch.setattr(sample, "holding", deleting)
    config = SimpleNamespace(matched_topics=("w",), waiting=(), sink=SimpleNamespace(name="s"))
    kafka = log(lambda: starts[0])
    services: Any = SimpleNamespace(config=config, kafka=kafka, store=None)
    assert not never_read(services, {W: OffsetRange(0, 5)})


def test_kafka_is_asked_only_about_what_a_batch_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ A topic that waits behind an aborted transaction had each batch open a consumer and read that again."""
    planned = PlannedBatch(2, {T: OffsetRange(5, 9), W: OffsetRange(5, 5)}, frozenset([T, W]))
    asked = list[set[TopicPartition]]()

    def nothing_unread(_: object, passed: dict[TopicPartition, OffsetRange]) -> frozenset[TopicPartition]:
        asked.append(set(passed))
        return frozenset()

    monkeypatch.setattr(sink, "planned_batch", lambda *_: planned)
    monkeypatch.setattr(sink, "first_offsets", lambda _: {})
    monkeypatch.setattr(sink, "never_read", nothing_unread)
    of: Any = SimpleNamespace(_services=None, _begun=frozenset())
    for _ in range(2):
        assert sink.Sink._known(of, of, 2).history == {T, W}
    assert (asked, of._begun) == ([{T}], {T})


def test_what_compaction_removed_was_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ Nothing can be read of it any more, and it may have been in doubt.  A topic that waits does so all the same."""
    monkeypatch.setattr(opening, "read_records", lambda *_: {})
    readable(monkeypatch)
    config = SimpleNamespace(matched_topics=("w", "t"), waiting=("w",), sink=SimpleNamespace(name="s"))
    kafka = SimpleNamespace(
        log_starts=lambda tps: dict.fromkeys(tps, 0),
        log_ends=lambda tps: dict.fromkeys(tps, 5),
        may_be_compacted=lambda topic: topic == "w",
    )
    services: Any = SimpleNamespace(config=config, kafka=kafka, store=None)
    assert never_read(services, {W: OffsetRange(0, 5), T: OffsetRange(0, 5)}) == {T}
    assert never_read(services, {W: OffsetRange(0, 0)}) == {W}, "no offset, no record"
    assert nothing_waits(services, {W: OffsetRange(0, 5)})
