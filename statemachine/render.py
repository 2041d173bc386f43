"""The decision table as Markdown, so that the docs are drawn from the code that decides."""

from __future__ import annotations

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


def decision_table() -> str:
    """Guards in order, then the cells."""
    lines = ["| # | guard | when | then |", "|---|---|---|---|"]
    lines += [f"| {n} | {g.name} | {g.condition} | {g.outcome} |" for n, g in enumerate(GUARDS, 1)]
    lines += ["", "| relation | when | no record | AFTER | BEFORE (in doubt) |", "|---|---|---|---|---|"]
    for relation, row in TABLE.items():
        cells = [" → ".join(row[phase]) if phase in row else "–" for phase in (NO_RECORD, Phase.AFTER, Phase.BEFORE)]
        lines.append(f"| {relation.name} | {_WHEN[relation]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
