"""The simulated broker's transactions: producers with epochs, open and hanging transactions, groups, the control topic.

A commit is decided at once.  Its markers reach each partition and each group later, at times of their own, so offsets
may be visible before events and events before offsets.  A transaction that a killed or frozen producer left open holds
back all later events of its partitions, until a newer producer of its id, or its timeout, ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Self
from zlib import crc32

from chsink.mirror import control
from chsink.mirror.control import ControlUnanswered, Fenced, Names, NotSent
from chsink.mirror.events import DamagedEvent, Payload, decode
from chsink.statemachine.ranges import TopicPartition
from tests.sim.hub import Hub

CONTROL = "control"
GROUP = "sink"
CONTROL_GROUP = f"{GROUP}/control"
TIMEOUT_S = 5.0
SLOW_MARKER_MS = 8_000


@dataclass(eq=False, slots=True)
class Transaction:
    """``unmarked``: the logs and groups that its end marker has not reached."""

    state: str = "open"
    logs: list[Log] = field(default_factory=list)
    offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    note: str = ""
    payloads: list[Payload] = field(default_factory=list)
    unmarked: list[object] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Log:
    """One partition of the control topic: values, None for markers, each with its transaction (None: none)."""

    entries: list[tuple[bytes | None, Transaction | None]] = field(default_factory=list)
    start: int = 0

    @property
    def end(self) -> int:
        return len(self.entries)

    @property
    def stable(self) -> int:
        """The last stable offset."""
        for at in range(self.start, self.end):
            transaction = self.entries[at][1]
            if transaction is not None and self in transaction.unmarked:
                return at
        return self.end

    def committed(self, at: int) -> bytes | None:
        """The value at an offset below the stable one, if a reader of committed records sees one."""
        value, transaction = self.entries[at]
        return value if transaction is None or transaction.state == "committed" else None


@dataclass(slots=True)
class _Producer:
    epoch: int = 0
    transaction: Transaction | None = None


class Broker:
    """``watch`` is called with each transaction that commits, ``moved`` before a group's offsets move by one."""

    def __init__(self, hub: Hub, partitions: int) -> None:
        self.hub = hub
        self.life = 0
        self.logs = [Log() for _ in range(partitions)]
        self.groups: dict[str, dict[TopicPartition, int]] = {}
        self.notes: dict[tuple[str, TopicPartition], str] = {}
        self.producers: dict[str, _Producer] = {}
        self.transactions: list[Transaction] = []
        self.away_until = 0
        self.watch: Callable[[Transaction], None] = lambda _: None
        self.moved: Callable[[Transaction, str], None] = lambda *_: None

    # --- called by clients --------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """A request.  Raises Unanswered while the broker is away."""
        self.hub.pause()
        if self.hub.now < self.away_until:
            self.hub.sleep(TIMEOUT_S)
            raise ControlUnanswered("timed out")

    def wait(self, busy: Callable[[], bool]) -> None:
        """Wait until ``busy()`` is false.  Raises Unanswered."""
        until = self.hub.now + TIMEOUT_S * 1000
        while busy():
            if self.hub.now >= until:
                raise ControlUnanswered("timed out")
            self.hub.sleep(0.05)

    def fence(self, name: str) -> int:
        """Begin a new epoch of the producer; abort the open transaction of the older epochs."""
        producer = self.producers.setdefault(name, _Producer())
        producer.epoch += 1
        if producer.transaction is not None and producer.transaction.state == "open":
            self.hub.counts["outcome open transaction ended by its successor"] += 1
            self.end(producer.transaction, "aborted")
        return producer.epoch

    def finishing(self, name: str) -> bool:
        """Whether markers of the id's last transaction are still to come."""
        transaction = self.producers[name].transaction
        return transaction is not None and bool(transaction.unmarked)

    def begin(self, name: str, timeout_ms: int = control.TRANSACTION_MS) -> Transaction:
        """Open a transaction, which is aborted after ``timeout_ms``."""
        transaction = Transaction()
        producer = self.producers[name]
        producer.transaction = transaction
        self.transactions.append(transaction)
        self.hub.after(timeout_ms, lambda: self._expire(producer, transaction))
        return transaction

    def _expire(self, producer: _Producer, transaction: Transaction) -> None:
        if transaction.state == "open":
            self.hub.counts["outcome transaction timed out"] += 1
            producer.epoch += 1
            self.end(transaction, "aborted")

    def produce(self, transaction: Transaction, key: str, value: bytes) -> None:
        """One event."""
        log = self.logs[crc32(key.encode()) % len(self.logs)]
        log.entries.append((value, transaction))
        if log not in transaction.logs:
            transaction.logs.append(log)
            transaction.unmarked.append(log)

    def end(self, transaction: Transaction, state: str) -> None:
        """Decide the transaction.  Its markers follow later."""
        transaction.state = state
        if state == "committed":
            self.watch(transaction)
        for target in list(transaction.unmarked):
            slow = self.hub.fault("marker slow", 0.02)
            delay = int(self.hub.random.random() * (SLOW_MARKER_MS if slow else 20))
            self.hub.after(delay, lambda target=target: self._mark(transaction, target))  # type: ignore[misc]

    def _mark(self, transaction: Transaction, target: object) -> None:
        transaction.unmarked.remove(target)
        if isinstance(target, Log):
            target.entries.append((None, None))
        elif isinstance(target, str) and transaction.state == "committed":
            self.moved(transaction, target)
            self.groups.setdefault(target, {}).update(transaction.offsets[target])
            self.notes.update({(target, tp): transaction.note for tp in transaction.offsets[target]})
        if not transaction.unmarked:
            self.transactions.remove(transaction)

    def pending(self, group: str, tps: Iterable[TopicPartition]) -> bool:
        """Whether a transaction that has not ended moves one of these offsets."""
        asked = set(tps)
        return any(group in t.unmarked and asked & t.offsets[group].keys() for t in self.transactions)

    def committed(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The group's offsets."""
        found = self.groups.get(group, {})
        return {tp: found.get(tp) for tp in tps}

    # --- the world ----------------------------------------------------------------------------------------------------

    def recreate(self) -> None:
        """The control topic is deleted and created again."""
        self.life += 1
        self.logs = [Log() for _ in self.logs]

    def grow(self) -> None:
        """One more partition."""
        self.logs.append(Log())

    def truncate(self) -> None:
        """Retention deletes everything below the last stable offset."""
        for log in self.logs:
            log.start = log.stable

    def payloads(self, partition: int, until: int, start: int = 0) -> list[Payload]:
        """The payloads of the sink's committed events from ``start`` on, below ``until``."""
        log, found = self.logs[partition], []
        for at in range(max(start, log.start), min(until, log.stable)):
            value = log.committed(at)
            try:
                event = None if value is None else decode(value)
            except DamagedEvent:
                continue
            if event is not None and event.group_id == GROUP:
                found.append(event.payload)
        return found


@dataclass(frozen=True)
class SimNames(Names):
    """:class:`chsink.mirror.control.Names` of the simulated broker."""

    broker: Broker = field(repr=False)

    def sender(self, transactional_id: str, group: str) -> SimSender:
        """See :class:`chsink.mirror.control.Names`."""
        return SimSender(self.broker, transactional_id, group)

    def reader(self) -> SimReader:
        """See :class:`chsink.mirror.control.Names`."""
        return SimReader(self.broker)

    def offsets(self, group: str = "") -> SimOffsets:
        """See :class:`chsink.mirror.control.Names`."""
        return SimOffsets(self.broker, group or self.group)


def names_of(broker: Broker) -> SimNames:
    """The simulated sink's names."""
    return SimNames({}, CONTROL, GROUP, TIMEOUT_S, broker)


class SimOffsets:
    """:class:`chsink.mirror.ports.GroupReader` that reads the present offsets, without waiting."""

    def __init__(self, broker: Broker, group: str) -> None:
        self.broker, self.group = broker, group

    def committed(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """See :class:`chsink.mirror.ports.GroupReader`."""
        asked = list(tps)
        self.broker.ask()
        return self.broker.committed(self.group, asked)

    def notes(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """See :class:`chsink.mirror.ports.GroupReader`."""
        asked = list(tps)
        self.broker.ask()
        known = self.broker.groups.get(self.group, {})
        return {tp: self.broker.notes.get((self.group, tp), "") if tp in known else "" for tp in asked}

    def close(self) -> None:
        """Nothing to release."""


class SimSender(SimOffsets):
    """:class:`chsink.mirror.ports.EventSender`."""

    def __init__(self, broker: Broker, name: str, group: str) -> None:
        super().__init__(broker, group)
        self.name, self.note = name, ""
        broker.ask()
        self.epoch = broker.fence(name)
        broker.wait(lambda: broker.finishing(name))
        broker.ask()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def committed(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """See :class:`chsink.mirror.ports.EventSender`."""
        asked, broker = list(tps), self.broker
        broker.ask()
        broker.wait(lambda: broker.pending(self.group, asked))
        return broker.committed(self.group, asked)

    def notes(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """See :class:`chsink.mirror.ports.EventSender`."""
        asked = list(tps)
        self.broker.wait(lambda: self.broker.pending(self.group, asked))
        return super().notes(asked)

    def send(self, key: str, values: Sequence[bytes], offsets: Mapping[TopicPartition, int]) -> None:
        """See :class:`chsink.mirror.ports.EventSender`."""
        broker, hub = self.broker, self.broker.hub
        broker.wait(lambda: broker.finishing(self.name))
        self._check()
        transaction = broker.begin(self.name)
        for value in values:
            broker.ask()
            self._check()
            if hub.fault("event refused", 0.005):
                broker.end(transaction, "aborted")
                raise NotSent("refused")
            broker.produce(transaction, key, value)
            event = decode(value)
            assert event is not None
            transaction.payloads.append(event.payload)
        self._at("killed in a transaction")
        if offsets:
            broker.ask()
            self._check()
            transaction.offsets[self.group], transaction.note = dict(offsets), self.note
            transaction.unmarked.append(self.group)
        self._at("killed before a commit")
        broker.ask()
        self._check()
        if hub.fault("commit request lost", 0.01):
            raise ControlUnanswered("request lost")
        broker.end(transaction, "committed")
        if hub.fault("commit answer lost", 0.02):
            raise ControlUnanswered("answer lost")
        self._at("killed after a commit")
        broker.ask()

    def beside(self, group: str) -> Self:
        """See :class:`chsink.mirror.ports.EventSender`."""
        other = copy(self)
        other.group = group
        return other

    def _check(self) -> None:
        if self.broker.producers[self.name].epoch != self.epoch:
            self.broker.hub.counts["outcome fenced"] += 1
            raise Fenced("a newer producer was opened")

    def _at(self, fault: str) -> None:
        if self.broker.hub.fault(fault, 0.02):
            self.broker.hub.die()


class SimReader:
    """:class:`chsink.mirror.ports.EventReader`."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.at: dict[int, int] = {}

    def logs(self) -> dict[int, tuple[int, int]]:
        """See :class:`chsink.mirror.ports.EventReader`."""
        self.broker.ask()
        starts = [log.start for log in self.broker.logs]
        self.broker.ask()
        return {n: (start, self.broker.logs[n].end) for n, start in enumerate(starts)}

    def read_from(self, positions: Mapping[int, int]) -> None:
        """See :class:`chsink.mirror.ports.EventReader`."""
        self.at = dict(positions)

    def poll(self, timeout_s: float) -> list[tuple[int, int, bytes]]:
        """See :class:`chsink.mirror.ports.EventReader`."""
        self.broker.ask()
        found = self._found()
        if not found:
            self.broker.hub.sleep(timeout_s)
            found = self._found()
        return found

    def wake(self) -> None:
        """See :class:`chsink.mirror.ports.EventReader`.  Its polls are not interrupted."""

    def _found(self) -> list[tuple[int, int, bytes]]:
        few = self.broker.hub.random.choice([2, 5, 1000])
        found: list[tuple[int, int, bytes]] = []
        for number, began in self.at.items():
            log, at = self.broker.logs[number], began
            if not log.start <= at <= log.end:
                raise ControlUnanswered("offset out of range")
            stable = log.stable
            while at < stable and len(found) < few:
                value = log.committed(at)
                if value is not None:
                    found.append((number, at, value))
                at += 1
            self.at[number] = at
        return found

    def uncommitted(self, partition: int, offset: int) -> tuple[str, bytes] | None:
        """See :class:`chsink.mirror.ports.EventReader`."""
        log = self.broker.logs[partition]
        value, _ = log.entries[offset] if log.start <= offset < log.end else (None, None)
        return None if value is None else ("", value)

    def positions(self, start: Mapping[int, int]) -> dict[int, int]:
        """See :class:`chsink.mirror.ports.EventReader`."""
        return {number: max(self.at[number], at) for number, at in start.items()}

    def close(self) -> None:
        """Nothing to release."""
