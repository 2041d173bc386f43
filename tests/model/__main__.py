"""Explore every small world whole (see :mod:`tests.model.command`)."""

from __future__ import annotations

import sys

from tests.model.command import Model
from tests.model.controls import CONTROLS
from tests.model.coverage import CELLS, EXPECTED, FAULTS, OUTCOMES, missing
from tests.model.model import REASONS
from tests.model.search import explore
from tests.model.worlds import WORLDS

KINDS = {"decision table": CELLS, "faults": FAULTS, "halts": list(REASONS), "outcomes": OUTCOMES}

if __name__ == "__main__":
    sys.exit(Model("tests.model", "model", WORLDS, CONTROLS, explore, EXPECTED, missing, KINDS).main())
