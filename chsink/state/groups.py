"""Splits a write of many rows into statements that a Keeper accepts: by bytes and by number, in order.

A statement becomes one Keeper transaction.  A Keeper refuses packets over 1 MiB (``jute.maxbuffer``) by dropping the
connection, so the limits are well below that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

MAX_BYTES = 512 * 1024
MAX_ROWS = 1_000
T = TypeVar("T")


def cut(items: Sequence[T], size: Callable[[T], int]) -> Iterator[Sequence[T]]:
    """Groups of at most ``MAX_ROWS`` items and ``MAX_BYTES``; ``size`` gives an item's bytes in the statement."""
    start = total = 0
    for i, item in enumerate(items):
        weight = size(item)
        assert weight <= MAX_BYTES, f"a state row of {weight} bytes does not fit a statement"
        if i > start and (total + weight > MAX_BYTES or i - start == MAX_ROWS):
            yield items[start:i]
            start, total = i, 0
        total += weight
    if start < len(items):
        yield items[start:]


def write_in_groups(items: Sequence[T], size: Callable[[T], int], write: Callable[[Sequence[T]], bool]) -> bool:
    """Write group by group; stop at the first one that is not known to be applied."""
    return all(write(group) for group in cut(items, size))


def utf8(text: str) -> int:
    """Bytes of the text."""
    return len(text.encode())
