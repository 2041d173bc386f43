"""``--where``: what is read, and that the server and Python mean the same by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chsink.config import Config
from chsink.dlq.kept import KeptLetters
from chsink.dlq.where import Where, where

KEPT = KeptLetters("t", 3, 12, "d.t", "city", "CHS-501", "why", 1_767_225_600_000, 0, False, None, b"", ())
CONFIG = Config.from_mapping(
    {
        "sink": {"name": "s"},
        "kafka": {"bootstrap": "k:9092"},
        "route": [{"topic": "t", "table": "t"}],
        "clickhouse": {"endpoints": ["http://a:8123"], "database": "d"},
    }
)


def asked(*conditions: str) -> Where:
    """As the commands read them."""
    return where(conditions, CONFIG.canonical)


@pytest.mark.parametrize(
    ("conditions", "holds"),
    [
        ([], True),
        (["topic=t", "partition=3", "offset=12", "table=d.t", "column=city", "error=CHS-501", "replayed=no"], True),
        (["table=t"], True),
        (["table=`t`"], True),
        (["table=e.t"], False),
        (["table=t t"], False),
        (["topic=u"], False),
        (["topic=u", "topic=t"], True),
        (["topic=t", "column=town"], False),
        (["offset=10..12"], True),
        (["offset=13..20"], False),
        (["offset=1..2", "offset=12..12"], True),
        (["since=2026-01-01"], True),
        (["since=2026-01-01T00:00:01"], False),
        (["since=2026-01-01T01:00:00+01:00"], True),
        (["replayed=yes"], False),
    ],
)
def test_conditions(conditions: list[str], holds: bool) -> None:
    assert asked(*conditions).holds(KEPT) is holds


def test_a_replayed_letter() -> None:
    assert asked("replayed=yes").holds(replace(KEPT, replayed=True))


def test_what_the_server_is_asked() -> None:
    assert asked().sql("R") == ""
    sql = asked("topic=it's", "topic=b", "offset=1..2", "since=1970-01-02", "replayed=no").sql("R")
    assert sql == (
        " AND (`_kafka_topic` = 'it\\'s' OR `_kafka_topic` = 'b') AND (_kafka_offset BETWEEN 1 AND 2)"
        " AND (timestamp_ms >= 86400000) AND (NOT (R))"
    )


@pytest.mark.parametrize("text", ["", "city", "=x", "nothing=1", "offset=x", "offset=2..", "since=soon", "replayed=si"])
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        asked(text)
