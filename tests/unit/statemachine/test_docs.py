"""The decision table in the docs is drawn from the code that decides."""

from __future__ import annotations

from pathlib import Path

from chsink.statemachine.render import page

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_what_the_code_says() -> None:
    """Written anew by ``python -m chsink.statemachine.render > docs/decision-table.md``."""
    assert (DOCS / "decision-table.md").read_text(encoding="utf-8") == page()
