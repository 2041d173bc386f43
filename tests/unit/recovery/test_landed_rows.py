"""What of a range in doubt has neither a row nor a dead letter, in words."""

from __future__ import annotations

import pytest

from chsink.errors import halts
from chsink.recovery.landed_rows import LandedRows
from chsink.statemachine.ranges import OffsetRange

THERE = {0: 1 << 60 | 1 << 63, 1: 2**64 - 1, 3: 1}
"""Offsets 60, 63, 64 to 127, and 192."""


@pytest.mark.parametrize(
    ("start", "end", "none"),
    [(60, 64, 2), (61, 63, 2), (63, 64, 0), (0, 200, 200 - 67), (100, 130, 2), (128, 192, 64), (300, 310, 10)],
)
def test_offsets_without_a_row_are_counted(start: int, end: int, none: int) -> None:
    said = LandedRows("d.t", 67, bits=THERE).lacking(OffsetRange(start, end))
    assert f"of the {end - start} offsets [{start}, {end}), {none} have no row" in said


def test_a_table_that_does_not_tell() -> None:
    assert LandedRows("d.t").lacking(OffsetRange(0, 9)) == "chsink cannot tell how many of its records have no row"


def test_views_that_nobody_could_read_may_lack_rows_too() -> None:
    """⚑ where the rows could not be counted, --landed said nothing of views, which had not received them."""
    trouble = halts.NO_STATE(sink="s")
    assert LandedRows("d.t", 3, views=("d.v",)).may_lack == ("d.v",)
    assert not LandedRows("d.t", 3).may_lack
    assert (
        LandedRows("d.t", trouble=trouble).may_lack
        == LandedRows("d.t", routed=False).may_lack
        == ["any that depend on d.t"]
    )
