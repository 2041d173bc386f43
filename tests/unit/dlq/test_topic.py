"""Dead letters for a topic: what a letter carries, and which life of a partition an offset is of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chsink.dlq.letters import COLUMNS
from chsink.dlq.place import LettersTopic
from chsink.dlq.topic import Life, letter_of
from chsink.statemachine.records import StateKey
from tests.support.letter_fields import FIELDS, MORE, NONCE

ROW = {
    "sink": "s",
    "table": "d.t",
    "_kafka_topic": "t",
    "_kafka_partition": 3,
    "_kafka_offset": 12,
    "timestamp_ms": 1767323045678,
    "timestamp_type": 1,
    "key": b"\xff",
    "value": None,
    "headers": [{"key": "h", "value": None}, {"key": "h", "value": b"\x00"}],
    "column": "n",
    "error_id": "CHS-501",
    "reason": "text is not UInt8",
}


def test_a_letter_is_the_record_and_then_why_it_is_one() -> None:
    letter = letter_of(ROW, "nonce")
    assert (letter["key"], letter["value"], letter["timestamp"]) == (b"\xff", None, 1767323045678)
    assert letter["headers"][:3] == [("h", None), ("h", b"\x00"), ("__connect.errors.topic", b"t")]
    headers = {name: column for fields in FIELDS for name, column in fields.headers.items()}
    expected = {name: str(ROW[column]) for name, column in headers.items()} | MORE | {NONCE: "nonce"}
    expected["__connect.errors.exception.message"] = "column 'n': text is not UInt8"
    assert dict(letter["headers"][2:]) == {name: value.encode() for name, value in expected.items()}
    assert {column for fields in FIELDS for column in fields.columns} == COLUMNS.keys()


@pytest.mark.parametrize(
    ("noted", "mine", "outdated"),
    [
        (Life(3, 0, "a"), Life(2, 0, "a"), False),
        (Life(3, 0, "a"), Life(2, 0, "b"), True),
        (Life(2, 1, "a"), Life(2, 0, "b"), True),
        (Life(2, 0, "a"), Life(3, 0, "b"), False),
        (Life(2, 0, "a"), Life(2, 1, "b"), False),
    ],
)
def test_a_sender_is_outdated_by_a_later_life_only(noted: Life, mine: Life, outdated: bool) -> None:
    """⚑ Drivers of one life take over from each other; after a reset, older senders must deliver nothing."""
    assert Life.read(str(noted)) == noted
    assert noted.outdates(mine) is outdated


def test_no_two_roles_share_a_transactional_id() -> None:
    """⚑ A record may be a dead letter of one table and a row of another."""
    place, key = LettersTopic({}, "dead", "s", 1), StateKey("s", "t", 3, "d.t")
    assert place.transactional_id(key) == "chsink-s/dead-letters/t/3/d.t"
    assert place.transactional_id(replace(key, table="d.u")) != place.transactional_id(key)
    assert place.group_of("d.t") == "chsink-s/dead-letters/d.t" != place.group_of("d.u")
