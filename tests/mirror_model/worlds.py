"""The small worlds and their bounds.  Each is explored whole: every order of its steps and of the faults it may see.

A world has one or two topic-partitions of one to three offsets, and one or two tables.  An offset without a record is
a transaction marker, or was compacted away: a unit of it alone has no files.
"""

from __future__ import annotations

from tests.mirror_model.rules import World
from tests.model.command import once

CATALOG = ("catalog: answer lost", "catalog: request lost")
ATTEMPTS = ("second attempt", "worker killed", "plan from earlier", "plan from later")


WORLDS = (
    World("attempts", "zombies, copies, stale and early plans", once(*ATTEMPTS), any=2, end=2, records=0b11),
    World("attempts, three offsets", "the same", once("second attempt", "plan from later"), any=1),
    World(
        "two coordinators",
        "a second one starts while the first is at any step; commits are lost or unanswered",
        once("second coordinator", *CATALOG),
        any=2,
        end=2,
        records=0b10,
    ),
    World(
        "two tables",
        "a coordinator dies between two tables; an answer is lost",
        once("coordinator killed", "catalog: answer lost"),
        any=1,
        end=2,
        records=0b11,
        tables=2,
    ),
    World(
        "split units",
        "units in two parts, read in two polls; a coordinator dies or gets company between them",
        once("coordinator killed", "second coordinator"),
        any=1,
        end=2,
        records=0b11,
        parts=2,
    ),
    World("two topic-partitions", "each has a chain of its own", once("coordinator killed"), any=1, end=1, tps=2),
    World(
        "control topic lost",
        "events are gone that the group passed: holes are read again",
        once("control topic lost", "coordinator killed"),
        any=2,
        end=2,
        records=0b11,
    ),
    World(
        "control topic lost, two coordinators",
        "both may have the same hole read again",
        once("control topic lost", "second coordinator"),
        any=2,
        end=1,
        records=0b1,
    ),
    World(
        "control topic lost, two tables",
        "a hole of one table is none of the other",
        once("control topic lost"),
        any=1,
        end=2,
        records=0b11,
        tables=2,
    ),
    World(
        "groups lost",
        "offsets of the sink's and of the coordinators' group expire or are set back",
        once("group lost", "group set back", "control group lost", "coordinator killed"),
        any=1,
        end=2,
        records=0b11,
    ),
    World(
        "group set back",
        "units straddle what a table holds",
        once("group set back", "worker killed"),
        any=2,
        end=2,
        records=0b11,
    ),
    World(
        "other writers",
        "foreign snapshots, expired snapshots, a lost property",
        once("foreign append", "snapshots expired", "property lost", "coordinator killed"),
        any=2,
        end=2,
        records=0b10,
    ),
    World(
        "rolled back",
        "a table is set to an older snapshot, with other writers",
        once("rolled back", "foreign append", "snapshots expired"),
        any=2,
        end=2,
        records=0b11,
    ),
    World("topic recreated", "under the same name", once("topic recreated", "coordinator killed"), any=2, end=1),
)
