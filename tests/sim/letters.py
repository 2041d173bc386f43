"""A simulated topic of dead letters: the Kafka client as :mod:`chsink.dlq` uses it, over simulated transactions.

Production code decides what to send and what was sent; this is the client below it.  Every sink of the simulated world
could share the topic: it is read as a whole, and holds committed messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from chsink.dlq import search, topic
from chsink.kafka import transactions
from chsink.mirror.control import ControlUnanswered as NoAnswer
from chsink.statemachine.ranges import TopicPartition
from tests.mirror_sim.broker import Broker, Log, Transaction
from tests.sim.hub import Hub

TOPIC = "dead"
PARTITIONS = 2
FAULTS = ("dead letter refused", "dead letters commit lost", "dead letters answer lost", "marker slow")
AWAY_MS = 20_000


@dataclass(frozen=True, slots=True)
class Message:
    """:class:`confluent_kafka.Message`: a record, or what a consumer is told instead of one."""

    at: tuple[int, int]
    letter: Mapping[str, Any] = field(default_factory=dict)
    code: int | None = None

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)

    def partition(self) -> int:
        return self.at[0]

    def offset(self) -> int:
        return self.at[1]

    def key(self) -> bytes | None:
        found: bytes | None = self.letter["key"]
        return found

    def value(self) -> bytes | None:
        found: bytes | None = self.letter["value"]
        return found

    def headers(self) -> list[tuple[str, bytes | None]]:
        return list(self.letter["headers"])


class LettersTopic:
    """The topic, its transactions and the groups beside it.  ``committed`` is called with the messages of each
    transaction that commits.
    """

    def __init__(self, hub: Hub, committed: Callable[[list[Mapping[str, Any]]], None]) -> None:
        self.hub = hub
        self.broker = Broker(hub, PARTITIONS)
        self.broker.watch = self._watch
        self.letters: list[Mapping[str, Any]] = []
        self._committed = committed

    def append(self, transaction: Transaction, letter: Mapping[str, Any]) -> None:
        """One dead letter of an open transaction.  The log holds its number."""
        self.letters.append(letter)
        self.broker.produce(transaction, str(letter["value"]), str(len(self.letters) - 1).encode())

    def forget_group(self) -> None:
        """Kafka forgets the offsets of an unused group, or a person deletes the group."""
        self.broker.groups.clear()

    def be_away(self) -> None:
        """The broker does not answer for a while."""
        self.broker.away_until = self.hub.now + int(self.hub.random.random() * AWAY_MS)

    @contextmanager
    def instead_of_kafka(self) -> Iterator[None]:
        """Inside the block, clients that chsink opens use this topic and wait by the hub's clock."""
        mine = {
            "Producer": partial(Producer, self),
            "Consumer": partial(Consumer, self),
            "time": _Time(self.hub),
            "in_time": lambda request, timeout_s: request(timeout_s),
        }
        before = [
            (module, name, vars(module)[name])
            for module in (topic, search, transactions)
            for name in mine
            if name in vars(module)
        ]
        for module, name, _ in before:
            vars(module)[name] = mine[name]
        try:
            yield
        finally:
            for module, name, real in before:
                vars(module)[name] = real

    def _watch(self, transaction: Transaction) -> None:
        if transaction.state == "committed":
            values = [v for log in transaction.logs for v, of in log.entries if of is transaction and v is not None]
            self._committed([self.letters[int(value)] for value in values])


@dataclass(frozen=True, slots=True)
class _Time:
    hub: Hub

    def monotonic(self) -> float:
        return self.hub.now / 1000


@contextmanager
def _as_client() -> Iterator[None]:
    """Raise NoAnswer as an error of the client."""
    try:
        yield
    except NoAnswer:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None


class Producer:
    """:class:`confluent_kafka.Producer` with a transactional id.  It sends when it is flushed."""

    def __init__(self, at: LettersTopic, settings: Mapping[str, Any], logger: object = None) -> None:
        self._topic, self._broker = at, at.broker
        self._id, self._timeout_ms = str(settings["transactional.id"]), int(settings["transaction.timeout.ms"])
        self._epoch = 0
        self._waiting: list[tuple[Mapping[str, Any], Callable[[KafkaError | None, object], None]]] = []
        self._transaction: Transaction | None = None

    def init_transactions(self, timeout_s: float) -> None:
        with _as_client():
            self._broker.ask()
            self._epoch = self._broker.fence(self._id)
            self._broker.wait(lambda: self._broker.finishing(self._id))
            self._broker.ask()

    def list_topics(self, name: str, timeout: float) -> None:
        """Called only to connect."""

    def begin_transaction(self) -> None:
        """Sends no request: the first request of the transaction tells the broker."""
        self._transaction = None

    def produce(self, name: str, *, on_delivery: Callable[[KafkaError | None, object], None], **letter: Any) -> None:
        assert name == TOPIC
        self._waiting.append((letter, on_delivery))

    def poll(self, timeout_s: float) -> int:
        raise AssertionError("no queue of a simulated producer is full")

    def flush(self, timeout_s: float) -> int:
        waiting, self._waiting = self._waiting, []
        for letter, reported in waiting:
            try:
                self._request()
            except KafkaException as error:
                reported(error.args[0], None)
                continue
            if self._topic.hub.fault(FAULTS[0], 0.01):
                reported(KafkaError(KafkaError._MSG_TIMED_OUT), None)
                continue
            assert self._transaction is not None
            self._topic.append(self._transaction, letter)
            reported(None, None)
        return 0

    def send_offsets_to_transaction(self, offsets: Sequence[ClientPartition], group: str, timeout_s: float) -> None:
        self._request()
        transaction = self._transaction
        assert transaction is not None
        transaction.offsets[group] = {TopicPartition(o.topic, o.partition): o.offset for o in offsets}
        transaction.note = offsets[0].metadata or ""
        transaction.unmarked.append(group)

    def commit_transaction(self, timeout_s: float) -> None:
        self._request()
        hub, transaction = self._topic.hub, self._transaction
        assert transaction is not None
        lost = KafkaException(KafkaError(KafkaError._TIMED_OUT))
        if hub.fault(FAULTS[1], 0.02):
            raise lost
        self._broker.end(transaction, "committed")
        if hub.fault(FAULTS[2], 0.04):
            raise lost
        with _as_client():
            self._broker.ask()

    def _request(self) -> None:
        """A request of the transaction, whose first one begins it.  KafkaException for a producer that is fenced."""
        with _as_client():
            self._broker.ask()
            if self._transaction is None:
                self._broker.wait(lambda: self._broker.finishing(self._id))
        if self._broker.producers[self._id].epoch != self._epoch:
            self._topic.hub.counts["outcome dead letters fenced"] += 1
            raise KafkaException(KafkaError(KafkaError._FENCED))
        if self._transaction is None:
            self._transaction = self._broker.begin(self._id, self._timeout_ms)


@dataclass(slots=True)
class _Metadata:
    """What :meth:`Consumer.list_topics` answers."""

    topics: Mapping[str, _Metadata] = field(default_factory=dict)
    partitions: Mapping[int, object] = field(default_factory=dict)
    error: None = None


class Consumer:
    """:class:`confluent_kafka.Consumer` that is no member of its group, and reads what was committed."""

    def __init__(self, at: LettersTopic, settings: Mapping[str, Any]) -> None:
        self._committed = settings["isolation.level"] == "read_committed"
        self._topic, self._broker = at, at.broker
        self._group = str(settings["group.id"])
        self._at: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self._come: list[Message] = []

    def close(self) -> None:
        """Nothing to release."""

    def consumer_group_metadata(self) -> str:
        return self._group

    def committed(self, asked: Sequence[ClientPartition], timeout: float) -> list[ClientPartition]:
        tps = [TopicPartition(each.topic, each.partition) for each in asked]
        with _as_client():
            self._broker.ask()
            self._broker.wait(lambda: self._broker.pending(self._group, tps))
        return [self._offset(tp) for tp in tps]

    def _offset(self, tp: TopicPartition) -> ClientPartition:
        offset = self._broker.groups.get(self._group, {}).get(tp)
        if offset is None:
            return ClientPartition(tp.topic, tp.partition)
        self._topic.hub.counts["outcome dead letters known by the group"] += 1
        return ClientPartition(tp.topic, tp.partition, offset, self._broker.notes[self._group, tp])

    def list_topics(self, name: str, timeout: float) -> _Metadata:
        with _as_client():
            self._broker.ask()
        return _Metadata({name: _Metadata(partitions=dict.fromkeys(range(PARTITIONS)))})

    def get_watermark_offsets(self, of: ClientPartition, timeout: float) -> tuple[int, int]:
        """The start and the end; for a reader of committed messages, the end is before the first open transaction."""
        with _as_client():
            self._broker.ask()
        self._topic.hub.counts["outcome dead letters searched for"] += 1
        log = self._broker.logs[of.partition]
        return log.start, log.stable if self._committed else log.end

    def assign(self, partitions: Sequence[ClientPartition]) -> None:
        self._at = {each.partition: each.offset for each in partitions}

    def poll(self, timeout: float) -> Message | None:
        with _as_client():
            self._broker.ask()
        self._come = list(self._read())
        if not self._come:
            self._topic.hub.sleep(timeout)
            return None
        return self._come.pop(0)

    def consume(self, count: int, timeout: float) -> list[Message]:
        come, self._come = self._come, []
        return come

    def _read(self) -> Iterator[Message]:
        """Records, and for each partition one end-of-partition message each time that its readable end is reached."""
        for number, began in self._at.items():
            log: Log = self._broker.logs[number]
            end = log.stable
            for at in range(began, end):
                value = log.committed(at)
                if value is not None:
                    yield Message((number, at), self._topic.letters[int(value)])
            self._at[number] = end
            if self._ended.get(number) != end:
                self._ended[number] = end
                yield Message((number, end), code=KafkaError._PARTITION_EOF)
