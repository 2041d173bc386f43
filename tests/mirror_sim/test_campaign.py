"""The mirror's simulator in CI: a campaign, and a check that one seed gives one run.

``tests/sim/test_long_campaigns.py`` runs eight times as many steps, which must reach everything.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mirror_sim.campaign import RUNS
from tests.sim.runs import kept, parse_replay

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
STEPS = 25_000
KEPT = kept(Path(__file__).parent / "regressions.txt")
REACHED = 60
"""How many items this campaign must reach, of those that the one of ``make soak`` must reach."""


def simulator(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "tests.mirror_sim", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_a_campaign_breaks_nothing() -> None:
    done = simulator("--seed", "1", "--steps", str(STEPS))
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    said = dict(word.split("=") for word in done.stdout.splitlines()[-1].split() if "=" in word)
    assert said["broken"] == "0" and int(said["reached"].split("/")[0]) >= REACHED


@pytest.mark.parametrize("line", KEPT)
def test_kept_seed(line: str) -> None:
    _, failure = RUNS.run_world(*parse_replay(line))
    assert failure is None, failure


@pytest.mark.soak
def test_one_seed_is_one_run_whatever_the_hash_seed() -> None:
    runs = [simulator("--seed", "40", "--steps", "3000", hash_seed=h) for h in ("0", "1")]
    lines = [[line for line in r.stdout.splitlines() if not line.startswith("simulator:")] for r in runs]
    summaries = [r.stdout.splitlines()[-1].rsplit(" ", 1)[0] for r in runs]
    assert lines[0] == lines[1]
    assert summaries[0] == summaries[1] and "broken=0" in summaries[0]


@pytest.mark.soak
def test_a_failing_world_is_shrunk_and_can_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that takes units whatever the chain says."""
    monkeypatch.setattr("chsink.statemachine.commit.plan.Eligibility.until", property(lambda x: x.a))
    report = RUNS.campaign(1, 60_000, max_failures=3)
    assert report.failures, "the defect was not found"
    many = max(report.failures, key=lambda failure: len(failure.faults))
    small = RUNS.shrink(many)
    assert small.invariant == many.invariant and len(small.faults) <= len(many.faults)
    _, again = RUNS.run_world(*parse_replay(small.replay))
    assert again is not None and (again.invariant, again.what) == (small.invariant, small.what)
    assert "python -m tests.mirror_sim --replay" in str(small)
