"""Recovery where Kafka has dropped what follows the table's last row."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chsink.recovery import recover
from chsink.recovery.landed import Extent
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey

KEY = StateKey("s", "t", 0, "d.t")


def test_a_recovered_range_ends_with_its_rows_where_kafka_dropped_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start then reports the gap; the dropped offsets cannot be read, and may have held records."""

    def unreadable(*_: Any) -> int:
        raise AssertionError("offsets before the log start were read")

    tp = KEY.topic_partition
    kafka = SimpleNamespace(log_starts=lambda _: {tp: 150}, log_ends=lambda _: {tp: 200})
    config = SimpleNamespace(kafka=SimpleNamespace(client_options=dict, isolation_level="read_committed"))
    services: Any = SimpleNamespace(kafka=kafka, config=config)
    target: Any = SimpleNamespace(name="d.t", shards=())
    monkeypatch.setattr(recover, "extent", lambda *_: Extent(OffsetRange(0, 100), 100))
    monkeypatch.setattr(recover, "first_unread", unreadable)
    kafka.topic_ids = lambda _: {"t": "id"}

    partition = recover._Partition(services, target, KEY, None, lambda _: None)

    [found] = partition.survey(recover.Accepted(holes=True))
    assert found.landed == OffsetRange(0, 100)
