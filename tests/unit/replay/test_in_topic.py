"""Dead letters and replay marks in a topic: what is what, which are open, and where marks go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from chsink.dlq.kept import KeptLetters, kept_in_topic
from chsink.dlq.marks import marks_of
from chsink.dlq.place import LetterPlace, LettersTopic
from chsink.dlq.search import Letter, ReplayMark, delivered_until, held_in
from chsink.dlq.where import where
from chsink.driver.roles import Assignment
from chsink.replay.in_topic import InTopic
from chsink.statemachine import writes
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey, StateRecord
from tests.replay_sim.letters import Topic
from tests.sim.hub import Group, Hub
from tests.sim.letters import TOPIC

PLACE = LettersTopic({"bootstrap.servers": "k"}, TOPIC, "s", 20)
KEY = StateKey("s~replay", "t", 0, "d.t")
LETTER = KeptLetters("t", 0, 0, "d.t", "c", "CHS-501", "r", 1, 0, False, None, b"v", (), "n")


def within(fill: Callable[[Topic], None], body: Callable[[Topic], None]) -> None:
    """Run it as a process over a simulated topic."""
    hub = Hub(1)
    hub.calm = True
    topic = Topic(hub, lambda *_: None)
    fill(topic)
    with topic.instead_of_kafka():
        hub.spawn(Group("replay"), lambda: body(topic))
        while hub.step():
            pass


def announced(*offsets: int) -> StateRecord:
    said = writes.Announcement(None, Sending(1, "L", "P"), Seen(1))
    return writes.replaying(writes.empty(1, "a"), offsets, said, epoch=1, attempt="list")


def later(*offsets: int) -> StateRecord:
    """The same offsets, announced by a later replay."""
    record = announced(*offsets)
    return replace(record, life=replace(record.life, nonce="later"))


def mark(source: InTopic, record: StateRecord) -> None:
    """All that the list has at its offsets."""
    assignment = Assignment(KEY, record, "", 0)
    by_offset = {one.offset: one for one in source.letters(KEY, record.doubt.only)}
    source.deliver(assignment, 0, record.range, marks_of(assignment, list(by_offset.values())))


def test_a_mark_is_no_dead_letter_whatever_a_record_looks_like() -> None:
    """⚑ The headers of a record may be those of a mark: it is a dead letter all the same."""
    like_a_mark: list[tuple[str, Any]] = [("chsink.replayed", b"x"), ("chsink.offset", b"1")]
    found: list[Letter | ReplayMark] = []

    def fill(topic: Topic) -> None:
        topic.keep(LETTER, "s")
        topic.letters[0] = {**topic.letters[0], "headers": like_a_mark + topic.letters[0]["headers"]}
        topic.put({"headers": like_a_mark}, 0)

    def body(_topic: Topic) -> None:
        source = InTopic(PLACE)
        source.begin()
        mark(source, announced(0))
        found.extend(held_in(PLACE))

    within(fill, body)
    letters, marks = [o for o in found if isinstance(o, Letter)], [o for o in found if isinstance(o, ReplayMark)]
    assert [(one.place, one.headers) for one in letters] == [(LetterPlace("t", 0, 0, "d.t"), tuple(like_a_mark))]
    assert marks == [ReplayMark("s~replay", LetterPlace("t", 0, 0, "d.t"), letters[0].digest, "list")]


def test_a_mark_is_in_each_partition_that_has_a_dead_letter_of_its_record() -> None:
    """⚑ Kafka deletes a partition's records in their order: none of them may outlive its mark."""
    places: Counter[tuple[int, str]] = Counter()

    def fill(topic: Topic) -> None:
        for offset, partitions in ((0, (0, 1, 1)), (5, (1,)), (7, (0,))):
            for partition in partitions:
                topic.keep(replace(LETTER, offset=offset), "s")
                letter = topic.letters.pop()
                for log in topic.broker.logs:
                    log.entries = [e for e in log.entries if e != (str(len(topic.letters)).encode(), None)]
                topic.put(letter, partition)

    def body(topic: Topic) -> None:
        source = InTopic(PLACE)
        source.begin()
        mark(source, announced(0, 5, 7))
        for number, log in enumerate(topic.broker.logs):
            for value, _ in log.entries:
                headers = dict(topic.letters[int(value or b"")]["headers"])
                if "chsink.replayed" in headers:
                    places[number, headers["chsink.offset"].decode()] += 1

    within(fill, body)
    assert places == {(0, "0"): 1, (1, "0"): 1, (1, "5"): 1, (0, "7"): 1}


def test_what_is_open() -> None:
    """Each place once, by the conditions, without what is marked, of this sink and table only."""
    told: list[Any] = []

    def fill(topic: Topic) -> None:
        for offset in (3, 1, 2, 1):
            topic.keep(replace(LETTER, offset=offset, column=f"c{offset}"), "s")
        topic.keep(replace(LETTER, offset=2, table="d.u"), "s")
        topic.keep(LETTER, "other")

    def body(_topic: Topic) -> None:
        source = InTopic(PLACE)
        source.begin()
        mark(source, announced(2))
        source.begin()
        told.append(sorted((at.offset, at.table) for page in source.pages(where([])) for at in page))
        told.append([at.offset for page in source.pages(where(["column=c3"])) for at in page])
        told.append([one.offset for one in source.letters(KEY, (1, 2, 3, 4))])
        told.append([one.offset for one in source.letters(KEY, (1, 2), "list")])
        told.append([source.are_marked(KEY, announced(*offsets)) for offsets in ((2,), (1, 2))])
        lists = announced(2), announced(1, 2), later(2)
        told.append([source.has_landed(KEY, record) for record in lists])

    within(fill, body)
    assert told == [[(1, "d.t"), (2, "d.u"), (3, "d.t")], [3], [1, 1, 3], [1, 1, 2], [True, False], [True, True, False]]


def test_a_mark_names_the_record_not_its_place() -> None:
    """⚑ The topic was created again, and other records lie where some were replayed: they are open, and only they."""
    told: list[Any] = []
    again = replace(LETTER, timestamp_ms=2)
    others = [replace(LETTER, value=None), replace(LETTER, key=b""), replace(LETTER, key=b"-")]

    def fill(topic: Topic) -> None:
        for offset in range(5):
            topic.keep(replace(LETTER, offset=offset), "s")

    def body(topic: Topic) -> None:
        source = InTopic(PLACE)
        source.begin()
        mark(source, announced(*range(5)))
        for offset, one in enumerate([again, *others, LETTER]):
            topic.keep(replace(one, offset=offset), "s")
        source.begin()
        told.append(sorted(at.offset for page in source.pages(where([])) for at in page))
        told.append(sorted((one.offset, one.value) for one in source.letters(KEY, range(5)) if one.value))
        told.append([one.offset for one in kept_in_topic(PLACE) if one.replayed])
        record = later(0, 1)
        told.append([source.has_landed(KEY, record), source.are_marked(KEY, record)])
        mark(source, record)
        told.append([source.has_landed(KEY, record), source.are_marked(KEY, record)])
        told.append(sorted(at.offset for page in source.pages(where([])) for at in page))

    within(fill, body)
    assert told[:2] == [[0, 1, 2, 3], [(0, b"v"), (2, b"v"), (3, b"v")]]
    assert sorted(told[2]) == [0, 1, 2, 3, 4, 4]
    assert told[3:] == [[False, False], [True, True], [2, 3]]


def test_dead_letters_behind_an_open_transaction_are_waited_for() -> None:
    """⚑ Whoever asks what was delivered would deliver them again."""
    found: list[int | None] = []

    def fill(topic: Topic) -> None:
        topic.open_transaction(5_000)
        for offset in range(4):  # in both partitions
            topic.keep(replace(LETTER, offset=offset), "s")

    within(fill, lambda _: found.append(delivered_until(PLACE, replace(KEY, sink="s"), "n", OffsetRange(0, 10))))
    assert found == [4]
