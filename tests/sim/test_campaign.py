"""The simulator in CI: some hundred worlds, the kept seeds, and a check that one seed gives one run.

``test_long_campaigns.py`` goes on until everything is reached.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.sim import lost
from tests.sim.campaign import RUNS
from tests.sim.oracle import INVARIANTS
from tests.sim.runs import Failure, kept, parse_replay
from tests.sim.world import World

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
KEPT = kept(Path(__file__).parent / "regressions.txt")
STEPS = 30_000
REACHED = 120
"""How many items this campaign must reach, of those that a million steps must reach."""


def simulator(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "tests.sim", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_a_campaign_breaks_nothing() -> None:
    done = simulator("--seed", "1", "--steps", str(STEPS))
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    said = dict(word.split("=") for word in done.stdout.splitlines()[-1].split() if "=" in word)
    assert said["broken"] == "0" and int(said["reached"].split("/")[0]) >= REACHED


def test_state_that_is_lost_in_many_worlds_is_rebuilt() -> None:
    """⚑ No record is lost or doubled, wherever the crash was, and whatever an operator is told to do then."""
    report = lost.RUNS.campaign(1001, 40_000, max_failures=1)
    assert report.failures == [], report.failures[0]
    assert report.missing() == []


@pytest.mark.parametrize("line", KEPT)
def test_kept_seed(line: str) -> None:
    _, failure = RUNS.run_world(*parse_replay(line))
    assert failure is None, failure


@pytest.mark.soak
def test_one_seed_is_one_run_whatever_the_hash_seed() -> None:
    """Two processes with different string hashes, over worlds with two topics, two drivers and all faults."""
    runs = [simulator("--seed", "40", "--steps", "8000", hash_seed=h) for h in ("0", "1")]
    lines = [[line for line in r.stdout.splitlines() if not line.startswith("simulator:")] for r in runs]
    summaries = [r.stdout.splitlines()[-1].rsplit(" ", 1)[0] for r in runs]
    assert lines[0] == lines[1]
    assert summaries[0] == summaries[1] and "broken=0" in summaries[0]


def trace(seed: int) -> tuple[Counter[str], int, int, list[tuple[int, str]]]:
    world = World(seed)
    world.run(600)
    return world.hub.counts, world.hub.steps, world.hub.now, world.hub.fired


def test_another_seed_is_another_run() -> None:
    assert trace(3) == trace(3)
    assert trace(3) != trace(4)


def test_faults_that_are_not_kept_do_not_happen() -> None:
    world, failure = RUNS.run_world(3, 600, keep=())
    assert failure is None
    assert world.hub.fired == []


def test_a_run_that_reached_nothing_fails() -> None:
    assert simulator("--seed", "1", "--steps", "300", "--expect-all").returncode == 1
    assert "cell NEW/BEFORE" in RUNS.report().missing()


@pytest.mark.soak
def test_a_failing_world_is_shrunk_and_can_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink that never asks what its table remembers: few of the faults that happened are needed to show it."""
    monkeypatch.setattr("chsink.clickhouse.writer.ShardWriter._check_table", lambda *_: None)
    monkeypatch.setattr("chsink.clickhouse.window.DedupWindow.must_probe", lambda *_: False)
    report = RUNS.campaign(21, 150_000, max_failures=4)
    doubled = [failure for failure in report.failures if failure.invariant == "at_most_once"]
    assert doubled, "the defect was not found"
    many = max(doubled, key=lambda failure: len(failure.faults))
    small = RUNS.shrink(many)
    assert small.invariant == "at_most_once"
    assert len(small.faults) < len(many.faults)
    _, again = RUNS.run_world(*parse_replay(small.replay))
    assert again is not None
    assert (again.invariant, again.what) == (small.invariant, small.what)


@pytest.mark.parametrize("keep", [None, (), (1, 5)])
def test_replay_line(keep: tuple[int, ...] | None) -> None:
    failure = Failure(7, 300, keep, INVARIANTS[0], "")
    assert parse_replay(failure.replay + "  # found when") == (7, 300, keep)
