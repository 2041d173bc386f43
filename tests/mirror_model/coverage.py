"""What a run over all worlds has to reach.  A check that reached nothing proves nothing: anything missing is a failure."""

from __future__ import annotations

from collections import Counter

from chsink.statemachine.commit.chain import CHAIN
from chsink.statemachine.commit.handover import HAND_OVER, START
from chsink.statemachine.commit.plan import UNITS
from tests.mirror_model.worlds import WORLDS

NOT_HERE = {
    "unit OTHER_TABLE": "no table is dropped here",
    "unit SPEC_GONE": "no table has a partition spec here",
    "unit NO_LINK": "no table loses its property and all of its snapshots here",
    "start TABLE_UNKNOWN": "the same",
    "start ROWS_FOUND": "the same",
    "start RECORDS_GONE": "Kafka deletes nothing here",
    "chain ROWS_GONE": "nobody counts rows here",
    "chain PROPERTY_OLD": "nobody writes the property but the mirror here",
    "start CHOICE_CHANGED": "no table shares a topic here: the simulator changes maps",
    "start JOINS": "the same; the simulator also adds tables",
    "hand over OTHER_CHOICE": "no table shares a topic here",
    "unit OTHER_CHOICE": "the same",
    "unit BACKFILL": "nobody asks for a backfill here: the simulator does",
    "hand over DONE": "plans begin at the group's offset, or below it where something is left",
}
"""Rules that the unit tests or the simulator reach."""
RULES = [
    *(f"start {rule.name}" for rule in START),
    *(f"hand over {rule.name}" for rule in HAND_OVER),
    *(f"chain {rule.name}" for rule in CHAIN),
    *(f"unit {rule.name}" for rule in UNITS),
]
FAULTS = sorted({f"fault {name}" for world in WORLDS for name in world.faults})
OUTCOMES = ["refused", "fenced", "forgotten", "hole read again", "commit append", "commit move", "rest", "rest: halted"]
EXPECTED = [*(rule for rule in RULES if rule not in NOT_HERE), *FAULTS, *OUTCOMES]


def missing(counts: Counter[str]) -> list[str]:
    """What was not reached."""
    return [name for name in EXPECTED if not counts[name]]
