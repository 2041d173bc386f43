"""Where a topic-partition continues if only a table's rows say what it holds: chain and group were lost.

The mirror lands the records of a topic-partition in order, so the rows of a table cover all records from its origin up
to ``until``, except those that have no row on purpose.  The last row therefore says where to continue, but only if no
record below it lacks its row.  What lies above the last row is read again: no row of it is there, so none lands twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from chsink.statemachine.commit.chain import Link
from chsink.statemachine.commit.rules import Rule, first
from chsink.statemachine.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class RowsFound:
    """What rows and Kafka say of a topic-partition.

    ``rows``: from the first offset that has a row to the one behind the last; None if there is none.  ``lacking``: the
    first record below the last row that should have a row and has none.  ``log`` is what Kafka holds.  ``begins``: the
    mirror began at the log's first record, not at ``latest``.  ``other``: the first row of another record than Kafka's.
    """

    topic_id: str
    log: OffsetRange
    rows: OffsetRange | None
    lacking: int | None = None
    begins: bool = True
    other: int | None = None


class RowsSay(StrEnum):
    """What follows from the rows."""

    BEGIN = "begin"
    CONTINUE = "continue"
    REFUSE = "refuse"


RECOVER: tuple[Rule[RowsFound, RowsSay], ...] = (
    Rule(
        "NO_ROWS",
        "the table holds no row of it",
        lambda x: x.rows is None,
        RowsSay.BEGIN,
        "begin at the first record that Kafka holds",
    ),
    Rule(
        "BEYOND_LOG",
        "a row lies beyond the log's end",
        lambda x: x.rows is not None and x.rows.end > x.log.end,
        RowsSay.REFUSE,
        "refuse: the topic was created again, or its log lost records",
    ),
    Rule(
        "OTHER_RECORD",
        "a row has another timestamp than Kafka's record at its offset",
        lambda x: x.other is not None,
        RowsSay.REFUSE,
        "refuse: the topic was created again, or its log lost records",
    ),
    Rule(
        "LACKING",
        "a record below the last row should have a row and has none",
        lambda x: x.lacking is not None,
        RowsSay.REFUSE,
        "refuse: it was lost, or the row was deleted",
    ),
    Rule("WHOLE", "otherwise", lambda _: True, RowsSay.CONTINUE, "continue after the last row"),
)


def recovered(found: RowsFound) -> tuple[str, Link | None]:
    """The rule that decides, and the link to store; None if the rows do not say enough."""
    rule = first(RECOVER, found)
    match rule.verdict:
        case RowsSay.BEGIN:
            return rule.name, Link(found.topic_id, found.log.start, found.log.start)
        case RowsSay.CONTINUE:
            assert found.rows is not None
            origin = min(found.log.start, found.rows.start) if found.begins else found.rows.start
            return rule.name, Link(found.topic_id, origin, found.rows.end)
        case _:
            return rule.name, None
