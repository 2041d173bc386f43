"""Long runs of the simulators: nothing breaks, and all that they have to reach is reached."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]


CAMPAIGNS = {
    "tests.sim": (7420000301, 220_000),
    "tests.mirror_sim": (5000, 200_000),
    "tests.replay_sim": (1, 100_000),
}
"""The first seed, and how many steps at least: they go on until everything is reached, which takes a different number
from each seed on.
"""


@pytest.fixture(scope="module")
def campaigns() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """All at once, beside the other files."""
    running = {module: campaign(module, *which) for module, which in CAMPAIGNS.items()}
    yield running
    for process in running.values():
        process.kill()
        process.wait()


def campaign(module: str, seed: int, steps: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", module, "--seed", str(seed), "--steps", str(steps), "--expect-all"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("module", CAMPAIGNS)
def test_a_long_campaign_breaks_nothing_and_reaches_everything(
    campaigns: dict[str, subprocess.Popen[str]], module: str
) -> None:
    said, _ = campaigns[module].communicate()
    assert campaigns[module].returncode == 0, said[-4000:]
    assert "broken=0" in said
