"""The mirror's model in CI: small worlds break nothing and are explored whole; wrong variants are found."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mirror_model.controls import CONTROLS
from tests.mirror_model.coverage import EXPECTED, NOT_HERE, RULES, missing
from tests.mirror_model.faults import FAULTS, STEPWISE
from tests.mirror_model.rules import INVARIANTS, Rules, World
from tests.mirror_model.search import explore
from tests.mirror_model.worlds import WORLDS
from tests.model.explored import Control

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FLOOR = 80_000
"""States of all worlds together, no fewer."""
FIRST = 2_000
"""Of a world, in ``make test``."""
BY_NAME = {world.name: world for world in WORLDS}


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: w.name)
def test_nothing_breaks_in_the_first_states_of_a_world(world: World) -> None:
    assert explore(world, limit=FIRST).found is None


@pytest.mark.soak
def test_every_world_is_explored_whole_and_nothing_breaks() -> None:
    counts: Counter[str] = Counter()
    states = 0
    for world in WORLDS:
        seen = explore(world)
        assert seen.found is None, f"{world.name}: {seen.found}"
        assert seen.whole, world.name
        assert seen.counts["rest"], world.name
        states += seen.states
        counts.update(seen.counts)
    sys.stdout.write(f"mirror model: worlds={len(WORLDS)} states={states}\n")
    assert states >= FLOOR
    assert missing(counts) == []


@pytest.mark.parametrize("control", CONTROLS, ids=lambda c: c.name)
def test_a_wrong_variant_is_found(control: Control[Rules]) -> None:
    control.check(explore(BY_NAME[control.world], control.rules).found)


def test_names_are_what_they_say() -> None:
    assert len(BY_NAME) == len(WORLDS)
    assert {c.invariant for c in CONTROLS} <= set(INVARIANTS)
    assert len(set(EXPECTED)) == len(EXPECTED)
    assert set(NOT_HERE) < set(RULES)
    assert {name for world in WORLDS for name in world.faults} == {*FAULTS, *STEPWISE}


def test_the_command_prints_how_many_states_were_explored() -> None:
    line = [sys.executable, "-m", "tests.mirror_model", "--world", "topic recreated"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mirror model: worlds=1 states=" in done.stdout.splitlines()[-1] and "broken=0" in done.stdout


def test_the_command_shows_the_schedule_that_broke_it() -> None:
    line = [sys.executable, "-m", "tests.mirror_model", "--control", "no chain"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("BROKEN at_most_once: ") and "handed over" in done.stdout
