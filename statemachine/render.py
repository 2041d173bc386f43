"""The decision table as Markdown, so that the docs are drawn from the code that decides."""

from __future__ import annotations

import sys

from statemachine.ranges import Relation
from statemachine.records import Phase
from statemachine.transitions import GUARDS, NO_RECORD, TABLE

_WHEN = {
    Relation.NEW: "`a = e`",
    Relation.GAP: "`a > e`",
    Relation.SAME: "`a = s, b = e`",
    Relation.OVERLAPPING_FROM_START: "`a = s, e < b`",
    Relation.OVERLAPPING_FROM_INSIDE: "`s < a < e < b`",
    Relation.CONTAINS: "`s <= a < b <= e`, not SAME",
}

_HEAD = """# Decision table

Drawn from `statemachine/transitions.py` by `python -m statemachine.render`; a test fails when they differ.

For each topic-partition of a batch, the planned range `[a, b)` meets the recorded range `[s, e)` and its phase.
`AFTER` means that all of it landed, `BEFORE` that it was announced and may or may not have landed (*in doubt*).
The guards are asked in order and the first that holds decides; otherwise the cell of the second table does.
Actions are done in order. *Re-insert* and *settle* both send exactly the recorded range again, under its recorded
chunks and tokens: from the batch at hand, or by reading exactly `[s, e)` from Kafka. Both halt with CHS-309 when the
table, transform or isolation level changed since.  A settle halts with CHS-308 when Kafka no longer holds the range,
and with CHS-301 when its log ends before the range does.
"""


def decision_table() -> str:
    """Guards in order, then the cells."""
    lines = ["| # | guard | when | then |", "|---|---|---|---|"]
    lines += [f"| {n} | {g.name} | {g.condition} | {g.outcome} |" for n, g in enumerate(GUARDS, 1)]
    lines += ["", "| relation | when | no record | AFTER | BEFORE (in doubt) |", "|---|---|---|---|---|"]
    for relation, row in TABLE.items():
        cells = [" → ".join(row[phase]) if phase in row else "–" for phase in (NO_RECORD, Phase.AFTER, Phase.BEFORE)]
        lines.append(f"| {relation.name} | {_WHEN[relation]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """``docs/decision-table.md``, whole."""
    return f"{_HEAD}\n{decision_table()}"


if __name__ == "__main__":
    sys.stdout.write(page())
