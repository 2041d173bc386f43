"""The decision table as Markdown, so that the docs are drawn from the code that decides."""

from __future__ import annotations

import sys

from .records import Phase
from .table import ACTIONS, NO_RECORD, TABLE, Cell, Move, Stop

_HEAD = """# Decision table

Drawn from `statemachine/table.py` by `python -m chsink.statemachine.render`; a test fails when they differ.

For each topic-partition of a batch, chsink compares the planned range `[a, b)` with the recorded range `[s, e)` and its
phase. `AFTER` means that all of the recorded range landed, `BEFORE` that it was announced and may or may not have
landed (*in doubt*), *no record* that nothing is recorded yet. The rows are checked from top to bottom. The first row
whose condition holds, and which has a cell for the phase, decides. A row with `–` for a phase does not apply in that
phase. The steps of a cell are carried out in order; a halt ends them. `[first, s)` without recorded gaps is the
processed region.
"""
_ACTIONS = """
*Re-insert* and *settle* both send exactly the recorded range again, under its recorded chunks and tokens: from the
batch at hand, or by reading exactly `[s, e)` from Kafka. A step may be refused, for the reasons below; the
topic-partition then halts, after the steps before it.
"""
_TAIL = """
A driver takes over every state record when it claims the sink. If a range is late, or the table may have forgotten its
tokens, the driver announces the range again before it re-inserts or settles it. A recorded gap is stored in the BEFORE
of the range after it. What is skipped must have landed: the driver asserts it. A range in doubt for which no batch is
at hand is decided as if nothing were planned after it (`EMPTY`).
"""


def decision_table() -> str:
    """The rows in order, then what the actions are refused by."""
    columns = (NO_RECORD, Phase.AFTER, Phase.BEFORE)
    lines = ["| # | row | when | no record | AFTER | BEFORE (in doubt) |", "|---|---|---|---|---|---|"]
    for number, row in enumerate(TABLE, 1):
        cells = [_cell(row.cells[phase]) if phase in row.cells else "–" for phase in columns]
        lines.append(f"| {number} | {row.name} | {row.when} | {' | '.join(cells)} |")
    lines += [_ACTIONS, "| step | halts instead when |", "|---|---|"]
    for action in ACTIONS:
        if action.refusals:
            refusals = " · ".join(f"{r.when}: {_move(r.stop)}" for r in action.refusals)
            lines.append(f"| {action.words} | {refusals} |")
    return "\n".join(lines) + "\n"


def _cell(cell: Cell) -> str:
    return " → ".join(_move(move) for move in cell) or "nothing"


def _move(move: Move) -> str:
    return f"halt {move.halt}" if isinstance(move, Stop) else move.words


def page() -> str:
    """``docs/decision-table.md``, whole."""
    return f"{_HEAD}\n{decision_table()}{_TAIL}"


if __name__ == "__main__":
    sys.stdout.write(page())
