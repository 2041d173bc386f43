"""The worlds of replays, and what they have to reach."""

from __future__ import annotations

from tests.replay_sim.world import WORLD_STEPS, World
from tests.sim.runs import Runs

POINTS = ("driver.before_before", "driver.after_before", "driver.before_after", "driver.after_after")
FAULTS = [
    *(
        f"fault killed at {name}"
        for name in (*POINTS, "task.before_insert", "task.after_insert", "task.after_dead_letters")
    ),
    *(
        f"fault {name}"
        for name in (
            "reset",
            "topic recreated",
            "replay killed",
            "replay frozen",
            "job killed",
            "job killed in a range",
            "open transaction",
            "rows of a replay deleted",
        )
    ),
    *("fault window overflowed by other writers", "fault server down", "fault server killed with an insert"),
    *("fault mark refused", "fault mark answer lost", "fault insert answer lost", "fault insert arrives late"),
    *("fault store swap lost", "fault store swap late", "fault store swap answer lost"),
]
OUTCOMES = [
    *("outcome replay done", "outcome replayed", "outcome insert deduplicated", "outcome probed"),
    *("outcome FencedError", "outcome UnavailableError", "outcome CHS-336", "outcome reset CHS-338"),
    *("outcome range sent again", "command reset", "command replay --landed", "command replay --resend"),
    "world at rest",
]
SECTIONS = (("outcomes", OUTCOMES), ("faults", FAULTS))
ENOUGH_STEPS = 100_000
"""From here on, anything expected that was never reached fails the campaign."""
RUNS = Runs("tests.replay_sim", World, WORLD_STEPS, [*OUTCOMES, *FAULTS])
