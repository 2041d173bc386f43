"""The long run of the mirror's simulator."""

from __future__ import annotations

import pytest

from tests.chaos.campaign import run

pytestmark = pytest.mark.slow


def test_half_a_million_steps_of_the_mirror_break_nothing_and_reach_everything() -> None:
    run("tests.mirror_sim", 500_000)
