"""The decision table in the docs is generated from the code that decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from chsink.statemachine.render import BEGIN, END, decision_table, page

PAGE = (Path(__file__).parents[3] / "docs" / "how-a-batch-survives.md").read_text(encoding="utf-8")


def test_the_page_is_what_the_code_says() -> None:
    assert decision_table() in PAGE
    assert page(PAGE) == PAGE, "run: make docs"


def test_an_old_table_is_replaced_and_the_rest_stays() -> None:
    assert page(f"before\n{BEGIN}old\n{END}after\n") == f"before\n{BEGIN}\n{decision_table()}\n{END}after\n"


def test_a_page_without_a_place_is_not_changed() -> None:
    with pytest.raises(AssertionError, match="no place"):
        page("# No place\n")
