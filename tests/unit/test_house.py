"""The house stays one that a head can hold: each figure of ``python -m tests.house`` is in its bound."""

from __future__ import annotations

import pytest

from tests import house


@pytest.mark.parametrize("name", house.BOUNDS)
def test_a_figure_is_in_its_bound(name: str) -> None:
    assert house.figures()[name] <= house.BOUNDS[name], "see `python -m tests.house`"


def test_each_figure_counts_something() -> None:
    """A measure that finds nothing because a file moved would bound nothing."""
    assert {"piece", "BEFORE"} <= set(house.words())
    assert house.fields_of_the_record()
    assert {"chsink", "chsink/batch", "statemachine/commit"} <= house.lines_by_room().keys()
    imports = {(house.folder_of(file), to) for file, tree in house.sources() for to in house.imported(tree)}
    assert {("chsink.clickhouse.checks", "chsink.clickhouse"), ("chsink.batch", "chsink.statemachine")} <= imports


def test_circles_of_any_length_are_found() -> None:
    ring = {("a", "b"), ("b", "c"), ("c", "a")}
    assert house.in_circles({*ring, ("a", "d"), ("e", "a"), ("a", "a")}) == sorted(ring)
    assert house.in_circles({("a", "b"), ("b", "c"), ("a", "c")}) == []
