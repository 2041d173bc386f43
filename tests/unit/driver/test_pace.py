"""The size of a round follows what rounds took."""

from __future__ import annotations

from chsink.driver.pace import PART, SURELY_PER_S, Pace

SENDS_S = 3_200
START = SENDS_S // PART * SURELY_PER_S


def test_it_starts_modest() -> None:
    assert Pace().most(SENDS_S) == START
    assert Pace().most(0.0001) == 1


def test_a_batch_without_any_range_teaches_nothing() -> None:
    pace = Pace()
    assert pace.most(0) == 1
    pace.took(0, 0.01, 0)
    assert pace.most(SENDS_S) == START


def test_a_slow_round_halves_it_and_there_is_always_one_offset() -> None:
    pace = Pace()
    pace.took(START, SENDS_S / PART + 1, SENDS_S)
    assert pace.most(SENDS_S) == START // 2
    pace.took(7, SENDS_S, SENDS_S)
    assert pace.most(SENDS_S) == 3
    for _ in range(3):
        pace.took(1, SENDS_S, SENDS_S)
    assert pace.most(SENDS_S) == 1


def test_a_fast_round_doubles_it_if_it_was_large_enough_to_tell() -> None:
    pace = Pace()
    pace.took(START // 3, 1, SENDS_S)
    assert pace.most(SENDS_S) == START
    pace.took(START, SENDS_S / PART / 2, SENDS_S)
    assert pace.most(SENDS_S) == START
    pace.took(START, 1, SENDS_S)
    assert pace.most(SENDS_S) == 2 * START
