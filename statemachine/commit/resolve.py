"""How a person's decision changes a table's chain after a halt of :mod:`chain` or ``START``.

``REREAD`` keeps the records that the table is known to hold, and reads the rest again as far as Kafka holds it.
``SKIP`` continues after all offsets that the table ever held, and gives up those that it now lacks.  Neither lands a
record twice: ``REREAD`` begins where the table's own snapshots end, and is refused if they do not tell; ``SKIP`` begins
after everything that landed, and so after the last row where no own snapshot speaks: a table may be set to a snapshot
that holds more than its chain says.

A table that lost its chain has no choice but ``SKIP``.  So if rows tell which offsets it holds, it gives up only what
lies below the last row of a topic-partition: one without a row is read from the first record on.

A log that ends below a table's ``until`` has lost records, and will assign their offsets again.  Nobody knows where the
loss began, so ``REREAD`` is refused; ``SKIP`` continues at the log's end.  A log that ends below the group's offset has
lost records, too: of those, a table that holds none of the log reads what is left, and the group goes back to its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from chsink.statemachine.commit.chain import Chain, Link, Sharing, Snapshot, StoredShare, TableView, read_chain
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.ranges import OffsetRange, TopicPartition


class TableVerdict(StrEnum):
    """What a person decides about a table."""

    REREAD = "reread"
    SKIP = "skip"


class Because(StrEnum):
    """What says where a topic-partition continues."""

    CHAIN = "the table's chain"
    ROWS = "its last row"
    NO_ROW = "it holds no row"
    NEW = "it is new for the topic"
    UNTOLD = "nothing tells what it holds"
    RECREATED = "the topic was created again"
    SHRANK = "the log ends before what it holds"


@dataclass(frozen=True, slots=True)
class Log:
    """What Kafka says of a topic-partition, and what else bears on one table's decision.

    ``committed`` is the group's offset.  ``waiting`` are the starts of the table's units on the control topic.
    ``rows`` are the offsets that have a row, ranges that ascend and lie apart: for a topic-partition that the table is
    not known to hold (:func:`held`), None if rows do not tell.  ``least`` is where ``SKIP`` continues at least,
    ``sharing`` what the table stores: see :func:`together`.
    """

    topic_id: str
    start: int
    end: int
    committed: int | None
    waiting: tuple[int, ...] = ()
    rows: Sequence[OffsetRange] | None = None
    least: int = 0
    sharing: Sharing | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """The chain to store, and the group's new offsets for topic-partitions of recreated topics and of logs that lost
    records.  ``forgotten``: those whose units that wait for a commit were read from a log that has since lost records.

    ``given_up``: from the first to the last offset that Kafka holds, that the table may lack, and that is not read.
    """

    chain: Chain
    group: Mapping[TopicPartition, int]
    because: Mapping[TopicPartition, Because]
    given_up: Mapping[TopicPartition, OffsetRange]
    forgotten: frozenset[TopicPartition]


def held(view: TableView) -> Chain | None:
    """The chain that the table is known to hold; None if it may hold rows of this mirror that no chain covers.

    After a rollback, it lacks what the table began to hold only later.  Rows that are older than that may be of these
    topic-partitions, too: of another program, or of a chain that was lost.
    """
    reading, stored, own = read_chain(view), view.stored, view.own
    if reading.chain is not None:
        return reading.chain
    if stored is None:  # and no own snapshot
        return None if view.lineage or view.cut else Chain()
    if reading.halt is CommitHalt.ROLLED_BACK and any(s.sequence > stored.sequence for s in view.lineage):
        return None  # somebody wrote after the rollback: perhaps the rows that were rolled back
    if own is None and view.cut and view.lineage:
        return None
    begun = {tp: link for tp, link in view.origins.items() if tp not in stored.links}
    return _named(replace(stored, links=begun | dict(own.chain.links if own and own.chain else {})), own)


def resolved(view: TableView, logs: Mapping[TopicPartition, Log], choice: TableVerdict) -> Resolved | None:
    """What to store for a table with the topic-partitions of ``logs``; None if ``REREAD`` could land rows twice."""
    known, reread = held(view), choice is TableVerdict.REREAD
    if known is None and reread:
        return None
    chain = known or _named(Chain(skipped=view.stored.skipped if view.stored else 0), view.own)
    surely = (known or (view.own and view.own.chain) or chain).links
    links, passed = dict(chain.links), remembered(view)
    lost = known is None and view.stored is None and any(log.rows for log in logs.values())
    ids = {tp.topic: log.topic_id for tp, log in logs.items()}  # one topic has one id
    anew = {tp.topic for some in (links, passed) for tp, link in some.items() if _other(link, ids.get(tp.topic, ""))}
    group, forgotten = dict[TopicPartition, int](), set[TopicPartition]()
    because: dict[TopicPartition, Because] = {}
    given_up: dict[TopicPartition, OffsetRange] = {}
    for tp, log in logs.items():
        mine = [] if tp.topic in anew else [some[tp] for some in (links, passed) if tp in some]
        there = [OffsetRange(surely[tp].origin, surely[tp].until)] if tp in surely else log.rows or ()
        shrank = any(link.until > log.end for link in mine)
        back = shrank or (log.committed is not None and log.committed > log.end)
        untold = log.rows is None and tp in passed and bool(view.lineage)
        if reread and tp.topic not in anew and (shrank or (tp not in links and (log.rows or untold))):
            return None
        if tp.topic in anew:
            group[tp] = log.start if reread else log.end
            # from its start on: no backfill that was asked for earlier brings what is left out
            because[tp], links[tp] = Because.RECREATED, Link(log.topic_id, log.start, group[tp])
        elif reread:
            because[tp] = Because.CHAIN if mine else Because.NEW
            begins = replace(mine[0], until=mine[0].origin) if mine else None
            links[tp] = _reread(links.get(tp, begins), log)
        elif lost and not mine and log.rows is not None and not log.rows:
            because[tp], links[tp] = Because.NO_ROW, _reread(None, log)
        else:
            because[tp], links[tp] = _skipped(mine, log, unsure=known is None)
        if back and tp.topic not in anew:
            group[tp] = log.end
            forgotten.add(tp)
        elif because[tp] is Because.SHRANK:  # rows alone say so: what waits may be of this log
            group[tp] = log.end if log.committed is None else log.committed
        if because[tp] is Because.RECREATED or (because[tp] is Because.SHRANK and not mine):
            there = ()  # of other records
        first = max(log.start, links[tp].origin) if mine else log.start
        given_up[tp] = _lacking(there, first, links[tp].until)
    topics = {tp.topic for tp in (*links, *logs)}
    if not reread:  # their routes may come back; what was rolled back of them is for a person to decide then
        links |= {tp: link for tp, link in passed.items() if tp.topic not in topics}
    # a recreated topic may have fewer partitions
    links = {tp: link for tp, link in links.items() if link.topic_id == ids.get(tp.topic, link.topic_id)}
    return Resolved(replace(chain, links=links), group, because, given_up, frozenset(forgotten))


def remembered(view: TableView) -> dict[TopicPartition, Link]:
    """What the table's properties say, whether or not its snapshots agree."""
    return {**view.origins, **(view.stored.links if view.stored else {})}


def _named(chain: Chain, own: Snapshot | None) -> Chain:
    """The chain, naming the table's newest own snapshot."""
    return replace(chain, snapshot_id=own.snapshot_id if own else None, sequence=own.sequence if own else 0, rows=None)


def _other(link: Link, topic_id: str) -> bool:
    """Whether the topic was recreated.  Brokers that hide ids say nothing about that."""
    return bool(link.topic_id and topic_id) and link.topic_id != topic_id


def _reread(link: Link | None, log: Log) -> Link:
    at = _from(log.least if link is None else link.until, log)
    return Link(log.topic_id, at if link is None else link.origin, at)


def _from(until: int, log: Log) -> int:
    """The first offset from ``until`` on that can land: of Kafka's log, or of files that wait for a commit, which hold
    records that Kafka may have deleted since.
    """
    return max(until, min([log.start, *(start for start in log.waiting if start >= until)]))


def _skipped(mine: Sequence[Link], log: Log, *, unsure: bool = False) -> tuple[Because, Link]:
    """Continue after all that the table held or holds, by its chain or else its rows; if it never held a record, after
    all that was handed over.  ``unsure``: it may hold rows that neither shows; nobody lands what comes before them.
    """
    links, rows = [OffsetRange(link.origin, link.until) for link in mine], log.rows or ()
    if found := links or rows:
        end = max(each.end for each in found)
        last = rows[-1].end if rows and rows[-1].end <= log.end else 0  # else rows are of an earlier topic
        at = min(_from(max(end, last, log.least), log), log.end)
        why = Because.SHRANK if end > log.end else Because.CHAIN if links and last <= end else Because.ROWS
        return why, Link(log.topic_id, min(at, *(each.start for each in (*found, *(rows if last else ())))), at)
    at = max(log.end if log.committed is None else min(log.committed, log.end), log.least)
    if unsure and log.rows is None:
        return Because.UNTOLD, Link(log.topic_id, 0, at)
    return Because.NEW, Link(log.topic_id, at, at)


def _lacking(there: Sequence[OffsetRange], first: int, end: int) -> OffsetRange:
    """From the first to the last offset of ``[first, end)`` that is not there; empty if all are."""
    for each in there:
        first = max(first, each.end) if each.start <= first else first
    for each in reversed(there):
        end = min(end, each.start) if each.end >= end else end
    return OffsetRange(first, max(first, end))


# --- tables that share a topic ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sharer:
    """One of the tables that a person has named, of those that share a topic-partition: how it stores that it shares,
    and its ``until`` as decided.  ``new``: it never held a record.
    """

    log: Log
    share: StoredShare | None
    until: int
    new: bool = False


def together(
    named: Mapping[str, Sharer], others: Sequence[StoredShare | None], sharing: Sharing
) -> dict[str, Log] | None:
    """The logs by which ``SKIP`` lets these tables continue; None if the ``others`` have to be named, too.

    Under another choice than is stored, all go on where the last one is, or the group, as ``START`` then wants it.
    Where nothing says how records were divided before, the present choice holds from behind all that landed.
    """
    mine = named.values()
    kept = {n: replace(e.log, least=e.share.since) for n, e in named.items() if e.share and e.share.sharing == sharing}
    if len(kept) == len(named):
        return kept
    if any(share is None or share.sharing != sharing for share in others):
        return None
    shares = [share for share in (*others, *(each.share for each in mine)) if share is not None]
    changed = any(share.sharing != sharing for share in shares)
    if shares and not changed:
        since = max(share.since for share in shares)
        return {name: replace(each.log, least=since, sharing=sharing) for name, each in named.items()} | kept
    held = [each.until for each in mine if not each.new] or [each.until for each in mine]
    at = max(held + [each.log.committed or 0 for each in mine if changed])
    stored = None if changed else sharing
    return {name: replace(each.log, least=at, committed=at, sharing=stored) for name, each in named.items()}
