"""Which dead letters a sender delivers to a topic, by what the group says: never one twice, never one too few.

The broker is a few fields; that the real one behaves so is tested in ``tests/integration/job/test_dead_letters_topic.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from chsink.dlq import topic as under_test
from chsink.dlq.letters import letters_of
from chsink.dlq.place import LettersTopic
from chsink.dlq.topic import Life, TopicLetters
from chsink.driver.roles import Assignment
from chsink.errors import ChsinkError
from chsink.ports import BadValue
from chsink.statemachine.parts import Seen, Sending, TopicLife
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord
from tests.support.records import batch

KEY = StateKey("sink", "t", 1, "db.t")
RECORD = StateRecord(Phase.BEFORE, 2, "a", 10, 20, life=TopicLife("id", nonce="n"), sent=Sending(5), seen=Seen(1_000))
CHUNK = OffsetRange(10, 15)
DEAD = [11, 13]


@dataclass
class Broker:
    """A group's offset with its note, and the offsets of the letters that were committed."""

    offset: int | None = None
    note: str = ""
    letters: list[int] = field(default_factory=list)
    opened: int = 0
    lose_answer: bool = False
    refuse: int | None = None


@dataclass
class Opened:
    """A sender's producer, fenced by the next one."""

    broker: Broker
    number: int
    offset: int | None
    note: str

    def close(self) -> None:
        """Nothing."""

    def send(self, letters: list[dict[str, Any]], end: int, life: Life) -> None:
        if self.broker.refuse is not None:
            raise KafkaException(KafkaError(self.broker.refuse))
        if self.number != self.broker.opened:
            raise KafkaException(KafkaError(KafkaError._FENCED))
        self.broker.letters += [int(dict(letter["headers"])["chsink.offset"]) for letter in letters]
        self.broker.offset, self.broker.note = end, str(life)
        if self.broker.lose_answer:
            self.broker.lose_answer = False
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        self.remember(end, life)

    def remember(self, end: int | None, life: Life) -> None:
        if end is not None:
            self.offset, self.note = end, str(life)


class Clock:
    def now_ms(self) -> int:
        return 2_000

    def steady_ms(self) -> int:
        return 2_000

    def sleep(self, seconds: float) -> None:
        """At once."""


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()

    def opened(_place: LettersTopic, _tp: TopicPartition) -> Opened:
        broker.opened += 1
        return Opened(broker, broker.opened, broker.offset, broker.note)

    monkeypatch.setattr(under_test, "_Open", opened)
    monkeypatch.setattr(under_test, "delivered_until", lambda *_: max(broker.letters, default=-1) + 1 or None)
    return broker


def deliver(
    sender: TopicLetters | None = None, record: StateRecord = RECORD, chunk: OffsetRange = CHUNK, *, again: bool = False
) -> None:
    assignment = Assignment(KEY, record, "", 0, again=again)
    rows = batch().slice(chunk.start - 10, chunk.length)
    dead = [BadValue(o - 10, "n", "why") for o in DEAD] if chunk == CHUNK else [BadValue(0, "n", "why")]
    sender = sender or TopicLetters(LettersTopic({}, "dead", "sink", 1), Clock())
    sender.deliver(assignment, 0, chunk, letters_of(rows, dead, assignment))


def test_a_chunk_that_was_delivered_is_not_delivered_again(broker: Broker) -> None:
    """⚑ By an older attempt, an older driver, or a task beside this one: the group tells."""
    deliver()
    deliver()
    deliver(record=replace(RECORD, epoch=3))
    assert (broker.letters, broker.offset) == (DEAD, 15)


def test_an_answer_that_was_lost_is_looked_up(broker: Broker) -> None:
    """⚑ The commit was applied: sending again would double."""
    broker.lose_answer = True
    deliver()
    assert (broker.letters, broker.opened) == (DEAD, 2)


def test_a_fenced_sender_reads_the_group_again(broker: Broker) -> None:
    """⚑ Two attempts of a task take turns; each letter is there once."""
    one, other = (TopicLetters(LettersTopic({}, "dead", "sink", 1), Clock()) for _ in range(2))
    deliver(one)
    deliver(other)
    deliver(other, chunk=OffsetRange(15, 20))
    deliver(one, chunk=OffsetRange(15, 20))
    assert (broker.letters, broker.offset) == ([*DEAD, 15], 20)


def test_an_offset_of_an_earlier_life_says_nothing(broker: Broker) -> None:
    """The topic was recreated, or the state reset: its offsets start again."""
    broker.offset, broker.note = 900, str(Life(1, 0, "older"))
    deliver()
    assert (broker.letters, broker.offset) == (DEAD, 15)


@pytest.mark.parametrize("note", [str(Life(3, 0, "newer")), "written by another program"])
def test_a_sender_of_an_earlier_life_delivers_nothing(broker: Broker, note: str) -> None:
    """⚑ It slept through a reset."""
    broker.offset, broker.note = 5, note
    with pytest.raises(ChsinkError, match="CHS-335"):
        deliver()
    assert broker.letters == []


def test_a_group_that_may_have_forgotten_is_not_believed(broker: Broker) -> None:
    """⚑ Delivered; then Kafka forgot the group's offset, or a person deleted the group, while the range was in doubt."""
    deliver()
    broker.offset, broker.note = None, ""
    deliver(again=True)
    assert broker.letters == DEAD


def test_what_was_forgotten_is_searched_for_the_whole_range(broker: Broker) -> None:
    """⚑ Both chunks were delivered.  That the first one is settled says nothing about the second one."""
    later = OffsetRange(15, 20)
    deliver()
    deliver(chunk=later)
    broker.offset, broker.note = None, ""
    sender = TopicLetters(LettersTopic({}, "dead", "sink", 1), Clock())
    deliver(sender, again=True)
    deliver(sender, chunk=later, again=True)
    assert broker.letters == [*DEAD, 15]


def test_what_kafka_refuses_is_a_halt(broker: Broker) -> None:
    broker.refuse = KafkaError.MSG_SIZE_TOO_LARGE
    with pytest.raises(ChsinkError, match="CHS-334"):
        deliver()
    broker.refuse = KafkaError._TIMED_OUT
    with pytest.raises(ChsinkError, match="CHS-735"):
        deliver()
