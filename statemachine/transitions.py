"""The decision table: everything that affects what happens to an offset lives in ``TABLE`` and ``GUARDS``.

For each topic-partition of a batch the planned range ``[a, b)`` meets the stored record (last range ``[s, e)``,
phase).  The guards are asked in order; the first that holds decides.  When none holds, the cell
``TABLE[relation][phase]`` gives the actions, done in order.

Two ideas carry it:
- A range in doubt is settled by sending *exactly it* again: same offsets, same chunking, same tokens.  ClickHouse keeps
  one copy, whether the first try landed, partly landed or never left.
- One record has one slot, so settling is finished (AFTER) before BEFORE of newer data is written.

Action sources: a *re-insert* takes its rows from the batch at hand, which covers ``[s, e)`` from its start; a
*settle* reads exactly ``[s, e)`` from Kafka, because the batch does not hold all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from statemachine.ranges import Relation
from statemachine.records import Phase


class Action(StrEnum):
    """One thing to do with a range; the value is how the docs say it."""

    WRITE = "write [a,b)"
    WRITE_TAIL = "write [e,b)"
    SKIP = "skip [a,b)"
    SKIP_HEAD = "skip [a,e)"
    REINSERT = "adopt, re-insert [s,e) from the batch"
    SETTLE = "settle [s,e) by exact read"
    GAP = "gap policy for [e,a)"


class Halt(StrEnum):
    """Why a person has to decide; the value is the error id."""

    LOG_SHRANK = "CHS-301"
    STATE_LOST = "CHS-302"
    TOPIC_RECREATED = "CHS-303"
    TOPIC_ID_KNOWN_UNKNOWN = "CHS-304"
    OUTSIDE_PROCESSED = "CHS-305"
    REWOUND = "CHS-306"
    GAP = "CHS-307"
    IN_DOUBT_LOST = "CHS-308"
    PIPELINE_CHANGED = "CHS-309"


NO_RECORD: None = None

TABLE: Mapping[Relation, Mapping[Phase | None, tuple[Action, ...]]] = MappingProxyType(
    {
        Relation.NEW: {
            NO_RECORD: (Action.WRITE,),
            Phase.AFTER: (Action.WRITE,),
            Phase.BEFORE: (Action.SETTLE, Action.WRITE),
        },
        Relation.GAP: {
            Phase.AFTER: (Action.GAP, Action.WRITE),
            Phase.BEFORE: (Action.SETTLE, Action.GAP, Action.WRITE),
        },
        Relation.SAME: {
            Phase.AFTER: (Action.SKIP,),
            Phase.BEFORE: (Action.REINSERT,),
        },
        Relation.OVERLAPPING_FROM_START: {
            Phase.AFTER: (Action.SKIP_HEAD, Action.WRITE_TAIL),
            Phase.BEFORE: (Action.REINSERT, Action.WRITE_TAIL),
        },
        Relation.OVERLAPPING_FROM_INSIDE: {
            Phase.AFTER: (Action.SKIP_HEAD, Action.WRITE_TAIL),
            Phase.BEFORE: (Action.SETTLE, Action.SKIP_HEAD, Action.WRITE_TAIL),
        },
        Relation.CONTAINS: {
            Phase.AFTER: (Action.SKIP,),
            Phase.BEFORE: (Action.SETTLE, Action.SKIP),
        },
    }
)


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition asked before the table, in words, and what follows."""

    name: str
    condition: str
    outcome: str


GUARDS: tuple[Guard, ...] = (
    Guard(
        "TOPIC_RECREATED",
        "the topic's id differs from the recorded one",
        "in doubt: halt CHS-308 (its records are gone) · a = 0, b <= Kafka's log end: new incarnation, write [a,b) as "
        "with no record · "
        "otherwise halt CHS-303",
    ),
    Guard("TOPIC_ID_KNOWN_UNKNOWN", "the topic's id is known on one side only", "halt CHS-304"),
    Guard("LOG_SHRANK", "Kafka's log end < e", "halt CHS-301"),
    Guard("EMPTY", "a = b", "settle if BEFORE, write nothing"),
    Guard("STATE_LOST", "no record, but the checkpoint has history here", "halt CHS-302"),
    Guard(
        "CROP",
        "a < s",
        "drop [a, min(b,s)) if all of it lies in the processed region [first,s) without recorded gaps, "
        "else halt CHS-305; go on with the rest",
    ),
    Guard(
        "REWOUND",
        "b <= s",
        'settle if BEFORE, then halt CHS-306; `on_rewind = "skip"` skips [a,b) instead',
    ),
)
"""The order matters: a recreated topic is told from a log that shrank by its id, so the id is asked first."""
