"""What a run over all worlds has to reach.  A check that reached nothing proves nothing: anything missing is a failure."""

from __future__ import annotations

from collections import Counter

from statemachine.transitions import GUARDS, TABLE
from tests.model.model import REASONS
from tests.model.worlds import WORLDS

CELLS = [f"cell {relation.name}/{phase or 'NO_RECORD'}" for relation, row in TABLE.items() for phase in row]
GUARD_CELLS = [f"cell {guard.name}" for guard in GUARDS if guard.name not in ("CROP", "EMPTY")]
"""CROP decides by itself only when it halts; otherwise the cell that follows is counted, and *cropped*.  EMPTY needs a
second partition: Spark plans no batch in which nothing is new.
"""
FAULTS = sorted({f"fault {name}" for world in WORLDS for name in world.faults})
OUTCOMES = [
    *("write applied", "write refused", "was applied", "was not applied", "claimed after all", "fenced"),
    *("late write applied", "late write refused", "owner read first", "row read first"),
    *("insert applied", "insert deduplicated", "late insert arrives", "piece sent", "empty piece"),
    *("probed: nothing there", "probed: all there", "probed: a part is there"),
    *("must probe", "late", "taken up", "waited", "deadline reached", "token may be forgotten"),
    *("topic changed", "retention meanwhile", "still held", "Spark: concurrent query", "Spark: data loss under a read"),
    *("batch planned", "batch planned again", "batch committed", "driver at rest"),
]
EXPECTED = [*CELLS, *GUARD_CELLS, "cell CROP", "cell cropped", *FAULTS, *REASONS, *OUTCOMES]


def missing(counts: Counter[str]) -> list[str]:
    """What was not reached."""
    return [name for name in EXPECTED if not counts[name]]
