"""The simulator of replays in CI: a campaign, and a check that one seed gives one run."""

from __future__ import annotations

import pytest

from tests.replay_sim.campaign import ENOUGH_STEPS, RUNS
from tests.replay_sim.world import WORLD_STEPS

pytestmark = pytest.mark.slow


def test_a_campaign_breaks_nothing_and_reaches_everything() -> None:
    report = RUNS.campaign(1, ENOUGH_STEPS)
    assert not report.failures, str(report.failures[0])
    assert not report.missing()


def test_one_seed_is_one_run() -> None:
    first, again = (RUNS.run_world(seed, WORLD_STEPS)[0] for seed in (40, 40))
    assert first.hub.counts == again.hub.counts and first.hub.steps == again.hub.steps


def test_a_list_that_another_replay_settled_meanwhile_is_decided_about_again() -> None:
    """CHS-337 meets a person whose --resend is slower than a replay that began later; what it says leads on."""
    world, broken = RUNS.run_world(140, WORLD_STEPS)
    assert broken is None and world.hub.counts["outcome CHS-337"] and world.hub.counts["world at rest"]
