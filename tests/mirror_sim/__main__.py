"""``python -m tests.mirror_sim``: the mirror's worlds; its options are those of ``python -m tests.sim``."""

from __future__ import annotations

import sys

from tests.mirror_sim.campaign import ENOUGH_STEPS, RUNS, SECTIONS
from tests.sim.__main__ import main

if __name__ == "__main__":
    sys.exit(main(RUNS, SECTIONS, ENOUGH_STEPS))
