"""What the mirror's producers, readers and groups keep to.  Each test runs against Kafka and against the simulator's."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Timer

import pytest

from chsink.embedded.kafka import EmbeddedKafka
from chsink.mirror.control import ControlSender, ControlUnanswered, Fenced, Names
from chsink.mirror.events import Event, StartCommit, encode
from chsink.mirror.ports import EventReader
from chsink.statemachine.ranges import TopicPartition
from tests.mirror_sim.broker import Broker, names_of
from tests.sim.hub import Group, Hub

POLLS = 60


@dataclass(frozen=True)
class Sink:
    """A sink whose control topic has two partitions, and a source topic with two."""

    names: Names
    topic: str
    sleep: Callable[[float], None]

    @property
    def tps(self) -> tuple[TopicPartition, TopicPartition]:
        return TopicPartition(self.topic, 0), TopicPartition(self.topic, 1)

    def group_reaches(self, tp: TopicPartition, offset: int) -> bool:
        """The group is read at once; what was committed just now is there a little later."""
        group = self.names.offsets()
        for _ in range(POLLS):
            if group.committed([tp])[tp] == offset:
                group.close()
                return True
            self.sleep(0.1)
        return False

    def reader(self) -> EventReader:
        reader = self.names.reader()
        reader.read_from({number: first for number, (first, _) in reader.logs().items()})
        return reader


Test = Callable[[Sink], None]


def _real(request: pytest.FixtureRequest) -> Callable[[Test], None]:
    kafka: EmbeddedKafka = request.getfixturevalue("kafka")
    name, topic = (f"{word}-{uuid.uuid4().hex[:8]}" for word in ("contract", "orders"))
    for each in (name, topic):
        kafka.create_topic(each, 2)
    sink = Sink(Names({"bootstrap.servers": kafka.bootstrap, "log_level": "0"}, name, name, 20), topic, time.sleep)
    return lambda test: test(sink)


def _simulated(_: pytest.FixtureRequest) -> Callable[[Test], None]:
    def run(test: Test) -> None:
        hub = Hub(1, frozenset())
        sink = Sink(names_of(Broker(hub, 2)), "orders", hub.sleep)
        actor = hub.spawn(Group("test"), lambda: test(sink))
        while actor in hub.actors:
            assert hub.step()

    return run


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.slow)])
def run(request: pytest.FixtureRequest) -> Callable[[Test], None]:
    """Runs a test's body."""
    return {"simulated": _simulated, "real": _real}[request.param](request)


def events(sink: Sink, count: int) -> list[bytes]:
    return [
        encode(Event(uuid.uuid4(), datetime.now(UTC), sink.names.group, StartCommit(uuid.UUID(int=n))))
        for n in range(count)
    ]


def read(reader: EventReader, count: int) -> list[tuple[int, int, bytes]]:
    found: list[tuple[int, int, bytes]] = []
    for _ in range(POLLS):
        found += reader.poll(0.5)
        if len(found) >= count:
            break
    return found


def test_a_group_that_nobody_moved_has_no_offset(run: Callable[[Test], None]) -> None:
    def body(sink: Sink) -> None:
        tp, _ = sink.tps
        with sink.names.sender("a", sink.names.group) as sender:
            assert sender.committed([tp]) == {tp: None}
        assert sink.names.offsets().committed([tp]) == {tp: None}
        assert sink.names.offsets().notes([tp]) == {tp: ""}

    run(body)


def test_a_transaction_brings_events_and_offsets_with_their_note(run: Callable[[Test], None]) -> None:
    def body(sink: Sink) -> None:
        tp, other = sink.tps
        values = events(sink, 3)
        with sink.names.sender("a", sink.names.group) as sender:
            sender.note = "claimed"
            sender.send("key", values, {tp: 7})
            assert sender.committed([tp, other]) == {tp: 7, other: None}
        assert sink.group_reaches(tp, 7)
        assert sink.names.offsets().notes([tp, other]) == {tp: "claimed", other: ""}
        found = read(sink.reader(), 3)
        assert [value for _, _, value in found] == values

    run(body)


def test_a_newer_producer_refuses_the_older_one(run: Callable[[Test], None]) -> None:
    def body(sink: Sink) -> None:
        tp, _ = sink.tps
        older = sink.names.sender("a", sink.names.group)
        older.send("key", events(sink, 1), {tp: 1})
        with sink.names.sender("a", sink.names.group) as newer:
            with pytest.raises(Fenced):
                older.send("key", events(sink, 1), {tp: 9})
            assert newer.committed([tp]) == {tp: 1}
            with sink.names.sender("b", sink.names.group) as other:
                other.send("key", [], {tp: 2})
            newer.send("key", events(sink, 1), {tp: 3})
        older.close()
        assert sink.group_reaches(tp, 3)
        assert len(read(sink.reader(), 2)) == 2

    run(body)


def test_the_events_of_one_sender_keep_their_order(run: Callable[[Test], None]) -> None:
    """⚑ E-10: one key is one partition of the control topic, in several transactions too."""

    def body(sink: Sink) -> None:
        keys = [f"orders-{number}" for number in range(6)]
        values = {key: events(sink, 40) for key in keys}
        with sink.names.sender("a", sink.names.group) as sender:
            for at in (0, 20):
                for key in keys:
                    sender.send(key, values[key][at : at + 20], {})
        found = read(sink.reader(), 240)
        places: dict[str, list[tuple[int, int]]] = {
            key: [(partition, offset) for value in values[key] for partition, offset, v in found if v == value]
            for key in keys
        }
        assert len(found) == 240
        assert all(len({partition for partition, _ in mine}) == 1 for mine in places.values())
        assert all(mine == sorted(mine) for mine in places.values())
        assert len({mine[0][0] for mine in places.values()}) == 2

    run(body)


def test_a_reader_passes_what_is_no_event(run: Callable[[Test], None]) -> None:
    """The end counts markers, and the position goes beyond them: otherwise nothing would ever be read whole."""

    def body(sink: Sink) -> None:
        reader = sink.reader()
        with sink.names.sender("a", sink.names.group) as sender:
            sender.send("key", events(sink, 2), {})
        assert len(read(reader, 2)) == 2
        ends = {number: end for number, (_, end) in reader.logs().items()}
        for _ in range(POLLS):
            ends = {number: end for number, (_, end) in reader.logs().items()}
            if reader.positions(dict.fromkeys(ends, 0)) == ends and sum(ends.values()) == 3:
                return
            assert reader.poll(0.2) == []
        raise AssertionError((reader.positions(dict.fromkeys(ends, 0)), ends))

    run(body)


def test_a_position_that_the_log_does_not_have(run: Callable[[Test], None]) -> None:
    def body(sink: Sink) -> None:
        reader = sink.names.reader()
        reader.read_from({0: 50, 1: 0})
        with pytest.raises(ControlUnanswered):
            read(reader, 1)

    run(body)


@pytest.mark.slow
def test_one_client_of_a_process_reads_a_group_for_all_senders(kafka: EmbeddedKafka) -> None:
    """To connect takes longer than all else of a hand-over, and each task opens a sender."""
    name = f"contract-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, 1)
    names = Names({"bootstrap.servers": kafka.bootstrap, "log_level": "0"}, name, name, 20)
    with (
        ControlSender(names, "a", name) as one,
        ControlSender(names, "b", name) as two,
        ControlSender(names, "c", "other") as other,
    ):
        assert one._consumer is two._consumer
        assert one._consumer is not other._consumer


@pytest.mark.slow
def test_a_poll_that_waits_is_woken(kafka: EmbeddedKafka) -> None:
    name = f"contract-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, 1)
    reader = Names({"bootstrap.servers": kafka.bootstrap, "log_level": "0"}, name, name, 20).reader()
    reader.read_from({0: 0})
    began = time.monotonic()
    Timer(0.2, reader.wake).start()
    assert reader.poll(30) == []
    assert time.monotonic() - began < 20
    reader.close()
