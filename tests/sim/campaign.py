"""The worlds of the ClickHouse side, and what a campaign must reach: every cell, failpoint, outcome and fault."""

from __future__ import annotations

from chsink import failpoints
from chsink.statemachine import table
from tests.sim.events import HAPPENINGS, OF_LETTERS
from tests.sim.letters import FAULTS as LETTERS_FAULTS
from tests.sim.operator import CHECKPOINT_FAULTS, REASONS
from tests.sim.runs import Runs
from tests.sim.world import DISASTERS, SPECIAL, WORLD_STEPS, World

HALTED_BEFORE = {
    *("TOPIC_RECREATED_IDLE/BEFORE", "TOPIC_RECREATED_FROM_ZERO/BEFORE", "TOPIC_RECREATED/BEFORE"),
    *("TOPIC_ID_LOST/BEFORE", "TOPIC_ID_GAINED/BEFORE", "LOG_SHRANK/BEFORE"),
    "LOG_SHRANK/AFTER",
}
"""Cells that are seldom or never counted: only the decisions of batches are counted, and a driver nearly always meets
these cells when it starts or settles.
"""
CELLS = [f"cell {name}" for name in table.CELLS if name not in HALTED_BEFORE]
NAMES = (*failpoints.NAMES, *failpoints.DEAD_LETTERS)
FAILPOINTS = [f"failpoint {name}" for name in NAMES]
FAULTS = [
    *(f"fault {name}" for name in (*HAPPENINGS.names, *CHECKPOINT_FAULTS, *SPECIAL, *DISASTERS)),
    *(f"fault killed at {name}" for name in NAMES),
    *(
        f"fault insert {what}"
        for what in ("refused", "request lost", "arrives late", "answer lost", "error after data", "leaves its token")
    ),
    *(f"fault store {verb} {what}" for verb in ("swap", "create") for what in ("lost", "late", "answer lost")),
    *(f"fault store {verb} delivered twice" for verb in ("swap", "create")),
    "fault server killed with an insert",
    "fault window lowered and raised",
    "fault store session lost",
    "fault speculative duplicate",
    "fault two drivers at once",
    "fault operator interrupted",
    "fault retention under a read",
    "fault topic recreated under a read",
    *(f"fault {name}" for name in (*OF_LETTERS.names, *LETTERS_FAULTS)),
]
SELDOM = {"CHS-233", "CHS-309", "CHS-313", "CHS-335"}
"""Halts that a campaign need not reach: a table altered twice within moments; a changed ``table_by``, and a table
without a route, which only ``tests.sim.chosen`` has (columns that are added here halt nothing); a sender of dead
letters that slept, after its check, until its topic was gone.
"""
OUTCOMES = [
    *(f"outcome {verb} {what}" for verb in ("swap", "create") for what in ("applied", "refused", "unknown")),
    *(f"outcome late write {what}" for what in ("applied", "refused")),
    *(f"outcome insert {what}" for what in ("applied", "deduplicated", "unreachable")),
    *(f"outcome {why}" for why in REASONS if why not in SELDOM),
    *(f"outcome {why}" for why in ("CHS-701", "CHS-707", "CHS-709", "CHS-801", "CHS-802")),
    "outcome load answered",
    "outcome load lags",
    "outcome store load unavailable",
    "outcome probed",
    "outcome replica lagged",
    "outcome record skipped",
    "outcome record kept as a dead letter",
    *(f"outcome dead letters {what}" for what in ("fenced", "searched for", "known by the group")),
]
COMMANDS = [
    *(f"command resolve {verdict}" for verdict in ("landed", "resend", "expired", "lost")),
    *(f"command {what}" for what in ("reset", "recover", "recover --replace", "CHS-320", "CHS-322", "CHS-331")),
    "operator deletes",
]
"""What operators typed, and what refused it."""
ONCE_IN_A_MILLION = {"command recover --replace", "command CHS-331", "command CHS-320"}
"""What a campaign need not reach, either: ``tests.sim.lost`` has worlds for the first two; the third refuses to decide
about what another command has just settled.
"""
_ALL = [*CELLS, "cell cropped", *FAILPOINTS, *FAULTS, *OUTCOMES, *COMMANDS, "world at rest"]
EXPECTED = [name for name in _ALL if name not in ONCE_IN_A_MILLION]
SECTIONS = (
    ("decision table", [*CELLS, "cell cropped"]),
    ("failpoints", FAILPOINTS),
    ("outcomes", OUTCOMES),
    ("operators", COMMANDS),
    ("faults", FAULTS),
)
"""As they are printed."""
RUNS = Runs("tests.sim", World, WORLD_STEPS, EXPECTED)
