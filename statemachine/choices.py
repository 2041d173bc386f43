"""``table_by`` may change between two batches, but never within one.

Several tables share the records of a topic-partition.  Each takes its records by a *choice* of its own, and each passes
the same offsets at a different moment.  Suppose that one table has passed an offset under an old choice, and another
table is still to pass it under a new one.  If the record there changed its table, it would land in both, or in neither,
and no range would be in doubt.

Rules:
- A state record says from which offset on the choice in its pipeline holds (``table_by.since``).  What the table passed
  before that, it passed under *another choice*.  So it did with all of its offsets if its choice is different now.
- No table may still have to pass offsets that another table has passed under another choice.  So where all tables are
  at the same end, with nothing in doubt, anything may change.
- A table that takes all records is not waited for.  But it may take part later: so what the others passed before it
  under other choices must be known, and their last range is not enough.
- A table that is read again because a person asked for it passes its old offsets as if it were new: only what lies
  beyond its old end is compared, unless the other table is read again, too.
- A table without a route is *left* once a batch has landed without it.  Nothing waits for it.  If records name it
  again, it begins where the others are: every earlier record has had its fate.  From the next start with a route on, it
  is left no more, whether another table has landed anything or not.
- So is a table that a person resets while it has no route: what it lacked is forgotten.  If a route leads to it again,
  it is read from the beginning, as after any reset.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from .ranges import OffsetRange, TopicPartition
from .records import Phase, StateKey, StateRecord, TopicTable
from .table import choice_of


@dataclass(frozen=True, slots=True)
class Mixed:
    """``offsets`` went to table ``ahead`` under another choice, and table ``behind`` is still to pass them."""

    offsets: OffsetRange
    ahead: str
    behind: str


def mixed_choices(records: Mapping[str, StateRecord], now: Mapping[str, str]) -> Mixed | None:
    """Whether offsets of one topic-partition would be chosen from twice: the most of them for one pair of tables.

    ``records`` are those of its tables, EMPTY where nothing of the present topic was announced; ``now`` are the present
    pipelines of those that have a route.
    """
    waiting = {table: record for table, record in records.items() if _waits(table, record, now)}
    least = min((record.done for record in waiting.values()), default=0)
    passed = {table: (record, _other_end(record, now.get(table, ""))) for table, record in records.items()}
    found = [
        Mixed(OffsetRange(begins, end), ahead, behind)
        for ahead, (record, end) in passed.items()
        if end > least  # seldom, so that many tables cost no pairs
        for behind, other in waiting.items()
        if behind != ahead and (begins := max(_compared_from(other, record), record.life.first)) < end
    ]
    return max(found, key=lambda one: (one.offsets.length, one.ahead, one.behind), default=None)


def joining(
    records: Mapping[StateKey, StateRecord], keys: Iterable[StateKey], chosen: Container[TopicTable]
) -> dict[StateKey, StateRecord]:
    """The keys of tables that records name for the first time, or again; each with the sibling at whose end it begins.

    ``chosen`` are the tables that records name now.  A sibling is another table of the topic-partition that records
    name, or named when it last landed: one that was left only where all were.
    """
    new = [k for k in keys if k.topic_table in chosen and (k not in records or _comes_back(records[k]))]
    ahead: dict[TopicPartition, StateRecord] = {}
    for key, record in records.items() if new else ():
        if (key.topic_table in chosen or choice_of(record.sent.pipeline)) and record.phase is not Phase.EMPTY:
            one = ahead.get(key.topic_partition, record)
            ahead[key.topic_partition] = max(one, record, key=lambda r: (not r.table_by.left, r.end))
    found = {key: ahead[key.topic_partition] for key in new if key.topic_partition in ahead}
    return {key: sibling for key, sibling in found.items() if key not in records or records[key].end < sibling.end}


def _comes_back(record: StateRecord) -> bool:
    """Whether the table was left, and no person has reset it since."""
    return record.table_by.left and not (record.phase is Phase.EMPTY and record.life.incarnation)


def _waits(table: str, record: StateRecord, now: Mapping[str, str]) -> bool:
    """Whether the choices of the others matter to what the table still has to pass."""
    if record.table_by.left:
        return False
    return bool(table not in now or choice_of(now[table]) or choice_of(record.sent.pipeline))


def _other_end(record: StateRecord, now: str) -> int:
    """Up to which offset the table passed offsets under another choice."""
    return record.table_by.since if choice_of(record.sent.pipeline) == choice_of(now) else record.end


def _compared_from(waiting: StateRecord, passed: StateRecord) -> int:
    return waiting.life.older_end if waiting.read_again and not passed.read_again else waiting.done
