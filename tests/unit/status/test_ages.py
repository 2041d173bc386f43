"""How old the oldest record is that waits."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import StateKey
from chsink.status import reader
from chsink.status.reader import StatusReader

TP = TopicPartition("t", 0)
AHEAD, BEHIND = StateKey("s", "t", 0, "d.a"), StateKey("s", "t", 0, "d.b")


def services() -> Any:
    kafka = SimpleNamespace(client_options=dict)
    return SimpleNamespace(config=SimpleNamespace(kafka=kafka, sink=SimpleNamespace(name="s")))


def test_two_tables_of_a_topic_may_be_at_two_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The age of the one that is further on was not shown."""
    asked = []

    def first_times(_options: object, _group: str, first: Mapping[TopicPartition, int], _limit_s: float) -> Any:
        asked.append(dict(first))
        return {tp: 1_000 + at for tp, at in first.items()}

    monkeypatch.setattr(reader, "first_times", first_times)
    status = StatusReader(services())
    for _ in range(2):
        assert status._ages({AHEAD: 90, BEHIND: 20}) == {AHEAD: 1_090, BEHIND: 1_020}
    assert asked == [{TP: 20}, {TP: 90}], "what is known is not asked again"


def test_a_kafka_that_gives_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "first_times", lambda *_: {})
    assert StatusReader(services())._ages({AHEAD: 90, BEHIND: 20}) == {}
