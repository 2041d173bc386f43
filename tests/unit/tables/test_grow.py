"""Which columns one server's table has behind those that all have."""

from __future__ import annotations

import pytest

from chsink.decode.columns import Column
from chsink.tables.grow import _behind


@pytest.mark.parametrize(
    ("names", "common", "behind"),
    [
        ("abxy", "ab", "xy"),
        ("axby", "ab", "y"),
        ("axb", "ab", ""),
        ("xy", "", "xy"),
        ("", "", ""),
    ],
)
def test_only_last_columns_are_given_to_the_others(names: str, common: str, behind: str) -> None:
    """⚑ A column between others was dropped or renamed on one server by a person, who comes to the next server soon."""
    columns = [Column(name, "Int8") for name in names]
    assert "".join(c.name for c in _behind(columns, set(common))) == behind
