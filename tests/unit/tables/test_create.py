"""The columns of a new table that the job file names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chsink.ports import StoredRow
from chsink.state.memory import MemoryStore
from chsink.statemachine import writes
from chsink.statemachine.codec import encode
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey, StateRecord
from chsink.tables.create import _may_wait, _named
from tests.unit.formats.test_record_fields import settings

TEXT = "Nullable(String)"


@pytest.mark.parametrize(
    ("format", "columns"),
    [
        ({"type": "csv", "columns": ["a", "", "b"]}, {"a": TEXT, "b": TEXT}),
        ("raw", {"value": TEXT}),
        (
            {
                "type": "json",
                "fields": {"city": "$.a.b", "at": "$.t"},
                "constants": {"n": 1},
                "epoch": {"at": "micros"},
            },
            {"city": TEXT, "n": "Nullable(Int64)", "at": "Nullable(DateTime64(6, 'UTC'))"},
        ),
        (
            {"type": "json", "decimals": {"price": 2, "tiny": 20, "huge": -2, "plain": "text"}},
            {
                "price": "Nullable(Decimal(38, 2))",
                "tiny": "Nullable(Decimal(76, 20))",
                "huge": "Nullable(Decimal(38, 0))",
            },
        ),
        (
            {
                "type": "debezium",
                "version_column": "version",
                "deleted_column": "gone",
                "primary_key": ["id", "k"],
                "fields": {"k": "$.after.key"},
            },
            {"version": "UInt64", "gone": "UInt8", "k": TEXT},
        ),
    ],
)
def test_columns_that_the_job_file_names(format: Any, columns: dict[str, str]) -> None:
    """A time takes its unit; a primary key that is a field of the row is what the records say."""
    assert _named(settings(format)) == columns


NAMES = ("id", "city", "at", "zone", "b", "a", "price", "qty", "key", "text")


def test_they_have_one_order() -> None:
    """That of a row's fields, or of their names: never that of a set, which every process orders in its own way."""
    assert list(_named(settings({"type": "csv", "columns": ["id", "", *NAMES[1:]]}))) == list(NAMES)
    assert list(_named(settings({"type": "json", "constants": dict.fromkeys(NAMES, 1)}))) == sorted(NAMES)


EMPTY = writes.empty(1, "a")
SAID = writes.Announcement("id", Sending(10, "layout", "pipeline"), Seen(1000))
IN_DOUBT = writes.before(EMPTY, OffsetRange(0, 5), SAID, epoch=1, attempt="b", fresh=True)


@pytest.mark.parametrize(
    ("record", "waits"),
    [
        (None, True),
        (EMPTY, True),
        (IN_DOUBT, False),
        (writes.after(IN_DOUBT, epoch=1, attempt="c"), False),
    ],
)
def test_a_topic_with_a_recorded_range_does_not_wait(record: StateRecord | None, waits: bool) -> None:
    """⚑ Its other tables lost their routes, too: what was in doubt there, and had expired, halted with CHS-313."""
    tp, store = TopicPartition("w", 0), MemoryStore()
    if record is not None:
        row = StateKey("s", "w", 0, "d.other")
        store.create([StoredRow(str(row), record.attempt, encode(record))])
    kafka: Any = SimpleNamespace(
        partitions=lambda _: [tp], log_ends=lambda _: {tp: 500}, log_starts=lambda _: {tp: 500}
    )
    config: Any = SimpleNamespace(matched_topics=("w", "t"), sink=SimpleNamespace(name="s"))
    assert _may_wait(config, store, kafka, {"w"}) is waits
