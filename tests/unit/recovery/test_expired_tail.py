"""Where a recovered range ends: at the first record behind the table's last row, whatever lies there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from chsink.dlq.fates import Fates
from chsink.kafka.exact import Part
from chsink.recovery import partition_survey
from chsink.recovery.accepted import Accepted
from chsink.recovery.explained import Means
from chsink.recovery.landed import Extent
from chsink.recovery.letters import SinkLetters
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey

KEY = StateKey("s", "t", 0, "d.t")


def part(start: int, end: int, *offsets: int, gone: bool = False) -> Part:
    """What a reader gets of these offsets."""
    return Part(OffsetRange(start, end), pa.RecordBatch.from_pydict({"offset": pa.array(offsets, pa.int64())}), gone)


def recovered(monkeypatch: pytest.MonkeyPatch, log_start: int, *behind: Part) -> OffsetRange:
    """What is recovered of a table with rows [0, 100) and a log that ends at 200."""
    tp = KEY.topic_partition
    kafka: Any = SimpleNamespace(log_starts=lambda _: {tp: log_start}, log_ends=lambda _: {tp: 200})
    kafka.topic_ids = lambda _: {"t": "id"}
    config = SimpleNamespace(kafka=SimpleNamespace(), dead_letters=SimpleNamespace(topic=None))
    clickhouse: Any = SimpleNamespace(letters=None, routes={}, config=config)
    target: Any = SimpleNamespace(name="d.t", shards=(), table=SimpleNamespace(insertable=()))
    reader: Any = SimpleNamespace(read=lambda _, rest: iter(behind) if rest == OffsetRange(100, 200) else None)
    look = partition_survey.SurveyReads(
        clickhouse, kafka, lambda _: None, reader, SinkLetters(clickhouse, kafka, reader), {}
    )
    monkeypatch.setattr(partition_survey, "extent", lambda *_: Extent(OffsetRange(0, 100), 100))
    monkeypatch.setattr(partition_survey, "holes", lambda *_: ())
    config.kafka.starting_offsets = "latest"
    [found] = partition_survey.PartitionSurvey(look, target, KEY, Means(None, Fates()), share=1).survey(Accepted())
    return found.landed


@pytest.mark.parametrize(
    ("behind", "end"),
    [
        ([part(100, 150, 130, 131)], 130),
        ([part(100, 120), part(120, 200)], 200),
        ([part(100, 120), part(120, 200, gone=True)], 120),
    ],
)
def test_a_recovered_range_ends_before_the_first_record_that_has_not_landed(
    monkeypatch: pytest.MonkeyPatch, behind: list[Part], end: int
) -> None:
    """Markers before it are passed over.  An open transaction counts as unread."""
    assert recovered(monkeypatch, 0, *behind) == OffsetRange(0, end)


def test_a_recovered_range_ends_with_its_rows_where_kafka_dropped_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start then reports the gap: the dropped offsets may have held records."""
    dropped = [part(100, 150, gone=True), part(150, 200, 150)]
    assert recovered(monkeypatch, 150, *dropped) == OffsetRange(0, 100)
