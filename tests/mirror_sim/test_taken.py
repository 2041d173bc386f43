"""Tables that a Kafka Connect sink filled, taken over and gone on with: each record is in them once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mirror_sim.taken import ENOUGH_STEPS, RUNS
from tests.sim.runs import kept, parse_replay

pytestmark = pytest.mark.slow
STEPS = 12_000
KEPT = kept(Path(__file__).parent / "taken_regressions.txt")


def test_each_record_is_in_the_tables_once() -> None:
    """⚑ Whatever the sink left, wherever the takeover is killed, whenever somebody starts the mirror."""
    report = RUNS.campaign(1, STEPS)
    assert not report.failures, report.failures[0]
    assert report.counts["world at rest"] > report.worlds // 2, report.counts
    for what in ("files waited", "takeover killed", "early start refused"):
        assert report.counts[f"outcome {what}"], what


@pytest.mark.parametrize("line", KEPT)
def test_kept_seed(line: str) -> None:
    _, failure = RUNS.run_world(*parse_replay(line))
    assert failure is None, failure


@pytest.mark.soak
def test_a_longer_campaign_reaches_everything() -> None:
    report = RUNS.campaign(1_000, 5 * ENOUGH_STEPS)
    assert not report.failures, RUNS.shrink(report.failures[0])
    assert not report.missing()
