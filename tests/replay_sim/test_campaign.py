"""The simulator of replays in CI: a campaign, and a check that one seed gives one run.

``tests/sim/test_long_campaigns.py`` goes on until everything is reached.
"""

from __future__ import annotations

import pytest

from tests.replay_sim.campaign import RUNS
from tests.replay_sim.world import WORLD_STEPS

pytestmark = pytest.mark.slow
MAY_MISS = 8
"""How many items of 38 this campaign may miss."""


def test_a_campaign_breaks_nothing() -> None:
    report = RUNS.campaign(1, 30_000)
    assert not report.failures, str(report.failures[0])
    assert len(report.missing()) < MAY_MISS


def test_one_seed_is_one_run() -> None:
    first, again = (RUNS.run_world(seed, WORLD_STEPS)[0] for seed in (40, 40))
    assert first.hub.counts == again.hub.counts and first.hub.steps == again.hub.steps


@pytest.mark.parametrize("seed", [140, 530])
def test_who_answers_a_halt_while_other_replays_end_or_begin_loses_nothing(seed: int) -> None:
    """CHS-336 says to replay once more before rows are deleted: another replay may have marked them as landed."""
    world, broken = RUNS.run_world(seed, WORLD_STEPS)
    assert broken is None and world.hub.counts["world at rest"]
