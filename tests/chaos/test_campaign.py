"""The simulator's long run.  Ten million steps and more are run by hand, as docs/simulator.md says."""

from __future__ import annotations

import pytest

from tests.chaos.campaign import run

pytestmark = pytest.mark.slow


def test_a_million_steps_break_nothing_and_reach_everything() -> None:
    run("tests.sim", 1_000_000)
