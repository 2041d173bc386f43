"""What is remembered per (sink, topic, partition, table), and its versioned codec.

One record has one slot: the last range and its phase.  ``BEFORE`` means the range was announced and its inserts
may or may not have landed (*in doubt* until ``AFTER``); ``AFTER`` means all of it landed.  ``EMPTY`` is a row that
exists but announces nothing: it is inert.

Rules that hold for every record, asserted on construction:
- the processed region is ``[first, start)`` without ``gaps``; the last range is ``[start, end)``;
- what a retry must repeat to be deduplicated (nonce, chunking, layout, pipeline, topic id) is part of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import Any

from .ranges import OffsetRange, TopicPartition
from .unknown import Counts

CODEC_VERSION = 2
MAX_GAPS = 64
TopicTable = tuple[str, str]
"""Topic and table: a topic may lead to several tables, several topics to one."""


class CodecError(ValueError):
    """A stored record cannot be read: it was damaged, or written by a newer chsink."""


class Phase(StrEnum):
    """Where the last range of a record stands."""

    EMPTY = "EMPTY"
    BEFORE = "BEFORE"
    AFTER = "AFTER"


@dataclass(frozen=True, slots=True, order=True)
class StateKey:
    """The name of a record: two sinks, or two tables, on one topic never see each other's state."""

    sink: str
    topic: str
    partition: int
    table: str

    def __str__(self) -> str:
        return f"{self.sink}/{self.topic}/{self.partition}/{self.table}"

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def topic_table(self) -> TopicTable:
        """Which table of which topic."""
        return self.topic, self.table


@dataclass(frozen=True, slots=True)
class Mark:
    """What a table held on one shard at some moment: a count of its ``blocks`` that only grows, and when its
    server was started (its own clock, in s).  The growth tells how many inserts came since.  ``fed`` counts the blocks
    of all tables that its views fill, together; ``feeds`` is a digest of which these are, "" where there are none.
    ``at_s`` is that moment by the server's clock: how long tokens have been kept is never told by a client's.
    """

    blocks: int
    started_s: int
    fed: int = 0
    at_s: int = 0
    feeds: str = ""


@dataclass(frozen=True, slots=True)
class StateRecord:
    """One topic-partition's state.

    ``before_at`` is the driver's clock in ms when BEFORE was written, for people to read.  ``marks`` are what the
    target held then, per shard (and behind them what the table of dead letters held, if there is one).
    With ``probe``, no driver or task trusts the deduplication tokens of a range in doubt any more: its pieces are
    probed for.  ``attempt`` is unique per write: a write names the attempt it replaces.  ``nonce`` is the attempt that
    announced the incarnation's first range, or the last one with which a person asked for new tokens: it is in every
    token.

    ``older_end`` is the end of all that earlier incarnations announced: rows of these offsets may be theirs.  ``late``:
    the partition appeared after the first run; it is read from its start.  ``expired`` is a person's word on a range in
    doubt, or the configuration's: what Kafka no longer holds of it is given up, the rest lands.  ``deleted`` are the
    ends, ascending, of what was found to be gone of it and is listed with the dead letters: the first run begins where
    the range does, each other one where the one before it ends.  ``skipped`` counts the records of this incarnation
    that were left out because they did not fit, ``dead_letters`` those that were kept as dead letters, ``unknown`` the
    fields without a column, in samples of what landed under this ``pipeline``; nothing is decided by any of them.

    ``choice_from`` is the offset since which the table takes its records by the choice in ``pipeline`` (``table_by``).
    ``left``: a batch of the topic landed when no route led to the table; nothing waits for it.

    ``only`` are the offsets of a replay of dead letters, ascending: of its range, nothing else is sent.
    """

    phase: Phase
    epoch: int
    attempt: str
    topic_id: str | None = None
    incarnation: int = 0
    first: int = 0
    start: int = 0
    end: int = 0
    gaps: tuple[OffsetRange, ...] = ()
    chunk_offsets: int = 1
    layout: str = ""
    pipeline: str = ""
    before_at: int = 0
    marks: tuple[Mark, ...] = ()
    probe: bool = False
    nonce: str = ""
    older_end: int = 0
    late: bool = False
    expired: bool = False
    skipped: int = 0
    dead_letters: int = 0
    choice_from: int = 0
    left: bool = False
    only: tuple[int, ...] = ()
    deleted: tuple[int, ...] = ()
    unknown: Counts = ()

    def __post_init__(self) -> None:
        assert 0 <= self.first <= self.start <= self.end, self
        assert self.phase is not Phase.EMPTY or self.start == self.end, self
        assert self.phase is Phase.EMPTY or self.start < self.end, self
        assert self.chunk_offsets >= 1 and self.epoch >= 0 and self.attempt, self
        assert self.skipped >= 0 and self.dead_letters >= 0, self
        assert len(self.gaps) <= MAX_GAPS, self
        assert self.choice_from <= self.end, self
        assert self.in_doubt or not (self.probe or self.expired or self.only), self
        assert not self.deleted or (self.start < self.deleted[0] and self.deleted[-1] <= self.end), self
        assert not self.only or (self.only[0], self.only[-1] + 1) == (self.start, self.end), self

    @property
    def range(self) -> OffsetRange:
        return OffsetRange(self.start, self.end)

    @property
    def deleted_runs(self) -> tuple[OffsetRange, ...]:
        """What ``deleted`` says, as ranges."""
        return tuple(OffsetRange(a, b) for a, b in pairwise((self.start, *self.deleted)))

    @property
    def known_end(self) -> int:
        """No row of this sink lies at or beyond this offset."""
        return max(self.end, self.older_end)

    @property
    def done(self) -> int:
        """The first offset that is not known to have landed, or to have been given up."""
        return self.start if self.in_doubt else self.end

    @property
    def read_again(self) -> bool:
        """Whether all that it is to land up to its old end was landed by an earlier incarnation, too."""
        return self.end < self.older_end

    @property
    def in_doubt(self) -> bool:
        return self.phase is Phase.BEFORE

    def may_belong_to(self, topic_id: str | None) -> bool:
        """Whether the record is of the topic with this id, or of one whose id its brokers did not give."""
        return self.topic_id in (None, topic_id)

    def is_of_another(self, topic_id: str | None) -> bool:
        """Whether this id, if the brokers give one, shows that the recorded topic was deleted."""
        return topic_id is not None and not self.may_belong_to(topic_id)

    def processed(self, asked: OffsetRange, log_start: int = 0) -> bool:
        """Whether every offset of ``asked`` lies in the processed region, without what it ``lacks``."""
        return asked.end <= self.start and not self.lacks(asked, log_start)

    def lacks(self, asked: OffsetRange, log_start: int = 0) -> list[OffsetRange]:
        """What of ``asked`` was passed over: it lies before ``first``, or in a gap that reaches beyond Kafka's
        ``log_start``.  Of the other gaps, nothing can be landed any more.
        """
        passed = (OffsetRange(0, self.first), *(g for g in self.gaps if g.end > log_start))
        return [part for one in passed if not (part := asked.overlap(one)).is_empty]

    def done_with(self, asked: OffsetRange, log_start: int = 0) -> bool:
        """Whether nothing of ``asked`` remains to be done: it was processed, or lies in the last range after AFTER."""
        return self.processed(asked, log_start) or (self.phase is Phase.AFTER and self.range.covers(asked))


_FIELDS = tuple(field.name for field in fields(StateRecord))


def encode(record: StateRecord) -> str:
    """The record as one line of JSON, keys sorted, with the codec's version."""
    document = {name: getattr(record, name) for name in _FIELDS} | {
        "gaps": [[g.start, g.end] for g in record.gaps],
        "marks": [[m.blocks, m.started_s, m.fed, m.at_s, *filter(None, [m.feeds])] for m in record.marks],
        "version": CODEC_VERSION,
    }
    steps = [after - before for before, after in pairwise((0, *document.pop("only")))]
    if steps:
        document["only"] = steps
    if not record.deleted:
        del document["deleted"]
    if counts := dict(document.pop("unknown")):
        document["unknown"] = counts
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def decode(text: str) -> StateRecord:
    """The inverse of :func:`encode`.  Raises :class:`CodecError` for anything else."""
    try:
        document: dict[str, Any] = json.loads(text)
        version = document.pop("version")
        if version != CODEC_VERSION:
            raise CodecError(f"state record of version {version}; this chsink reads version {CODEC_VERSION}")
        document["phase"] = Phase(document["phase"])
        document["gaps"] = tuple(OffsetRange(a, b) for a, b in document["gaps"])
        document["marks"] = tuple(Mark(*mark) for mark in document["marks"])
        document["deleted"] = tuple(document.get("deleted", ()))
        document["only"] = tuple(accumulate(document.pop("only", ())))
        document["unknown"] = tuple(sorted(document.pop("unknown", {}).items()))
        return StateRecord(**document)
    except CodecError:
        raise
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise CodecError(f"damaged state record ({type(error).__name__}: {error})") from error
