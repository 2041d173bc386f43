"""What was found: counts, and the first offsets folded into ranges.  Its size is bounded whatever was found."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np

from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.verify.compare import I64
from chsink.verify.scope import Unjudged

MOST_RANGES: Final = 100
"""Of a category in one topic-partition; its offsets are counted beyond that."""
DEFECTS: Final = (
    "missing",
    "duplicated",
    "different",
    "wrong_shard",
    "unexpected",
    "letter_missing",
    "letter_duplicated",
    "letter_different",
)
"""What makes the check fail."""


NO_DEFECTS: Final = ("unproven", "older", "before_column")
"""What is listed beside them."""


@dataclass(slots=True)
class Folded:
    """Ascending offsets: how many, and the first of them as ranges."""

    offsets: int = 0
    ranges: list[OffsetRange] = field(default_factory=list)
    more: bool = False

    def add(self, found: I64) -> None:
        """Offsets beyond all that were added."""
        self.offsets += len(found)
        breaks = np.flatnonzero(np.diff(found) > 1) + 1
        for run in np.split(found, breaks[: MOST_RANGES + 1]) if len(found) else ():
            start, end = int(run[0]), int(run[-1]) + 1
            if self.ranges and self.ranges[-1].end == start and not self.more:
                self.ranges[-1] = OffsetRange(self.ranges[-1].start, end)
            elif len(self.ranges) < MOST_RANGES and len(run) == end - start:
                self.ranges.append(OffsetRange(start, end))
            else:
                self.more = True

    def as_dict(self) -> dict[str, object]:
        """For a program."""
        return {"offsets": self.offsets, "ranges": [[r.start, r.end] for r in self.ranges], "more": self.more}

    def __str__(self) -> str:
        """For a person: ``3 offsets: 5, 9-10``."""
        listed = ", ".join(str(r.start) if r.length == 1 else f"{r.start}-{r.end - 1}" for r in self.ranges[:10])
        more = ", …" if self.more or len(self.ranges) > 10 else ""
        return f"{self.offsets:,} offset{'s' if self.offsets != 1 else ''}: {listed}{more}"


@dataclass(slots=True)
class PartitionReport:
    """One topic-partition.  ``records`` were read from Kafka, ``without_row`` of them do not fit the table and have no
    row; ``rows`` were read from the table, ``dead_letters`` from that of dead letters.

    ``different_columns`` counts, of the first ``named_rows`` rows that differ, in which columns they do.  ``unproven``
    are offsets without a row where the table's engine or TTL may have removed it, or with one where compaction may have
    removed the record.  ``older`` hold further rows, which an earlier incarnation may have left.
    """

    topic_partition: TopicPartition
    table: str
    judged: tuple[OffsetRange, ...] = ()
    unjudged: list[Unjudged] = field(default_factory=list)
    records: int = 0
    without_row: int = 0
    rows: int = 0
    dead_letters: int = 0
    missing: Folded = field(default_factory=Folded)
    duplicated: Folded = field(default_factory=Folded)
    different: Folded = field(default_factory=Folded)
    wrong_shard: Folded = field(default_factory=Folded)
    unexpected: Folded = field(default_factory=Folded)
    letter_missing: Folded = field(default_factory=Folded)
    letter_duplicated: Folded = field(default_factory=Folded)
    letter_different: Folded = field(default_factory=Folded)
    unproven: Folded = field(default_factory=Folded)
    older: Folded = field(default_factory=Folded)
    before_column: Folded = field(default_factory=Folded)
    filled_from: dict[str, int | None] = field(default_factory=dict)
    different_columns: Counter[str] = field(default_factory=Counter)
    named_rows: int = 0

    @property
    def defects(self) -> dict[str, Folded]:
        """What was found wrong, by category."""
        found = {name: getattr(self, name) for name in DEFECTS}
        return {name: folded for name, folded in found.items() if folded.offsets}

    def as_dict(self) -> dict[str, object]:
        """For a program."""
        return {
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            "table": self.table,
            "judged": [[r.start, r.end] for r in self.judged],
            "unjudged": [{"range": [u.range.start, u.range.end], "reason": str(u.why)} for u in self.unjudged],
            "records": self.records,
            "without_row": self.without_row,
            "rows": self.rows,
            "dead_letters": self.dead_letters,
            **{name: getattr(self, name).as_dict() for name in (*DEFECTS, *NO_DEFECTS)},
            "filled_from": self.filled_from,
            "different_columns": dict(self.different_columns.most_common()),
        }


@dataclass(slots=True)
class TableReport:
    """A table that was compared as a whole, because its rows do not name their records.

    ``unexpected`` rows are there more often than records make them; ``unproven`` too, but what Kafka no longer shows
    may have made them.  ``more``: further rows differ, which were not compared one by one.
    """

    table: str
    rows: int
    unexpected: int = 0
    unproven: int = 0
    more: bool = False


@dataclass(slots=True)
class Report:
    """Everything.  ``notes`` are sentences about a whole table."""

    sink: str
    partitions: list[PartitionReport] = field(default_factory=list)
    tables: list[TableReport] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing was found wrong."""
        return not (any(p.defects for p in self.partitions) or any(t.unexpected or t.more for t in self.tables))

    def as_dict(self) -> dict[str, Any]:
        """For a program."""
        totals = {name: sum(getattr(p, name).offsets for p in self.partitions) for name in DEFECTS}
        totals["unexpected"] += sum(t.unexpected for t in self.tables)
        judged = sum(r.length for p in self.partitions for r in p.judged)
        return {
            "sink": self.sink,
            "ok": self.ok,
            "offsets": judged,
            "records": sum(p.records for p in self.partitions),
            "rows": sum(p.rows for p in self.partitions) + sum(t.rows for t in self.tables),
            **totals,
            "notes": self.notes,
            "tables": [asdict(t) for t in self.tables],
            "partitions": [p.as_dict() for p in self.partitions],
        }
