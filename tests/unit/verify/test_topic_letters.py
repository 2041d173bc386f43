"""Which of an offset's dead letters in a topic count, where a person had its record delivered again."""

from __future__ import annotations

import numpy as np

from chsink.statemachine.ranges import OffsetRange
from chsink.verify.topic_letters import _Read

ALL = OffsetRange(0, 100)


def read(*letters: tuple[int, int]) -> _Read:
    """(offset, nonce) in the order in which they were read; digests are their positions."""
    offsets, nonces = (np.array(column, np.int64) for column in zip(*letters, strict=True))
    return _Read(offsets, nonces, offsets, np.arange(len(letters)))  # type: ignore[arg-type]


def part(letters: _Read, window: OffsetRange = ALL, present: int = 1) -> list[tuple[int, int]]:
    offsets, _, digests = letters.part(window, present)
    return list(zip(offsets.tolist(), digests.tolist(), strict=True))


def test_those_of_the_present_nonce_count() -> None:
    assert part(read((5, 1), (5, 0))) == [(5, 0)]
    assert part(read((5, 0), (5, 1))) == [(5, 1)]


def test_without_the_present_nonce_those_that_were_read_last_count() -> None:
    assert part(read((5, 2), (5, 3), (6, 2))) == [(5, 1), (6, 2)]


def test_two_of_one_nonce_both_count() -> None:
    """⚑ A dead letter that was delivered twice is found."""
    assert part(read((5, 1), (7, 0), (5, 1))) == [(5, 0), (7, 1), (5, 2)]


def test_only_those_of_the_window_count() -> None:
    assert part(read((4, 1), (5, 1), (6, 1)), OffsetRange(5, 6)) == [(5, 1)]
    assert part(read((4, 1)), OffsetRange(5, 6)) == []
