"""What a worker may hand over, and where the sink's group starts.

The group's offset of a topic-partition says up to where its records were handed over.  A worker opens its
transactional producer first: that ends the open transaction of every older attempt and refuses its later ones.  Only
then it reads the group's offset, and ``HAND_OVER`` compares it with the planned range ``[a, b)``.

With ``table_by``, the group's offset also says by which choice the records before it were divided among tables
(:func:`divided_by`).  While another choice is stored in the tables, it is marked: no worker may divide records then.

``START`` says where the group has to be before the first worker of a topic-partition starts: never below a table's
``until``.  The offsets of a group without members expire, and a person may set them back; the tables are the floor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from chsink.statemachine.commit.chain import Link
from chsink.statemachine.commit.rules import CommitHalt, Rule, first
from chsink.statemachine.ranges import OffsetRange

# --- one range -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opening:
    """A planned range against the group's offset, read after fencing.  ``choice`` is the worker's, by fingerprint,
    ``stored`` the one that is stored with the offset, "" if none is.
    """

    planned: OffsetRange
    committed: int | None
    choice: str = ""
    stored: str = ""


class Answer(StrEnum):
    """What the worker does with its range."""

    REFUSE = "refuse"
    NOTHING = "nothing"
    REST = "rest"
    ALL = "all"
    EARLIER_FIRST = "earlier first"


OTHER_CHOICE = "OTHER_CHOICE"
"""The rule that refuses a range because of another choice."""
HAND_OVER: tuple[Rule[Opening, Answer], ...] = (
    Rule(
        "UNKNOWN",
        "the group has no offset",
        lambda x: x.committed is None,
        Answer.REFUSE,
        "refuse: the driver stores one before it starts workers, so it was lost since",
    ),
    Rule(
        OTHER_CHOICE,
        "another `table_by` is stored with the offset, or none",
        lambda x: x.stored != x.choice,
        Answer.REFUSE,
        "refuse: a driver with another job file started since, or a person set the offset",
    ),
    Rule(
        "DONE",
        "`committed >= b`",
        lambda x: (x.committed or 0) >= x.planned.end,
        Answer.NOTHING,
        "nothing: it was handed over",
    ),
    Rule(
        "BEHIND",
        "`committed < a`",
        lambda x: (x.committed or 0) < x.planned.start,
        Answer.EARLIER_FIRST,
        "read exactly `[committed, a)`, hand it over, then `[a, b)`",
    ),
    Rule(
        "CROP",
        "`a < committed < b`",
        lambda x: (x.committed or 0) > x.planned.start,
        Answer.REST,
        "hand over `[committed, b)`",
    ),
    Rule("NEXT", "`committed = a`", lambda _: True, Answer.ALL, "hand over `[a, b)`"),
)


@dataclass(frozen=True, slots=True)
class HandOver:
    """The ranges to hand over, in order, one transaction each.  ``refused``: none; the driver has to start again."""

    because: str
    ranges: tuple[OffsetRange, ...] = ()
    refused: bool = False


def hand_over(planned: OffsetRange, committed: int | None, choice: str = "", stored: str = "") -> HandOver:
    """What a worker does with its planned range; see :class:`Opening`."""
    rule = first(HAND_OVER, Opening(planned, committed, choice, stored))
    match rule.verdict:
        case Answer.ALL:
            return HandOver(rule.name, (planned,))
        case Answer.REST:
            assert committed is not None
            return HandOver(rule.name, (OffsetRange(committed, planned.end),))
        case Answer.EARLIER_FIRST:
            assert committed is not None
            return HandOver(rule.name, (OffsetRange(committed, planned.start), planned))
        case Answer.NOTHING:
            return HandOver(rule.name)
        case _:
            return HandOver(rule.name, refused=True)


def unsettled(note: str) -> str:
    """What is stored with an offset while tables learn of another choice."""
    return divided_by(note) + _UNSETTLED


def divided_by(note: str) -> str:
    """The choice by which the records before an offset were divided, by what is stored with it; "" if nothing says."""
    return note.removesuffix(_UNSETTLED)


_UNSETTLED = "?"

# --- where the group starts ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TablePlace:
    """What one table knows of a topic-partition, and the ``choice`` that the job file has for it, by fingerprint.

    ``joins``: the table begins, or begins again, where the topic-partition's other tables are.  ``left``: the table is
    not in the job file any more, but was among those that share the topic.
    """

    link: Link | None
    choice: str = ""
    joins: bool = False
    left: bool = False

    @property
    def shares(self) -> bool:
        """Whether it holds some of the records, chosen now or before."""
        link = self.link
        return link is not None and not self.joins and (self.left or bool(link.choice or self.choice))

    @property
    def changed(self) -> bool:
        """Whether other records are chosen for it than before."""
        return self.link is not None and not (self.left or self.joins) and self.link.choice != self.choice


@dataclass(frozen=True, slots=True)
class Standing:
    """What group and tables know of one topic-partition.  ``places`` holds one entry for each table of its routes.
    ``rows``: a table that does not know it holds rows of it.  ``log_start``: the first offset that Kafka still holds.
    ``waiting``: units may wait for a commit, behind a group that was lost or set back.  ``foreign``: the choice that is
    stored with the group's offset is another than the job file's, and than that of any of its tables.
    """

    topic_id: str
    committed: int | None
    places: tuple[TablePlace, ...]
    rows: bool = False
    log_start: int = 0
    waiting: bool = False
    foreign: bool = False

    @property
    def links(self) -> tuple[Link | None, ...]:
        return tuple(place.link for place in self.places if not place.left)

    @property
    def known(self) -> tuple[Link, ...]:
        return tuple(link for link in self.links if link is not None)

    @property
    def floor(self) -> int:
        """The largest ``until`` of the tables."""
        return max((link.until for link in self.known), default=0)

    @property
    def reached(self) -> int:
        """The offset up to which its records were handed over."""
        return max(self.committed or 0, self.floor)

    @property
    def joined_at(self) -> int:
        """Where tables that join begin: one that shares the topic, where the others have all that was divided as it is
        now, as what they lack is read again for all of them; else at ``reached``.
        """
        if not any(p.joins and p.link is None and p.choice for p in self.places):
            return self.reached
        held = [p.link.until for p in self.places if p.shares and p.link is not None and not (p.changed or p.left)]
        return min(held, default=self.reached)

    @property
    def uneven(self) -> bool:
        """Whether tables that share the topic lack records that were handed over."""
        return any(p.link is not None and p.link.until != self.reached for p in self.places if p.shares)

    @property
    def divided_anew(self) -> bool:
        """Whether ``table_by`` has changed, for a table that knows the topic-partition or by replacing all that do."""
        mine = [place for place in self.places if not place.left]
        replaced = any(p.joins and p.choice for p in mine) and not any(p.shares for p in mine)
        began = self.waiting or not all(link.untouched for link in self.known)  # else a person lets them begin anew
        return replaced or (self.foreign and began) or any(p.changed for p in mine)


class Begin(StrEnum):
    """What is stored before the first worker starts."""

    ORIGIN = "origin"
    KNOWN_ORIGIN = "known origin"
    JOIN = "join"
    FLOOR = "floor"
    AS_IT_IS = "as it is"


START: tuple[Rule[Standing, Begin], ...] = (
    Rule(
        "OTHER_TOPIC",
        "a table knows the topic under another id",
        lambda x: any(link.topic_id != x.topic_id for link in x.known),
        CommitHalt.TOPIC_RECREATED,
        "halt: the topic was deleted and created again",
    ),
    Rule(
        "ROWS_FOUND",
        "a table holds rows of the topic-partition and does not know it; the group does not know it either, or the "
        "table joins others",
        lambda x: x.rows,
        CommitHalt.ROWS_FOUND,
        "halt: the chain was lost, and its records would land again, or not at all",
    ),
    Rule(
        "FRESH",
        "neither the group nor a table knows the topic-partition",
        lambda x: x.committed is None and not x.known,
        Begin.ORIGIN,
        "store the starting offset in every table, then in the group",
    ),
    Rule(
        "RECORDS_GONE",
        "the log starts above the group's offset and every table's `until`",
        lambda x: x.log_start > x.reached,
        CommitHalt.RECORDS_GONE,
        "halt: Kafka deleted the offsets between them before they were handed over",
    ),
    Rule(
        "CHOICE_CHANGED",
        "`table_by` has changed, and a table that shares the topic may lack records that were handed over",
        lambda x: (x.waiting or x.uneven) and x.divided_anew,
        CommitHalt.CHOICE_CHANGED,
        "commit what was handed over; if records are still missing, halt: nobody knows how they were divided",
    ),
    Rule(
        "HALF_FRESH",
        "the group does not know it, tables do, and none holds a record of it",
        lambda x: x.committed is None and all(link.untouched for link in x.known),
        Begin.KNOWN_ORIGIN,
        "store the same origin in the other tables, then in the group",
    ),
    Rule(
        "JOINS",
        "tables that are new do not know it, and all others do",
        lambda x: None in x.links and all(p.joins for p in x.places if p.link is None and not p.left),
        Begin.JOIN,
        "in the new tables, store the offset below which the others lack nothing, if they share by the same "
        "`table_by`; otherwise the one up to which records were handed over",
    ),
    Rule(
        "TABLE_UNKNOWN",
        "a table does not know it",
        lambda x: None in x.links,
        CommitHalt.CHAIN_MISSING,
        "halt: the table is new in the routes, was created again, or lost its chain",
    ),
    Rule(
        "GROUP_BELOW",
        "the group has no offset, or one below a table's `until`",
        lambda x: x.committed is None or x.committed < x.floor,
        Begin.FLOOR,
        "set the group to the highest `until` of the tables",
    ),
    Rule("KEPT", "otherwise", lambda _: True, Begin.AS_IT_IS, "go on from the group's offset"),
)


@dataclass(frozen=True, slots=True)
class Beginning:
    """``origin`` goes to the tables that lack a link, then ``group`` becomes the group's offset; None: leave it."""

    because: str
    origin: int | None = None
    group: int | None = None
    halt: CommitHalt | None = None


def begin(
    topic_id: str,
    committed: int | None,
    places: Iterable[TablePlace],
    starting: int,
    *,
    rows: bool = False,
    log_start: int = 0,
    waiting: bool = False,
    foreign: bool = False,
) -> Beginning:
    """What to store before workers of a topic-partition start.  ``starting`` is where a fresh one begins; the rest is
    as in :class:`Standing`.
    """
    standing = Standing(topic_id, committed, tuple(places), rows, log_start, waiting, foreign)
    rule = first(START, standing)
    match rule.verdict:
        case CommitHalt() as halt:
            return Beginning(rule.name, halt=halt)
        case Begin.ORIGIN:
            return Beginning(rule.name, starting, starting)
        case Begin.KNOWN_ORIGIN:
            return Beginning(rule.name, standing.floor, standing.floor)
        case Begin.JOIN:
            below = committed is None or committed < standing.floor
            return Beginning(rule.name, standing.joined_at, standing.floor if below else None)
        case Begin.FLOOR:
            return Beginning(rule.name, group=standing.floor)
        case _:
            return Beginning(rule.name)


def stays(topic_id: str, committed: int | None, places: Collection[TablePlace], *, log_start: int) -> bool:
    """Whether a start would change nothing of a topic-partition, for whichever of its workers still run."""
    settled = all(place.link is not None and not (place.left or place.joins or place.changed) for place in places)
    return settled and begin(topic_id, committed, places, 0, log_start=log_start) == Beginning("KEPT")
