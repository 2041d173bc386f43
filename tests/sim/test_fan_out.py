"""A topic with two tables, through crashes, retries and races: each record once in both."""

from __future__ import annotations

from collections import Counter

import pytest

from chsink.batch.driver import Driver
from chsink.batch.lanes import Lanes
from chsink.batch.model import PlannedBatch
from chsink.recovery.decide import plan_reset
from tests.sim import chosen
from tests.sim.fan_out import FanOut
from tests.sim.hub import Group, Violation
from tests.sim.oracle import LISTS
from tests.sim.services import services_of

CHOSEN_SEEDS, LETTERED_SEEDS = (*range(1, 31), 109, 210), range(1, 11)
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


def test_each_record_is_in_the_one_table_that_it_names() -> None:
    """⚑ While somebody changes ``table_by`` before every other start: between two tables, and between two rounds."""
    counts: Counter[str] = Counter()
    for seed in CHOSEN_SEEDS:
        world = chosen.World(seed)
        world.run(STEPS)
        counts.update(world.hub.counts)
    assert counts["world at rest"] >= len(CHOSEN_SEEDS) // 2, counts
    assert counts["table_by undone"], "a change in the middle of a batch was undone"
    assert counts["fault table_by changed"] > counts["table_by undone"], "others were not in the middle of one"


def test_each_bad_record_is_a_dead_letter_of_its_table_once() -> None:
    """⚑ While ``table_by`` changes, and Kafka deletes what is in doubt: each table lists the offsets that are gone."""
    counts: Counter[str] = Counter()
    listing = 0
    for seed in LETTERED_SEEDS:
        world = chosen.Lettered(seed)
        world.run(STEPS)
        counts.update(world.hub.counts)
        listing += any(place.startswith(LISTS) for place, _ in world.oracle.landed)
    assert counts["world at rest"] >= len(LETTERED_SEEDS) // 2, counts
    assert counts["outcome record kept as a dead letter"] and listing, counts


def test_a_reset_of_one_table_says_what_table_by_does_to_it() -> None:
    """⚑ If ``table_by`` changed in between, even cleanly, records of that table land twice or not at all."""
    world = chosen.World(CHOSEN_SEEDS[0], frozenset())
    world.run(STEPS)
    said: dict[str | None, str] = {}

    def person() -> None:
        for table in (None, world.tables[0]):
            said[table] = " ".join(plan_reset(services_of(world), world.first, [], table=table).says)

    world.hub.spawn(Group("operator"), person)
    while len(said) < 2:
        world.hub.step()
    assert [("the current table_by chooses" in text) for text in said.values()] == [False, True]


def test_negative_control_a_lane_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calm worlds, in which the second table receives nothing."""

    def first_only(self: Lanes, batch: PlannedBatch, runner: object) -> None:
        first: Driver = self.drivers[0]
        first.process(batch, runner)  # type: ignore[arg-type]

    monkeypatch.setattr(Lanes, "process", first_only)
    with pytest.raises(Violation, match="complete_at_rest"):
        FanOut(SEEDS[0], frozenset()).run(STEPS)
