"""The dead letters that a topic holds of a sink, by digest.

The topic is read once, to its current end.  Memory: about 50 bytes for a dead letter, and 150 for a replay mark.  A
record is delivered again under another nonce only if a person had it sent or read again.  If an offset has several
nonces, the dead letters under the current nonce count; if there are none, those that were read last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaException

from chsink.clickhouse.client import ClickHouseClient
from chsink.dlq.digest import short
from chsink.dlq.letters import HEADERS
from chsink.dlq.place import LetterPlace, LettersTopic, replay_sink
from chsink.dlq.search import Letter, held_in
from chsink.kafka.refusals import unanswered
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey
from chsink.verify.compare import I64, Digests
from chsink.verify.digests import WIDTH, Digester

AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """Dead letters in the order in which they were read; nonces by number, ``records`` as marks name them."""

    offsets: I64
    nonces: I64
    records: I64
    digests: Digests

    def part(self, window: OffsetRange, present: int) -> tuple[I64, I64, Digests]:
        """The dead letters of a window that count: their offsets, records and digests."""
        inside = (self.offsets >= window.start) & (self.offsets < window.end)
        offsets, nonces = self.offsets[inside], self.nonces[inside]
        order = np.lexsort((np.arange(len(offsets)), nonces == present, offsets))
        last = np.append(np.diff(offsets[order]) != 0, np.ones(min(1, len(order)), np.bool_))
        count = nonces[order][last][np.searchsorted(offsets[order][last], offsets)] == nonces
        return offsets[count], self.records[inside][count], self.digests[inside][count]


class LettersInTopic:
    """One run's look at the topic.  ``client`` makes the digests."""

    def __init__(self, place: LettersTopic, client: ClickHouseClient, digester: Digester) -> None:
        self.client = client
        self._place = place
        self._digester = digester
        self._nonces: dict[str, int] = {}
        self._marked: dict[StateKey, set[tuple[int, int]]] = {}

    def of(self, key: StateKey, nonce: str, window: OffsetRange) -> tuple[I64, list[Digests]]:
        """Offsets and digests of the dead letters of a window.  ``nonce`` is the current one."""
        read = self._by_key.get(key)
        if read is None:
            return np.empty(0, np.int64), [np.empty(0, f"V{WIDTH}")]
        offsets, _, digests = read.part(window, self._nonces.get(nonce, -1))
        return offsets, [digests]

    def held(self, key: StateKey, nonce: str, window: OffsetRange) -> dict[tuple[int, int], bool]:
        """By offset and short digest of the record: whether its dead letter was replayed."""
        read = self._by_key.get(key)
        if read is None:
            return {}
        offsets, records, _ = read.part(window, self._nonces.get(nonce, -1))
        marked = self._marked.get(key, set())
        return {one: one in marked for one in zip(offsets.tolist(), records.tolist(), strict=True)}

    @cached_property
    def _by_key(self) -> dict[StateKey, _Read]:
        """UnavailableError CHS-702 when Kafka does not answer."""
        parts: dict[StateKey, list[_Read]] = {}
        try:
            mine = self._mine()
            while some := list(islice(mine, AT_ONCE)):
                for key, read in self._digested(some):
                    parts.setdefault(key, []).append(read)
        except KafkaException as error:
            bootstrap = self._place.options["bootstrap.servers"]
            raise unanswered(error, bootstrap) from error
        return {key: _joined(reads) for key, reads in parts.items()}

    def _mine(self) -> Iterator[Letter]:
        """The sink's dead letters; marks are remembered on the way."""
        replays = replay_sink(self._place.sink)
        for one in held_in(self._place, whole=True):
            if isinstance(one, Letter):
                if one.sink == self._place.sink:
                    yield one
            elif one.sink == replays:
                self._marked.setdefault(self._key(one.place), set()).add((one.place.offset, short(one.digest)))

    def _key(self, at: LetterPlace) -> StateKey:
        return StateKey(self._place.sink, at.topic, at.partition, at.table)

    def _digested(self, some: Sequence[Letter]) -> Iterator[tuple[StateKey, _Read]]:
        [digests] = self._digester.of_rows(self.client, _batch(some), [self._digester.all])
        rows: dict[StateKey, list[int]] = {}
        for row, one in enumerate(some):
            rows.setdefault(self._key(one.place), []).append(row)
        offsets = np.array([one.place.offset for one in some], np.int64)
        nonces = [self._nonces.setdefault(one.why["chsink.nonce"], len(self._nonces)) for one in some]
        records = np.array([short(one.digest) for one in some], np.int64)
        for key, at in rows.items():
            yield key, _Read(offsets[at], np.array(nonces, np.int64)[at], records[at], digests[at])


def _joined(reads: Sequence[_Read]) -> _Read:
    columns = zip(*((r.offsets, r.nonces, r.records, r.digests) for r in reads), strict=True)
    return _Read(*map(np.concatenate, columns))


def _batch(some: Sequence[Letter]) -> pa.RecordBatch:
    """The records themselves, as dead letters in a table hold them."""
    headers = [[{"key": name, "value": value} for name, value in one.headers] for one in some]
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([one.key for one in some], pa.binary()),
            "value": pa.array([one.value for one in some], pa.binary()),
            "headers": pa.array(headers, HEADERS),
            "timestamp_ms": pa.array([one.timestamp_ms for one in some], pa.int64()),
            "timestamp_type": pa.array([int(one.why["chsink.timestamp_type"]) for one in some], pa.int8()),
        }
    )
