"""Explore every small world of the mirror whole (see :mod:`tests.model.command`)."""

from __future__ import annotations

import sys

from tests.mirror_model.controls import CONTROLS
from tests.mirror_model.coverage import EXPECTED, missing
from tests.mirror_model.search import explore
from tests.mirror_model.worlds import WORLDS
from tests.model.command import Model

if __name__ == "__main__":
    sys.exit(Model("tests.mirror_model", "mirror model", WORLDS, CONTROLS, explore, EXPECTED, missing).main())
