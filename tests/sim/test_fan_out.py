"""A topic with two tables, through crashes, retries and races: each record once in both."""

from __future__ import annotations

from collections import Counter

import pytest

from chsink.batch.model import PlannedBatch
from chsink.driver.driver import Driver
from chsink.driver.lanes import Lanes
from chsink.recovery.decide import plan_reset
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.sim import chosen
from tests.sim.clickhouse import LETTERS
from tests.sim.fan_out import MORE, FanOut
from tests.sim.hub import Group, Violation
from tests.sim.kafka import uid_of
from tests.sim.oracle import LISTS
from tests.sim.services import services_of
from tests.sim.sql import delete
from tests.sim.world import WORLD_STEPS

CHOSEN_SEEDS, LETTERED_SEEDS = (*range(1, 31), 109, 210), range(1, 11)
SEEDS, STEPS = range(1, 21), 500
FALSE_ALARMS = (777000588, 777001020)
LETTERED_IN_TABLE = 3
"""A seed whose dead letters are in a table."""


def test_each_record_is_in_both_tables_once() -> None:
    """⚑ Whatever ends a driver between two lanes or in one."""
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        world = FanOut(seed)
        world.run(STEPS)
        counts.update(world.hub.counts)
    assert counts["world at rest"] > len(SEEDS) // 2, counts
    assert counts["fault killed at driver.after_after"], "a driver died between two lanes"


@pytest.mark.soak
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


@pytest.mark.parametrize("seed", FALSE_ALARMS)
def test_what_a_person_does_to_a_range_in_doubt_is_not_counted_for_another_table(seed: int) -> None:
    """Dead letters of a settled table were deleted with those of one in doubt, which lie at the same offsets; and what one
    table had twice was held against the other.
    """
    world = chosen.Lettered(seed)
    world.run(WORLD_STEPS)
    assert world.hub.counts["fault rows in doubt deleted"] or world.hub.counts["fault rows in doubt attached again"]


def test_a_driver_that_wakes_up_with_an_old_checkpoint_and_another_table_may_halt() -> None:
    """It claims the sink; its table begins where the others are, and its plan lies before that."""
    world = chosen.World(777000073)
    world.hub.factors["rows in doubt deleted"] = 8.0
    world.run(WORLD_STEPS)
    assert world.hub.counts["outcome CHS-305"]


def test_only_dead_letters_of_the_table_in_doubt_are_deleted() -> None:
    """As the statement that chsink names does, which begins with the sink and the table."""
    world = chosen.Lettered(LETTERED_IN_TABLE, frozenset())
    server, uids = world.servers[0], [uid_of(0, 0, offset) for offset in range(4)]
    kept = server.tables[LETTERS]
    kept.rows["t0", 0] = list(uids)
    kept.letters_of.update(zip(uids, (world.tables[0], MORE) * 2, strict=True))
    which = "_kafka_topic = 't0' AND _kafka_partition = 0 AND _kafka_offset >= 1 AND _kafka_offset < 4"
    delete(server, f"DELETE FROM `db`.`dead` WHERE {which} AND sink = 'sink' AND `table` = '{MORE}'")
    assert kept.rows["t0", 0] == [uids[0], uids[2]]
    server.remove(LETTERS, TopicPartition("t0", 0), OffsetRange(0, 2), letters_of=world.tables[0])
    assert kept.rows["t0", 0] == [uids[2]]


def test_a_reset_of_one_table_says_what_table_by_does_to_it() -> None:
    """⚑ If ``table_by`` changed in between, even cleanly, records of that table land twice or not at all."""
    world = chosen.World(CHOSEN_SEEDS[0], frozenset())
    world.run(STEPS)
    said: dict[str | None, str] = {}

    def person() -> None:
        for table in (None, world.tables[0]):
            services = services_of(world)
            found = plan_reset(services.clickhouse, services.store, world.first, [], table=table)
            said[table] = " ".join(found.says)

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
