"""``python -m tests.replay_sim``: worlds of replays; its options are those of ``python -m tests.sim``."""

from __future__ import annotations

import sys

from tests.replay_sim.campaign import ENOUGH_STEPS, RUNS, SECTIONS
from tests.sim.__main__ import main

if __name__ == "__main__":
    sys.exit(main(RUNS, SECTIONS, ENOUGH_STEPS))
