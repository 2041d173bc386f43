"""The mirror's rules as Markdown, so that the docs are drawn from the code that decides."""

from __future__ import annotations

import sys
from typing import Any

from chsink.statemachine.commit.chain import CHAIN
from chsink.statemachine.commit.handover import HAND_OVER, START
from chsink.statemachine.commit.plan import UNITS
from chsink.statemachine.commit.rounds import ROUND
from chsink.statemachine.commit.rules import Rule

_HEAD = """# Commit tables

Drawn from `statemachine/commit/` by `python -m chsink.statemachine.commit.render`; a test fails when they differ.

These tables decide what happens to records on their way into an Iceberg table. In each table, the first rule that holds
decides.

A *unit* is one offset range `[a, b)` of one topic-partition with the files that a worker wrote of it for one table. A
table's *chain* says, per topic-partition, that the table holds the records of `[origin, until)`, each once. The sink's
*group* says up to which offset records were handed over.
"""
_SECTIONS: tuple[tuple[str, str, tuple[Rule[Any, Any], ...]], ...] = (
    (
        "Where a topic-partition starts",
        "Checked when a driver starts, and for each topic-partition that appears later, before any worker reads it.",
        START,
    ),
    (
        "What a worker hands over",
        "`[a, b)` is the planned range. `committed` is the group's offset, read after older attempts were fenced.",
        HAND_OVER,
    ),
    (
        "Which chain a table has",
        "A snapshot is *own* when its summary holds a chain of this mirror. The lineage is the head and its ancestors.",
        CHAIN,
    ),
    (
        "Which units a commit takes",
        "Units are checked in the order of their offsets, the longer one first. `until` moves as they are taken.",
        UNITS,
    ),
    (
        "When a commit is due",
        "A round opens with `StartCommit`. A partial commit has no valid-through time.",
        ROUND,
    ),
)
_TAIL = """
A commit whose units have no files moves `until` in the table property and makes no snapshot.

A *hole* is a range between `until` and the group's offset that no unit at hand begins: its events were lost, or its
units were dropped. A coordinator looks for holes once it has read every event that was there when it asked for the
group's offset. A worker then reads exactly this range from Kafka again and hands it over for this table alone. The
group does not move.
"""


def page() -> str:
    """``docs/commit-tables.md``, whole."""
    lines = [_HEAD]
    for title, about, rules in _SECTIONS:
        lines += [f"## {title}\n", f"{about}\n", "| # | rule | when | then |", "|---|---|---|---|"]
        lines += [f"| {n} | {rule.name} | {rule.when} | {rule.then} |" for n, rule in enumerate(rules, 1)]
        lines.append("")
    return "\n".join(lines) + _TAIL


if __name__ == "__main__":
    sys.stdout.write(page())
