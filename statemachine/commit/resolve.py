"""How a person's decision changes a table's chain after a halt of :mod:`chain` or ``START``.

``REREAD`` keeps the records that the table is known to hold, and reads the rest again as far as Kafka holds it.
``SKIP`` continues after all offsets that the table ever held, and gives up those that it now lacks.  Neither lands a
record twice: ``REREAD`` begins where the table's own snapshots end, and is refused if they do not tell; ``SKIP`` begins
after everything that landed.

A log that ends below a table's ``until`` has lost records, and will assign their offsets again.  Nobody knows where the
loss began, so ``REREAD`` is refused; ``SKIP`` continues at the log's end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from chsink.statemachine.commit.chain import Chain, Link, Snapshot, TableView, read_chain
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.ranges import TopicPartition


class TableVerdict(StrEnum):
    """What a person decides about a table."""

    REREAD = "reread"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Log:
    """What Kafka says of a topic-partition.

    ``committed`` is the group's offset.  ``waiting`` are the starts of the table's units on the control topic.
    ``rows`` is the offset behind the table's last row, None if that is not known.
    """

    topic_id: str
    start: int
    end: int
    committed: int | None
    waiting: tuple[int, ...] = ()
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """The chain to store, and the group's new offsets for topic-partitions of recreated topics and of logs that lost
    records.  ``forget``: the units that wait for a commit were read from a log that has since lost records.
    """

    chain: Chain
    group: Mapping[TopicPartition, int]
    forget: bool = False


def held(view: TableView) -> Chain | None:
    """The chain that the table is known to hold; None if it may hold rows of this mirror that no chain covers."""
    reading, stored, own = read_chain(view), view.stored, view.own
    if reading.chain is not None:
        return reading.chain
    if stored is None:  # and no own snapshot
        return None if view.lineage or view.cut else Chain()
    if reading.halt is CommitHalt.ROLLED_BACK and any(s.sequence > stored.sequence for s in view.lineage):
        return None  # somebody wrote after the rollback: perhaps the rows that were rolled back
    if own is not None and own.chain is not None:
        links = own.chain.links
    elif view.cut and view.lineage:
        return None
    else:  # no rows, or rolled back to before the first own snapshot
        links = {tp: replace(link, until=link.origin) for tp, link in {**view.origins, **stored.links}.items()}
    return _named(replace(stored, links=links), own)


def resolved(view: TableView, logs: Mapping[TopicPartition, Log], choice: TableVerdict) -> Resolved | None:
    """What to store for a table with the topic-partitions of ``logs``; None if ``REREAD`` could land rows twice."""
    known = held(view)
    if known is None and choice is TableVerdict.REREAD:
        return None
    chain = known or _named(Chain(), view.own)
    links, passed = dict(chain.links), dict(view.stored.links) if view.stored else {}
    group: dict[TopicPartition, int] = {}
    forget = False
    for tp, found in logs.items():
        log = found
        if any(_other(link, log) for link in (links.get(tp), passed.get(tp))):
            links.pop(tp, None)
            passed.pop(tp, None)
            group[tp] = log.start if choice is TableVerdict.REREAD else log.end
            log = replace(log, committed=None)
        elif any(link is not None and link.until > log.end for link in (links.get(tp), passed.get(tp))):
            if choice is TableVerdict.REREAD:
                return None
            group[tp], forget = log.end, True
        links[tp] = (
            _reread(links.get(tp), log)
            if choice is TableVerdict.REREAD
            else _skipped(links.get(tp), passed.get(tp), log)
        )
    topics = {tp.topic for tp in (*links, *logs)}
    links |= {tp: link for tp, link in passed.items() if tp.topic not in topics}  # their routes may come back
    # one topic has one id: a recreated one may have fewer partitions
    ids = {tp.topic: log.topic_id for tp, log in logs.items()}
    links = {tp: link for tp, link in links.items() if link.topic_id == ids.get(tp.topic, link.topic_id)}
    return Resolved(replace(chain, links=links), group, forget)


def _named(chain: Chain, own: Snapshot | None) -> Chain:
    """The chain, naming the table's newest own snapshot."""
    return replace(chain, snapshot_id=own.snapshot_id if own else None, sequence=own.sequence if own else 0, rows=None)


def _other(link: Link | None, log: Log) -> bool:
    """Whether the topic was recreated.  Brokers that hide ids say nothing about that."""
    return link is not None and bool(link.topic_id and log.topic_id) and link.topic_id != log.topic_id


def _reread(link: Link | None, log: Log) -> Link:
    if link is None:
        return Link(log.topic_id, log.start, log.start)
    # files that wait for a commit hold records that Kafka may have deleted since
    given_up = min([log.start, *(start for start in log.waiting if start >= link.until)])
    return replace(link, topic_id=log.topic_id, until=max(link.until, given_up))


def _skipped(link: Link | None, passed: Link | None, log: Log) -> Link:
    """Continue after all that the table held or holds, by its chain or else its rows; if it never held a record, after
    all that was handed over.
    """
    untils = [known.until for known in (link, passed) if known is not None]
    untils = untils or [end for end in (log.rows,) if end is not None]
    at = min(max(*untils, log.start), log.end) if untils else log.end if log.committed is None else log.committed
    return Link(log.topic_id, min(link.origin, at) if link else at, at)
