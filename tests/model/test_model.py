"""The model in CI: small worlds break nothing, are explored whole, and reach everything; wrong variants are found."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.model.controls import CONTROLS
from tests.model.coverage import EXPECTED, missing
from tests.model.explored import Control
from tests.model.model import World
from tests.model.protocol import Rules
from tests.model.search import explore
from tests.model.services import INVARIANTS
from tests.model.worlds import WORLDS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FLOOR = 500_000
"""States of all worlds together, no fewer."""
FIRST = 3_000
"""Of a world, in ``make test``."""
BY_NAME = {world.name: world for world in WORLDS}


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: w.name)
def test_nothing_breaks_in_the_first_states_of_a_world(world: World) -> None:
    assert explore(world, limit=FIRST).found is None


@pytest.mark.soak
def test_every_world_is_explored_whole_and_nothing_breaks() -> None:
    """In this process, so that a failure shows its schedule."""
    counts: Counter[str] = Counter()
    states = 0
    for world in WORLDS:
        seen = explore(world)
        assert seen.found is None, f"{world.name}: {seen.found.invariant}: {seen.found.what}\n" + "\n".join(
            seen.found.trace
        )
        assert seen.whole, world.name
        states += seen.states
        counts.update(seen.counts)
    sys.stdout.write(f"model: worlds={len(WORLDS)} states={states}\n")
    assert states >= FLOOR
    assert missing(counts) == []


@pytest.mark.parametrize("control", CONTROLS, ids=lambda c: c.name)
def test_a_wrong_variant_is_found(control: Control[Rules]) -> None:
    control.check(explore(BY_NAME[control.world], control.rules).found)


def test_names_are_what_they_say() -> None:
    assert len(BY_NAME) == len(WORLDS)
    assert {c.invariant for c in CONTROLS} <= set(INVARIANTS)
    assert len(set(EXPECTED)) == len(EXPECTED)
    assert all(world.about for world in WORLDS)


def test_a_world_that_was_cut_short_says_so() -> None:
    seen = explore(BY_NAME["tasks"], limit=50)
    assert (seen.states, seen.whole, seen.found) == (50, False, None)
    assert "cell NEW/BEFORE" in missing(seen.counts)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "tests.model", *arguments]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_command_prints_how_many_states_were_explored() -> None:
    done = command("--world", "shards changed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "model: worlds=1 states=" in done.stdout.splitlines()[-1] and "broken=0" in done.stdout


def test_the_command_shows_the_schedule_that_broke_it() -> None:
    done = command("--control", "no token")
    assert done.returncode == 1
    assert done.stdout.startswith("BROKEN at_most_once: ") and "driver 1: announced" in done.stdout


def test_the_command_lists_worlds_and_controls() -> None:
    done = command("--list")
    assert done.returncode == 0
    assert all(w.name in done.stdout for w in WORLDS) and all(c.name in done.stdout for c in CONTROLS)
