"""The patch that runs Replicated tables in tests is for one build of the engine: the one that is pinned."""

from __future__ import annotations

from tests.conftest import CHECKOUT
from tests.support.replicas.engine import PACKAGE, VERSION, why_not


def test_the_pinned_engine_is_the_one_that_the_patch_is_for() -> None:
    """If it fails after a new version was pinned: the tests of Replicated tables would be skipped from now on."""
    assert f"{PACKAGE}=={VERSION}" in (CHECKOUT / "requirements.lock").read_text(encoding="utf-8").splitlines()


def test_the_reason_is_loud_where_they_cannot_run() -> None:
    assert why_not() == "" or why_not().startswith("NOT RUN: ")
