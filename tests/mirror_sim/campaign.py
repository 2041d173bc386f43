"""The mirror's worlds, and what a campaign must reach."""

from __future__ import annotations

from tests.mirror_sim import branches, decider, named, replacements
from tests.mirror_sim.events import HAPPENINGS
from tests.mirror_sim.world import WORLD_STEPS, World
from tests.sim.runs import Runs

FAULTS = [
    *(
        f"fault {name}"
        for name in (*HAPPENINGS.names, *branches.FAULTS, *named.FAULTS, *decider.FAULTS, *replacements.FAULTS)
    ),
    *(f"fault table commit {what}" for what in ("refused", "lost", "late", "answer lost")),
    *(f"fault killed at coordinator.{where}" for where in ("between_tables", "after_tables")),
    *(f"fault killed {when} a table's commit" for when in ("before", "after")),
    *(f"fault killed {when}" for when in ("in a transaction", "before a commit", "after a commit")),
    *("fault event refused", "fault commit request lost", "fault commit answer lost", "fault marker slow"),
    *("fault manifests not written", "fault speculative duplicate"),
    *("fault retention under a read", "fault topic recreated under a read"),
]
OUTCOMES = [
    *("outcome snapshot", "outcome move", "outcome read again", "outcome unit in parts", "outcome valid through"),
    *("outcome backfill asked", "outcome published", "outcome table named", "outcome decision killed"),
    *(f"outcome {what}" for what in ("recover", "resolve --reread", "resolve --skip")),
    *(f"outcome rolled back after {what}" for what in ("recover", "resolve --skip")),
    "outcome tables replaced and put back",
    *("outcome fenced", "outcome transaction timed out", "outcome open transaction ended by its successor"),
    *("outcome commit refused by a requirement", "outcome late commit applied", "outcome late commit refused"),
    *(
        f"outcome {name}"
        for name in (
            "MIRROR_CHOICE_CHANGED",
            "MIRROR_NOT_HANDED_OVER",
            "MIRROR_OWNED_BY_ANOTHER",
            "MIRROR_RECORDS_GONE",
            "MIRROR_ROLLED_BACK",
            "MIRROR_ROWS_GONE",
            "MIRROR_TABLES_BEGIN",
            "MIRROR_TABLE_RECREATED",
            "MIRROR_TOPIC_RECREATED",
            "SparkDied",
        )
    ),
    "world at rest",
]
SECTIONS = (("outcomes", OUTCOMES), ("faults", FAULTS))
ENOUGH_STEPS = 250_000
"""From here on, anything expected that was never reached fails the campaign."""
RUNS = Runs("tests.mirror_sim", World, WORLD_STEPS, [*OUTCOMES, *FAULTS])
