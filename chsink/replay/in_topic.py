"""Dead letters in a Kafka topic, for a replay.

Each command reads the topic once from its start to its current end, to learn where each dead letter is and which of
them have a replay mark.  Memory: about 50 bytes for a dead letter, and 150 for a mark.  Then it reads the topic a
second time, page by page.

Rules:
- A page holds dead letters that follow each other in the topic, so one pass reads it.
- Dead letters of one place count once, wherever they are in the topic.
- A mark belongs to one record.  Another record that has the same place later has no mark.
- The topic is read up to the end that it had after the replay claimed its name: this includes every mark that an
  earlier replay wrote before its AFTER.  A replay remembers its own marks as it sends them.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaException

from chsink.dlq.digest import DIGEST, short
from chsink.dlq.kept import KeptLetters, kept_of
from chsink.dlq.marks import send_marks
from chsink.dlq.place import LetterPlace, LettersTopic, replay_sink
from chsink.dlq.search import Heard, Letter, held_in, letters_at
from chsink.dlq.where import Where
from chsink.driver.roles import Assignment
from chsink.errors import services
from chsink.ports import InsertResult
from chsink.replay.source import ROUND_LETTERS, bounded
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey, StateRecord

_Origin = tuple[str, int, str]
"""Topic, partition and table: of which record a dead letter is, and for which table."""
I64 = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Index:
    """Where the dead letters are.  ``columns``: a number for each origin, the offset of the record and its digest;
    partition, offset and size of the dead letter itself.  ``lists`` numbers those of which there is a mark, by origin
    and nonce; ``marked`` has the list by origin and record.
    """

    origins: dict[_Origin, int] = field(default_factory=dict)
    columns: tuple[array[int], ...] = field(default_factory=lambda: tuple(array("q") for _ in range(6)))
    marked: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    lists: dict[tuple[int, str], int] = field(default_factory=dict)

    def origin(self, topic: str, partition: int, table: str) -> int:
        """Its number."""
        return self.origins.setdefault((topic, partition, table), len(self.origins))

    def add(self, letter: Letter) -> None:
        """One more dead letter."""
        at = letter.place
        size = 200 + sum(len(part or b"") for part in (letter.key, letter.value, *(v for _, v in letter.headers)))
        origin = self.origin(at.topic, at.partition, at.table)
        row = origin, at.offset, short(letter.digest), letter.partition, letter.offset, size
        for column, number in zip(self.columns, row, strict=True):
            column.append(number)

    def mark(self, at: LetterPlace, digest: str, nonce: str) -> None:
        """Its record has a row, like all records of the list."""
        origin = self.origin(at.topic, at.partition, at.table)
        number = self.lists.setdefault((origin, nonce), len(self.lists))
        self.marked[origin].setdefault(_record(at.offset, short(digest)), number)

    def positions(self, origin: int, offsets: Iterable[int], nonce: str = "") -> list[tuple[int, int, int, int]]:
        """Of the dead letters at these offsets, but for what another list than ``nonce`` replayed: the record's offset
        and digest, and the partition and offset where each dead letter is.
        """
        origins, of, digest, partition, at, _ = self._rows()
        chosen = (origins == origin) & np.isin(of, np.fromiter(offsets, np.int64))
        found = zip(*(column[chosen].tolist() for column in (of, digest, partition, at)), strict=True)
        marked, own = self.marked[origin], self.lists.get((origin, nonce))
        return [one for one in found if marked.get(_record(one[0], one[1]), own) == own]

    def open(self) -> Iterator[tuple[LetterPlace, int]]:
        """The places of dead letters without a mark, each once, with its size, in the order of the topic."""
        origins, of, digest, partition, at, size = self._rows()
        names = {number: origin for origin, number in self.origins.items()}
        order = np.lexsort((at, partition))
        rows = zip(origins[order], of[order], digest[order], strict=True)
        done = (_record(int(offset), int(record)) in self.marked[int(origin)] for origin, offset, record in rows)
        order = order[~np.fromiter(done, np.bool_, len(order))]
        _, first = np.unique(np.stack([origins[order], of[order]]), axis=1, return_index=True)
        for row in order[np.sort(first)].tolist():
            topic, number, table = names[int(origins[row])]
            yield LetterPlace(topic, number, int(of[row]), table), int(size[row])

    def _rows(self) -> list[I64]:
        return [np.frombuffer(column, np.int64) if column else np.empty(0, np.int64) for column in self.columns]


class InTopic:
    """:class:`chsink.replay.source.LetterSource` in a topic, and :class:`chsink.dlq.letters.Delivery` for its marks.

    CHS-702 for what cannot be read, CHS-735 for marks that cannot be sent.
    """

    def __init__(self, place: LettersTopic, heard: Heard = lambda _: None) -> None:
        self._place, self._heard = place, heard
        self._index = _Index()
        self._page: dict[LetterPlace, list[KeptLetters]] = {}

    @property
    def sink(self) -> str:
        """See :class:`chsink.replay.source.LetterSource`."""
        return self._place.sink

    def begin(self) -> None:
        """See :class:`chsink.replay.source.LetterSource`."""
        self._index, self._page = _Index(), {}
        replays = replay_sink(self.sink)
        with self._answering():
            for one in held_in(self._place, whole=True, heard=self._heard):
                if isinstance(one, Letter):
                    if one.sink == self.sink:
                        self._index.add(one)
                elif one.sink == replays:
                    self._index.mark(one.place, one.digest, one.nonce)

    def pages(self, where: Where) -> Iterator[list[LetterPlace]]:
        """See :class:`chsink.replay.source.LetterSource`.  In the order of the topic."""
        found, waiting = self._index.open(), list[tuple[LetterPlace, int]]()
        while waiting := [*waiting, *islice(found, ROUND_LETTERS - len(waiting))]:
            page = bounded(waiting)
            waiting = waiting[len(page) :]
            self._page = self._read(page)
            meant = [at for at, kept in self._page.items() if any(where.holds(one) for one in kept)]
            if meant:
                yield meant

    def letters(self, key: StateKey, offsets: Sequence[int], nonce: str = "") -> list[KeptLetters]:
        """See :class:`chsink.replay.source.LetterSource`."""
        places = [LetterPlace(key.topic, key.partition, offset, key.table) for offset in offsets]
        missing = [at for at in places if at not in self._page]
        held = {**self._page, **self._read(missing, nonce)} if missing else self._page
        return [one for at in sorted(places) for one in held.get(at, ())]

    def has_landed(self, key: StateKey, record: StateRecord) -> bool:
        """See :class:`chsink.replay.source.LetterSource`.  Each mark says so."""
        return (self._origin(key), record.life.nonce) in self._index.lists

    def are_marked(self, key: StateKey, record: StateRecord) -> bool:
        """See :class:`chsink.replay.source.LetterSource`.  Those that Kafka deleted need none."""
        return not self._index.positions(self._origin(key), record.doubt.only)

    def some_marks(self, key: StateKey, record: StateRecord) -> str:
        """See :class:`chsink.replay.source.LetterSource`.  A single one says that all rows have landed."""
        del key, record
        return ""

    def wait(self) -> None:
        """See :class:`chsink.replay.source.LetterSource`.  They are known as they are sent."""

    def deliver(
        self,
        assignment: Assignment,
        chunk: int,  # noqa: ARG002 - a list is one chunk
        offsets: OffsetRange,  # noqa: ARG002 - the list says it
        letters: pa.RecordBatch,
    ) -> InsertResult:
        """Send marks (:func:`chsink.dlq.marks.marks_of`), each to every partition that holds a dead letter of its
        record.
        """
        key, nonce = assignment.key, assignment.record.life.nonce
        headers, offsets_of = letters.column("headers").to_pylist(), letters.column("_kafka_offset").to_pylist()
        marked = {offset: _said(some, DIGEST) for offset, some in zip(offsets_of, headers, strict=True)}
        there: dict[int, set[int]] = {offset: set() for offset in marked}
        for offset, digest, partition, _ in self._index.positions(self._origin(key), marked, nonce):
            if digest == short(marked[offset]):
                there[offset].add(partition)
        places = {offset: LetterPlace(key.topic, key.partition, offset, key.table) for offset in marked}
        marks = [
            (places[offset], marked[offset], p) for offset, partitions in there.items() for p in sorted(partitions)
        ]
        try:
            send_marks(self._place, nonce, marks)
        except KafkaException as error:
            raise services.REPLAY_MARKS_UNSENT(
                tp=key.topic_partition, letters=len(marked), topic=self._place.topic, reason=error.args[0].str()
            ) from error
        for offset, at in places.items():
            self._index.mark(at, marked[offset], nonce)
        return InsertResult(len(marks), 0, 0)

    def _read(self, places: Sequence[LetterPlace], nonce: str = "") -> dict[LetterPlace, list[KeptLetters]]:
        """The dead letters of these places, in the order of the topic, except those that another list replayed."""
        origins: dict[int, list[int]] = defaultdict(list)
        for at in places:
            origins[self._index.origin(at.topic, at.partition, at.table)].append(at.offset)
        positions = [
            (p, at) for origin, of in origins.items() for *_, p, at in self._index.positions(origin, of, nonce)
        ]
        found: dict[LetterPlace, list[KeptLetters]] = {}
        with self._answering():
            for letter in letters_at(self._place, positions):
                found.setdefault(letter.place, []).append(kept_of(letter, replayed=False))
        return found

    def _origin(self, key: StateKey) -> int:
        return self._index.origin(key.topic, key.partition, key.table)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            bootstrap = self._place.options["bootstrap.servers"]
            raise services.KAFKA_UNAVAILABLE(bootstrap=bootstrap, reason=error.args[0].str()) from error


def _record(offset: int, digest: int) -> int:
    """One number for a record of an origin."""
    return offset << 60 | digest


def _said(headers: list[dict[str, Any]], name: str) -> str:
    """What a header of a mark says."""
    [said] = [header["value"].decode() for header in headers if header["key"] == name]
    return str(said)
