"""Finds the elements of arrays whose ends are known, in all records at once.

Texts lie between the quotes of an array, a comma between each two.  Numbers are what is left without commas.  Objects
begin where the text before their first value stands.  That they follow each other, and fill the array, is then checked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from chsink.decode.block_bytes import BlockBytes, BytePositions
from chsink.decode.codec import Mask
from chsink.decode.prefilter import window


@dataclass(frozen=True, slots=True)
class Inside:
    """Parts of a block: where they start and end, and the number of the first quote not before each."""

    starts: BytePositions
    ends: BytePositions
    firsts: BytePositions


@dataclass(frozen=True, slots=True)
class ElementsFound:
    """``counts`` of the elements of each array; where they are (``at``), or ``texts`` of numbers.  ``wrong``: the
    arrays that are written in another way, whose elements are arbitrary.
    """

    counts: BytePositions
    wrong: Mask
    at: Inside
    texts: pa.Array | None = None

    def arrays_of(self, elements: Mask) -> BytePositions:
        """The arrays in which these elements are."""
        return np.repeat(np.arange(len(self.counts)), self.counts)[elements]


_NOWHERE = np.zeros(0, np.intp)


def texts_inside(block: BlockBytes, arrays: Inside, last: BytePositions, between: bytes) -> ElementsFound:
    """The texts of each array, without their quotes; ``last``: the number of the first quote not inside it."""
    counts, odd = np.divmod(np.maximum(last - arrays.firsts, 0), 2)
    number = _within(arrays.firsts, counts, 2)
    starts, ends = block.quotes[number], block.quotes[number + 1] + 1
    wrong = _not_filled(block, arrays, counts, Inside(starts, ends, number), between) | (odd != 0)
    return ElementsFound(counts, wrong, Inside(starts + 1, ends - 1, number))


def objects_inside(block: BlockBytes, arrays: Inside, between: bytes, before: bytes, quotes: int) -> ElementsFound:
    """The objects of each array; ``before``: the text at the start of each, which has so many ``quotes`` if it has
    every member.
    """
    starts = block.braces
    starts = starts[block.matches(starts, before)]
    first = np.searchsorted(starts, arrays.starts)
    counts = np.searchsorted(starts, arrays.ends) - first
    if int(counts.sum()) < len(starts):
        starts = starts[_within(first, counts, 1)]
    ends = np.append(starts[1:] - len(between), 0)[: len(starts)]
    given = counts > 0
    ends[np.cumsum(counts)[given] - 1] = arrays.ends[given]
    firsts = _within(arrays.firsts, counts, quotes)
    if (firsts >= len(block.quotes)).any() or (block.quotes[firsts] != starts + before.index(b'"')).any():
        firsts = np.searchsorted(block.quotes, starts)
    at = Inside(starts, ends, firsts)
    return ElementsFound(counts, _not_filled(block, arrays, counts, at, between), at)


def numbers_inside(block: BlockBytes, arrays: Inside) -> ElementsFound:
    """The texts of each array's numbers.  They may be anything without a comma; a blank behind a comma is left out."""
    every = np.ones(len(arrays.starts), np.bool_)
    offsets, data = window(block.texts(arrays.starts, arrays.ends, every))
    commas = np.flatnonzero(data == ord(","))
    seen, given = np.searchsorted(commas, offsets), offsets[1:] > offsets[:-1]
    counts = np.diff(seen) + given
    last = np.zeros(len(commas) + int(given.sum()), np.bool_)
    last[np.cumsum(counts)[given] - 1] = True
    ends = np.empty(len(last), np.intp)
    ends[last], ends[~last] = offsets[1:][given], commas
    kept = np.ones(len(data), np.bool_)
    kept[commas] = False
    blanks = commas[commas + 1 < len(data)] + 1
    kept[blanks[data[blanks] == ord(" ")]] = False
    left = np.concatenate(([0], np.cumsum(kept, dtype=np.int32)))
    cut = np.concatenate(([0], left[ends])).astype(np.int32)
    texts = pa.Array.from_buffers(pa.string(), len(ends), [None, pa.py_buffer(cut), pa.py_buffer(data[kept])])
    return ElementsFound(counts, np.zeros(len(counts), np.bool_), Inside(_NOWHERE, _NOWHERE, _NOWHERE), texts)


def _within(firsts: BytePositions, counts: BytePositions, step: int) -> BytePositions:
    """So many numbers from each first one on."""
    behind = np.cumsum(counts)
    numbers: BytePositions = np.repeat(firsts - (behind - counts) * step, counts)
    numbers += np.arange(len(numbers)) * step
    return numbers


def _not_filled(block: BlockBytes, arrays: Inside, counts: BytePositions, elements: Inside, between: bytes) -> Mask:
    """The arrays that are not these elements with the text between each two."""
    given = counts > 0
    wrong: Mask = ~given & (arrays.starts != arrays.ends)
    if not len(elements.starts):
        return wrong
    behind = np.cumsum(counts)[given]
    first = behind - counts[given]
    wrong[given] = (elements.starts[first] != arrays.starts[given]) | (elements.ends[behind - 1] != arrays.ends[given])
    follows = elements.starts[1:] == elements.ends[:-1] + len(between)
    follows &= block.matches(elements.ends[:-1], between)
    follows[behind[:-1] - 1] = True
    if not follows.all():
        of = np.repeat(np.arange(len(counts)), counts)
        wrong[of[1:][~follows]] = True
    return wrong
