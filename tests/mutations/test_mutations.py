"""No deliberate defect of production code survives, and without it the same run is green."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mirror_sim.oracle import INVARIANTS as MIRROR_INVARIANTS
from tests.model.search import explore
from tests.model.services import INVARIANTS as MODEL_INVARIANTS
from tests.model.worlds import WORLDS
from tests.mutations.defects import Defect
from tests.mutations.every import DEFECTS
from tests.mutations.patching import path_of
from tests.mutations.render import table
from tests.mutations.running import in_child, tried
from tests.mutations.seek import first_shown, with_seed
from tests.mutations.simulated import run_seed
from tests.replay_sim.oracle import INVARIANTS as REPLAY_INVARIANTS
from tests.sim.oracle import INVARIANTS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


SOME = [pytest.param(d, marks=() if n % 24 == 0 else pytest.mark.soak, id=d.name) for n, d in enumerate(DEFECTS)]
"""One in 24 for ``make test``; ``make soak`` runs the others."""


@pytest.mark.parametrize("defect", SOME)
def test_a_defect_is_caught_by_a_named_invariant(defect: Defect) -> None:
    invariant, what = in_child(tried, defect.name)
    assert invariant == defect.invariant, what
    assert defect.test in (None, what)


def test_the_command_says_what_caught_a_defect() -> None:
    defect = next(d for d in DEFECTS if d.simulated)
    line = [sys.executable, "-m", "tests.mutations", defect.name]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-2000:]}"
    assert done.stdout.splitlines()[-1].startswith(f"{defect.invariant}: ")


@pytest.mark.soak
@pytest.mark.parametrize("defect", [d for d in DEFECTS if d.simulated], ids=lambda d: d.name)
def test_without_the_defect_its_seed_is_green(defect: Defect) -> None:
    assert run_seed(defect.seed, defect.often, defect.of) == (None, f"seed {defect.seed}")


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted({d.world for d in DEFECTS if d.world is not None}))
def test_without_a_defect_the_world_is_green(name: str) -> None:
    """As far as a defect is found; :mod:`tests.model.test_model` explores it whole."""
    found = explore(next(w for w in WORLDS if w.name == name), limit=20_000).found
    assert found is None, found


def test_the_list_is_long_enough_and_names_invariants() -> None:
    assert len(DEFECTS) >= 16 and sum(d.of == "mirror" for d in DEFECTS) >= 12
    assert len({d.name for d in DEFECTS}) == len(DEFECTS)
    for defect in DEFECTS:
        assert defect.test is None or (not defect.invariant and defect.test.startswith("tests/"))
        simulated = {"mirror": MIRROR_INVARIANTS, "taken": MIRROR_INVARIANTS, "replays": REPLAY_INVARIANTS}.get(
            defect.of, INVARIANTS
        )
        assert defect.test is not None or defect.invariant in (simulated if defect.simulated else MODEL_INVARIANTS)
        assert all(path_of(c.where).startswith(("chsink/", "statemachine/")) for c in defect.changes)


def test_the_page_shows_the_list() -> None:
    page = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")
    assert table() in page, "run python -m tests.mutations.render"


def test_a_seed_is_sought_where_the_recorded_one_shows_nothing() -> None:
    defect = next(d for d in DEFECTS if d.name == "no token")
    found = in_child(first_shown, defect.name, 1, 40)
    assert found is not None and found <= defect.seed
    assert in_child(first_shown, defect.name, 1, found - 1) is None


def test_the_new_seed_of_a_defect_is_written_to_the_list() -> None:
    text = (ROOT / "tests" / "mutations" / "defects.py").read_text(encoding="utf-8")
    changed = with_seed(text, "no token", 77_777)
    assert [new for old, new in zip(text.splitlines(), changed.splitlines(), strict=True) if old != new] == [
        "        seed=77777,"
    ]
    with pytest.raises(AssertionError, match="topic recreated|token without"):
        with_seed(text, "token without the incarnation's nonce", 1)
