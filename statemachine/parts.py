"""The parts of a state record.  Each answers one question.  A part without an answer keeps its defaults: it is empty.

On construction, a part checks only itself.  The record checks what concerns several parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class TopicLife:
    """Which life of the topic-partition is this, and what came before it?

    ``topic_id`` is Kafka's id of the topic, None where its brokers gave none.  ``incarnation`` counts how often the
    topic-partition started over.  ``nonce`` is part of every token: the attempt that announced the first range of this
    life, or the last attempt with which a person asked for new tokens.  ``first`` is the offset at which the processed
    region begins.

    Earlier incarnations announced no offset at or beyond ``older_end``: rows below it may be theirs.  ``late``: the
    partition appeared after the sink's first run, or was reset, so it is read from its start.
    """

    topic_id: str | None = None
    incarnation: int = 0
    nonce: str = ""
    first: int = 0
    older_end: int = 0
    late: bool = False

    def __post_init__(self) -> None:
        assert self.incarnation >= 0 <= self.first and self.older_end >= 0, self


@dataclass(frozen=True, slots=True)
class Sending:
    """How is the range cut and turned into rows?  A resend repeats it: ClickHouse would not recognize other pieces.

    ``layout`` is the fingerprint of the shards, ``pipeline`` that of everything that decides what a record becomes.
    """

    chunk_offsets: int = 1
    layout: str = ""
    pipeline: str = ""

    def __post_init__(self) -> None:
        assert self.chunk_offsets >= 1, self


@dataclass(frozen=True, slots=True)
class Mark:
    """What a table held on one shard at one moment: a count of its ``blocks`` that only grows, and since when its
    tokens are kept (by the server's own clock, in s): its server's start or, where Keeper has them, the table's latest
    definition.  The growth tells how many inserts came since.  ``fed`` counts the blocks of all tables that its views
    fill, together; ``feeds`` is a digest of which tables these are and of the kind of tokens that the server keeps in
    Keeper, "" if there is nothing of both.  ``at_s`` is that moment by
    the server's clock: a client's clock never decides how old a token is.  ``uuids`` is a digest of the UUIDs that
    Replicated tables have on the replica that answered, "" if there are none.  ``window`` is what tokens were kept for:
    blocks of the table, blocks of the table that forgets soonest of those that its views fill, and seconds; 0 where
    there is no such limit.
    """

    blocks: int
    since_s: int
    fed: int = 0
    at_s: int = 0
    feeds: str = ""
    uuids: str = ""
    window: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """What did the target hold when the range was announced, before anything of it was sent?

    ``marks`` are those of each shard, and behind them that of the table of dead letters, if there is one.
    ``before_at`` is the driver's clock in ms when BEFORE was written, for people to read.
    """

    before_at: int = 0
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Expired:
    """What Kafka no longer holds of a range in doubt is given up: a person decided so, or the configuration.  The rest
    lands.

    ``deleted`` tells which offsets were found to be gone, and are listed with the dead letters.  It holds the ends of
    their runs, ascending.  The first run begins where the range begins, each other run where the one before it ends.
    """

    deleted: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        assert all(a < b for a, b in pairwise(self.deleted)), self


@dataclass(frozen=True, slots=True)
class Unsettled:
    """What else does a settle of the range need to know?  Empty unless the range is in doubt.

    With ``probe``, no driver or task trusts the deduplication tokens any more: the range's pieces are probed for.
    ``expired`` is for ranges that outlive Kafka's retention.  ``only`` are the offsets of a replay of dead letters,
    ascending: nothing else of the range is sent.
    """

    probe: bool = False
    expired: Expired | None = None
    only: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TableChoice:
    """Since when does the table choose its records as it does now?  Empty where ``table_by`` is not used.

    From offset ``since`` on, the table takes its records by the choice in its pipeline.  ``left``: a batch of the topic
    landed while no route led to the table, so nothing waits for the table.
    """

    since: int = 0
    left: bool = False
