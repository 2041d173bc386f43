"""What a mirror continues of a table that Iceberg's Kafka Connect sink filled.

That sink reports files on its control topic, and moves its group's offsets in the same transaction.  Its coordinator
commits the files, and stores in the table's snapshot the next event to read of each partition of the control topic; its
own group moves to there once all tables were committed.  So the records below the group's offset are in the tables, or
in files of events that no table has taken: these files are committed with the table's first chain, in one commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from chsink.statemachine.commit.chain import Link
from chsink.statemachine.commit.rules import Rule, first
from chsink.statemachine.ranges import OffsetRange

# --- one file --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReportedFile:
    """A file of an event at ``offset`` of the control topic.  ``stored``: the next event by the table's snapshots, 0 if
    they name none.  ``passed``: the same by the coordinator's group.  ``in_table``: a snapshot has, or had, the file.
    ``whole``: no snapshot of the table has expired.
    """

    offset: int
    stored: int
    passed: int
    in_table: bool
    whole: bool = False


class FileFate(StrEnum):
    """What becomes of a file."""

    LEAVE = "leave"
    COMMIT = "commit"


FILES: tuple[Rule[ReportedFile, FileFate], ...] = (
    Rule("IN_TABLE", "a snapshot of the table has the file", lambda x: x.in_table, FileFate.LEAVE, "leave it"),
    Rule(
        "PASSED_OVER",
        "no snapshot has expired, and none ever had the file",
        lambda x: x.whole,
        FileFate.COMMIT,
        "commit it: it waits, or a new coordinator began to read after its event",
    ),
    Rule(
        "STORED",
        "its event is below the offset that the table's snapshots name",
        lambda x: x.offset < x.stored,
        FileFate.LEAVE,
        "leave it: it was committed, and has been replaced or removed since",
    ),
    Rule(
        "PASSED",
        "its event is below the offset of the coordinator's group",
        lambda x: x.offset < x.passed,
        FileFate.LEAVE,
        "leave it: it was committed before the table was rolled back, or its snapshots expired",
    ),
    Rule("WAITS", "otherwise", lambda _: True, FileFate.COMMIT, "commit it"),
)


def waits(file: ReportedFile) -> bool:
    """Whether no table has taken the file yet."""
    return first(FILES, file).verdict is FileFate.COMMIT


# --- one topic-partition ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stopped:
    """What the sink left of a topic-partition: ``group`` is its group's offset, ``reported`` the offset in its newest
    event, each None if there is none.  ``log`` is what Kafka holds.  ``trusted``: a person says so of the group.
    """

    topic_id: str
    group: int | None
    reported: int | None
    log: OffsetRange
    trusted: bool = False


class Continue(StrEnum):
    """Where the mirror continues."""

    REFUSE = "refuse"
    GROUP = "group"
    BEGIN = "begin"


LEFT: tuple[Rule[Stopped, Continue], ...] = (
    Rule(
        "BEYOND_LOG",
        "the group's offset lies beyond the log's end",
        lambda x: (x.group or 0) > x.log.end,
        Continue.REFUSE,
        "refuse: the topic was created again, or its log lost records",
    ),
    Rule(
        "SET_BACK",
        "the newest event names an offset above the group's, and nobody says that the group is right",
        lambda x: x.reported is not None and x.reported > (x.group or 0) and not x.trusted,
        Continue.REFUSE,
        "refuse: the group was set back or expired, or the topic was created again",
    ),
    Rule(
        "UNREAD",
        "the group has no offset",
        lambda x: x.group is None,
        Continue.BEGIN,
        "begin at the first record that Kafka holds",
    ),
    Rule("READ", "otherwise", lambda _: True, Continue.GROUP, "continue at the group's offset"),
)


def continued(left: Stopped) -> tuple[str, Link | None]:
    """The rule that decides, and the link of each table; None if it is refused."""
    rule = first(LEFT, left)
    match rule.verdict:
        case Continue.REFUSE:
            return rule.name, None
        case Continue.BEGIN:
            return rule.name, Link(left.topic_id, left.log.start, left.log.start)
        case _:
            assert left.group is not None
            return rule.name, Link(left.topic_id, 0, left.group)
