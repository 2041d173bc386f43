"""The dead letters that a world's job kept, in a table or in a topic, and how production code reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from confluent_kafka import KafkaError

from chsink.dlq import marks
from chsink.dlq.digest import DIGEST
from chsink.dlq.kept import KeptLetters
from chsink.dlq.place import LetterPlace
from chsink.dlq.topic import letter_of
from chsink.dlq.where import Where
from chsink.mirror.control import ControlUnanswered as NoAnswer
from chsink.ports import Unreachable
from chsink.statemachine.records import StateKey, StateRecord
from tests.sim.clickhouse import LETTERS, Server
from tests.sim.hub import Hub
from tests.sim.kafka import uid_of
from tests.sim.letters import PARTITIONS, TOPIC, LettersTopic

BAD = b"bad"
"""The value of a record that fits no table, ever."""


@dataclass(slots=True)
class Table:
    """The table of dead letters, as :class:`chsink.dlq.table.LettersInTable` reads it: ``server`` has its marks."""

    server: Server
    sink: str
    kept: dict[LetterPlace, KeptLetters] = field(default_factory=dict)

    def read_from(self, _: object) -> Self:
        """See :class:`chsink.dlq.table.LettersInTable`."""
        return self

    def open_places(self, where: Where, after: LetterPlace | None, limit: int) -> list[tuple[LetterPlace, int]]:
        """See :class:`chsink.dlq.table.LettersInTable`."""
        self._ask()
        found = [at for at in sorted(self.kept) if not self._marked(at) and where.holds(self.kept[at])]
        return [(at, 1) for at in found if after is None or at > after][: min(limit, 5)]

    def letters(self, key: StateKey, offsets: Sequence[int], nonce: str = "") -> list[KeptLetters]:
        """See :class:`chsink.dlq.table.LettersInTable`.  No record has two marks, so none is left out."""
        self._ask()
        places = [LetterPlace(key.topic, key.partition, offset, key.table) for offset in offsets]
        return [self.kept[at] for at in places if at in self.kept]

    def marked(self, key: StateKey, record: StateRecord) -> int:
        """See :class:`chsink.dlq.table.LettersInTable`."""
        self._ask()
        places = [LetterPlace(key.topic, key.partition, offset, key.table) for offset in record.doubt.only]
        return sum(self._marked(at) for at in places)

    def remove(self, partition: int) -> None:
        """A person deletes dead letters and their marks."""
        self.kept = {at: kept for at, kept in self.kept.items() if at.partition != partition}
        self.server.tables[LETTERS].rows.pop(("t", partition), None)

    def _ask(self) -> None:
        self.server.hub.pause()
        if self.server.hub.now < self.server.up_at:
            raise Unreachable("connection refused")

    def _marked(self, at: LetterPlace) -> bool:
        return uid_of(0, at.partition, at.offset) in self.server.tables[LETTERS].rows.get(("t", at.partition), ())


class Topic(LettersTopic):
    """The topic of dead letters; ``marked`` is called with each mark.  ``uids`` are the records' uids, by digest."""

    def __init__(self, hub: Hub, marked: Callable[[str, int], None]) -> None:
        super().__init__(hub, lambda _: None)
        self.marked = marked
        self.uids: dict[str, int] = {}

    def keep(self, kept: KeptLetters, sink: str) -> None:
        """Add a dead letter as the job does; now and then without a key, in any partition, or after another sink's."""
        row = {
            "sink": sink,
            "table": kept.table,
            "_kafka_topic": kept.topic,
            "_kafka_partition": kept.partition,
            "_kafka_offset": kept.offset,
            **{
                name: getattr(kept, name) for name in ("column", "error_id", "reason", "timestamp_ms", "timestamp_type")
            },
            **{name: getattr(kept, name) for name in ("key", "value")},
            "headers": [],
        }
        if kept.value is not None and kept.value.isdigit():
            self.uids[kept.digest] = int(kept.value)
        partition = int(self.hub.random.random() * PARTITIONS)
        self.put(letter_of(row, kept.nonce), partition)

    def put(self, letter: Mapping[str, Any], partition: int) -> None:
        """Append a letter to a partition."""
        self.letters.append({"key": None, "value": None, **letter})
        self.broker.logs[partition].entries.append((str(len(self.letters) - 1).encode(), None))

    def open_transaction(self, for_ms: int) -> None:
        """Open a transaction of another sender, which ends it after ``for_ms``."""
        name = f"other {len(self.letters)}"
        self.broker.fence(name)
        transaction = self.broker.begin(name, for_ms)
        for key in ("a", "b"):
            self.letters.append({"key": None, "value": key.encode(), "headers": []})
            self.broker.produce(transaction, key, str(len(self.letters) - 1).encode())

    @contextmanager
    def instead_of_kafka(self) -> Iterator[None]:
        """Also give the producer of marks this topic."""
        before = vars(marks)["Producer"]
        vars(marks)["Producer"] = partial(MarksProducer, self)
        try:
            with super().instead_of_kafka():
                yield
        finally:
            vars(marks)["Producer"] = before


class MarksProducer:
    """:class:`confluent_kafka.Producer` without transactions: it sends when it is flushed, each message by itself."""

    def __init__(self, at: Topic, settings: Mapping[str, Any], logger: object = None) -> None:
        assert settings["acks"] == "all"
        self._topic = at
        self._waiting: list[tuple[int, Mapping[str, Any], Callable[[KafkaError | None, object], None]]] = []

    def produce(self, name: str, *, partition: int, on_delivery: Any, **mark: Any) -> None:
        assert name == TOPIC
        self._waiting.append((partition, mark, on_delivery))

    def flush(self, timeout_s: float) -> int:
        waiting, self._waiting = self._waiting, []
        hub = self._topic.hub
        for partition, mark, reported in waiting:
            try:
                self._topic.broker.ask()
            except NoAnswer:
                reported(KafkaError(KafkaError._MSG_TIMED_OUT), None)
                continue
            if hub.fault("mark refused", 0.02):
                reported(KafkaError(KafkaError._MSG_TIMED_OUT), None)
                continue
            said = {name: value.decode() for name, value in mark["headers"]}
            self._topic.put(mark, partition)
            self._topic.marked(said["chsink.table"], self._topic.uids.get(said[DIGEST], 0))
            lost = hub.fault("mark answer lost", 0.02)
            reported(KafkaError(KafkaError._MSG_TIMED_OUT) if lost else None, None)
        return 0
