"""What travels between the driver and its tasks: assignments out, acknowledgements back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateRecord
from chsink.statemachine.tally import Tally


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """The offset ranges of one micro-batch, known before it runs.

    ``history`` holds the topic-partitions of which earlier batches of the same checkpoint held records, ``others`` the
    records of further tables of the topic, for which the batch may be read: what this one has is no rewind then.
    """

    batch_id: int
    ranges: Mapping[TopicPartition, OffsetRange]
    history: frozenset[TopicPartition] = frozenset()
    others: Mapping[TopicPartition, tuple[StateRecord | None, ...]] = field(default_factory=dict)


class Assigned(Protocol):
    """A range that one task is to land."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose range."""

    @property
    def range(self) -> OffsetRange:
        """The range."""

    @property
    def held(self) -> OffsetRange:
        """What an exact read gives of it: all of it, unless a person gave up what Kafka no longer holds."""


@dataclass(frozen=True, slots=True)
class ChunkAck:
    """What became of one chunk's offsets ``[start, end)``.

    ``skipped`` counts records without a row; ``first_skipped`` says which was the first of them, and why.
    ``dead_letters`` and ``first_dead_letter`` say the same of those that were kept as dead letters.
    ``unknown`` counts fields without a column by name, over a sample of the records.
    ``unproven`` names the views of which it is not known whether they received rows that the table already had.
    """

    start: int
    end: int
    records: int = 0
    rows: int = 0
    skipped: int = 0
    bytes: int = 0
    inserts: int = 0
    retries: int = 0
    first_skipped: str = ""
    unproven: tuple[str, ...] = ()
    dead_letters: int = 0
    first_dead_letter: str = ""
    unknown: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ack:
    """One task's answer.

    ``topic`` is None when it saw no record at all.  ``error`` (a catalogue entry's name, its parameters) is set when
    the task stopped on a known error; the chunks before it may have landed.
    """

    task: int
    topic: str | None = None
    partition: int | None = None
    chunks: tuple[ChunkAck, ...] = ()
    error: tuple[str, Mapping[str, str]] | None = None

    @property
    def topic_partition(self) -> TopicPartition | None:
        """Which topic-partition the task owned, None when it saw no record."""
        return None if self.topic is None or self.partition is None else TopicPartition(self.topic, self.partition)

    @property
    def covered(self) -> list[OffsetRange]:
        """The offset ranges that were landed, gaps included."""
        return [OffsetRange(c.start, c.end) for c in self.chunks]

    def to_json(self) -> str:
        """One line of JSON: what crosses from the Python worker to the driver."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Ack:
        """The inverse of :meth:`to_json`."""
        document: dict[str, Any] = json.loads(text)
        chunks = tuple(ChunkAck(**{**c, "unproven": tuple(c["unproven"])}) for c in document.pop("chunks"))
        error = document.pop("error")
        return Ack(**document, chunks=chunks, error=None if error is None else (error[0], error[1]))


def left_out_of(acks: Iterable[Ack]) -> dict[TopicPartition, Tally]:
    """What was left out, by topic-partition."""
    chunks: dict[TopicPartition, list[ChunkAck]] = {}
    for ack in acks:
        if ack.topic_partition:
            chunks.setdefault(ack.topic_partition, []).extend(ack.chunks)
    return {tp: _left_out(of) for tp, of in chunks.items()}


def _left_out(chunks: Iterable[ChunkAck]) -> Tally:
    skipped, dead, unknown = 0, 0, Counter[str]()
    for chunk in chunks:
        skipped, dead = skipped + chunk.skipped, dead + chunk.dead_letters
        unknown.update(chunk.unknown)
    return Tally(skipped, dead, tuple(sorted(unknown.items())))


def total(acks: Sequence[Ack]) -> ChunkAck:
    """The acks' sums, in the shape of one chunk (start and end are meaningless)."""
    chunks = [c for a in acks for c in a.chunks]
    names = ("records", "rows", "skipped", "bytes", "inserts", "retries", "dead_letters")
    return ChunkAck(0, 0, **{n: sum(getattr(c, n) for c in chunks) for n in names})
