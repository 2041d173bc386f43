"""What a replay did.  The report's size is bounded, however many dead letters there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

from chsink.dlq.place import LetterPlace

MOST_NAMED: Final = 1_000


class KeepReason(StrEnum):
    """Why a dead letter stays one."""

    BAD = "the record still does not fit the table"
    OTHER_TABLE = "table_by no longer leads the record to this table"
    NOT_CONFIRMED = "the job has not confirmed the range yet"
    EARLIER = (
        "the partition was reset or recreated, or its range was sent again, and the table cannot show whether the "
        "record has a row"
    )
    HAS_ROW = "the table already has a row of the record"
    AMBIGUOUS = "there are dead letters of different records at this offset"
    NOT_ROUTED = "no [[route]] leads from the topic to the table any more"
    DELETED = "Kafka deleted the records, so there is none to replay"
    UNKNOWN = (
        "the job has landed nothing of this partition since a person changed its state, so chsink does not know "
        "whether your program transforms the records; start the job, then replay again"
    )
    TRANSFORMED = "your program transforms the records, which a replay cannot repeat"


@dataclass(frozen=True, slots=True)
class Left:
    """One dead letter that stays one; ``column`` and ``reason`` say why its record does not fit."""

    place: LetterPlace
    why: KeepReason
    column: str = ""
    reason: str = ""

    def as_dict(self) -> dict[str, object]:
        """For a program."""
        return {**asdict(self.place), "why": self.why.name.lower(), "column": self.column, "reason": self.reason}


@dataclass(slots=True)
class ReplayReport:
    """``landed`` dead letters have a row now (or would have, in a ``dry_run``), ``settled`` are those of them that an
    earlier replay had begun; ``in_doubt`` are those that a dry run leaves so.
    """

    sink: str
    dry_run: bool = False
    landed: int = 0
    settled: int = 0
    in_doubt: int = 0
    left: Counter[KeepReason] = field(default_factory=Counter)
    named: list[Left] = field(default_factory=list)

    def leave(self, one: Left) -> None:
        """Count it, and name the first."""
        self.left[one.why] += 1
        if len(self.named) < MOST_NAMED:
            self.named.append(one)

    def as_dict(self) -> dict[str, Any]:
        """For a program."""
        return {
            "sink": self.sink,
            "dry_run": self.dry_run,
            "landed": self.landed,
            "settled": self.settled,
            "in_doubt": self.in_doubt,
            "left": {why.name.lower(): self.left[why] for why in KeepReason},
            "letters": [one.as_dict() for one in self.named],
        }
