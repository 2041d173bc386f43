"""A topic with two tables, through crashes, retries and races: each record once in both."""

from __future__ import annotations

from collections import Counter

import pytest

from chsink.batch.driver import Driver
from chsink.batch.lanes import Lanes
from chsink.batch.model import PlannedBatch
from tests.sim.fan_out import FanOut
from tests.sim.hub import Violation

SEEDS, STEPS = range(1, 21), 500


def test_each_record_is_in_both_tables_once() -> None:
    """⚑ Whatever ends a driver between two lanes or in one."""
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        world = FanOut(seed)
        world.run(STEPS)
        counts.update(world.hub.counts)
    assert counts["world at rest"] > len(SEEDS) // 2, counts
    assert counts["fault killed at driver.after_after"], "a driver died between two lanes"


def test_negative_control_a_lane_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calm worlds, in which the second table receives nothing."""

    def first_only(self: Lanes, batch: PlannedBatch, runner: object) -> None:
        first: Driver = self.drivers[0]
        first.process(batch, runner)  # type: ignore[arg-type]

    monkeypatch.setattr(Lanes, "process", first_only)
    with pytest.raises(Violation, match="complete_at_rest"):
        FanOut(SEEDS[0], frozenset()).run(STEPS)
