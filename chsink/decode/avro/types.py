"""Avro's composite types: unions, arrays, maps and records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chsink.decode.avro.scalars import AvroNull, AvroType
from chsink.decode.binary import TRUNCATED, Cursors, Positions

LEFT_OVER: Final = "bytes are left after the last field"
EMPTY_ITEMS: Final = 1000
"""A block may hold this many items more than its record has bytes, because nulls take no bytes."""
RECURSIVE: Final = "a value of a recursive type, which no column holds"
_NONE: Final[Positions] = np.zeros(0, np.int64)


class AvroUnion(AvroType):
    """The number of a branch, then its value.  A union of null and one other type is read as that type with nulls; any
    other union as a dense union.
    """

    def __init__(self, branches: Sequence[AvroType]) -> None:
        self._branches = tuple(branches)
        others = [at for at, branch in enumerate(branches) if not isinstance(branch, AvroNull)]
        self._only = others[0] if len(others) == 1 else None

    @property
    def arrow(self) -> pa.DataType:
        """The nullable type, or a dense union of the branches' types."""
        if self._only is not None:
            return self._branches[self._only].arrow
        return pa.dense_union([pa.field(str(at), branch.arrow) for at, branch in enumerate(self._branches)])

    def _branch(self, c: Cursors) -> Positions:
        number = c.zigzag()
        wrong = (number < 0) | (number >= len(self._branches))
        c.fault(wrong, "a union's number without a branch")
        return np.where(wrong, -1, number) if wrong.any() else number

    def read(self, c: Cursors) -> pa.Array:
        """Values with nulls, or the values of a union."""
        number = self._branch(c)
        if self._only is not None:
            return self._nullable(c, number == self._only, self._branches[self._only])
        number = np.maximum(number, 0)  # any valid number will do for a wrong message
        offsets = np.zeros(len(c), np.int32)
        children = []
        for at, branch in enumerate(self._branches):
            mine = np.flatnonzero(number == at)
            offsets[mine] = np.arange(len(mine))
            part = c.some(mine)
            children.append(branch.read(part))
            c.pos[mine] = part.pos
        names = [str(at) for at in range(len(children))]
        return pa.UnionArray.from_dense(pa.array(number.astype(np.int8)), pa.array(offsets), children, names)

    def _nullable(self, c: Cursors, given: npt.NDArray[np.bool_], branch: AvroType) -> pa.Array:
        if given.all():
            return branch.read(c)
        mine = np.flatnonzero(given)
        part = c.some(mine)
        values = branch.read(part)
        c.pos[mine] = part.pos
        back = np.zeros(len(c), np.int64)
        back[mine] = np.arange(len(mine))
        return values.take(pa.array(back, mask=~given))

    def skip(self, c: Cursors) -> None:
        """Skip the value of each cursor's branch."""
        number = self._branch(c)
        for at, branch in enumerate(self._branches):
            mine = np.flatnonzero(number == at)
            if len(mine):
                part = c.some(mine)
                branch.skip(part)
                c.pos[mine] = part.pos


def _each_item(c: Cursors, item: Callable[[Cursors], None]) -> Positions:
    """Call ``item`` for the items of each cursor's array or map: first items, then second ones, and so on.  Returns the
    cursor of each item, in the order read.
    """
    left = np.zeros(len(c), np.int64)
    active = np.arange(len(c))
    owners: list[Positions] = []
    while len(active):
        begin = active[left[active] == 0]
        if len(begin):
            left[begin] = _block(c, begin)
            active = active[left[active] > 0]
        part = c.some(active)
        item(part)
        c.pos[active] = part.pos
        owners.append(active)
        left[active] -= 1
        over = active[part.pos >= part.end]  # truncated: an end marker must follow the last item
        if len(over):
            ended = c.some(over)
            ended.fault(np.ones(len(over), np.bool_), TRUNCATED)
            left[over] = 0
            active = active[part.pos < part.end]
    return np.concatenate(owners) if owners else _NONE


def _block(c: Cursors, at: Positions) -> Positions:
    """The number of items in the next block of each cursor."""
    part = c.some(at)
    count = part.zigzag()
    sized = np.flatnonzero(count < 0)  # a negative count is followed by the block's size in bytes
    if len(sized):
        inner = part.some(sized)
        inner.zigzag()
        part.pos[sized] = inner.pos
        count[sized] = -count[sized]
    wrong = (count < 0) | (count > part.end - part.pos + EMPTY_ITEMS)
    part.fault(wrong, "an array or map with more items than the record has bytes")
    c.pos[at] = part.pos
    return np.where(wrong, 0, count)


class AvroArray(AvroType):
    """Blocks of items."""

    def __init__(self, item: AvroType) -> None:
        self._item = item

    @property
    def arrow(self) -> pa.DataType:
        """A list."""
        return pa.list_(self._item.arrow)

    def read(self, c: Cursors) -> pa.Array:
        """Lists."""
        items: list[pa.Array] = []
        owners = _each_item(c, lambda part: items.append(self._item.read(part)))
        offsets, values = _gathered(len(c), owners, items or [self._item.read(c.some(_NONE))])
        return pa.ListArray.from_arrays(offsets, values, type=self.arrow)

    def skip(self, c: Cursors) -> None:
        """Skip every item."""
        _each_item(c, self._item.skip)


class AvroMap(AvroType):
    """Blocks of keys, which are strings, and values."""

    def __init__(self, key: AvroType, value: AvroType) -> None:
        self._key = key
        self._value = value

    @property
    def arrow(self) -> pa.DataType:
        """A map."""
        return pa.map_(self._key.arrow, self._value.arrow)

    def read(self, c: Cursors) -> pa.Array:
        """Maps, with entries in the record's order and repeated keys kept."""
        keys: list[pa.Array] = []
        values: list[pa.Array] = []

        def pair(part: Cursors) -> None:
            keys.append(self._key.read(part))
            values.append(self._value.read(part))

        owners = _each_item(c, pair)
        if not keys:
            pair(c.some(_NONE))
        offsets, all_keys = _gathered(len(c), owners, keys)
        return pa.MapArray.from_arrays(offsets, all_keys, _gathered(len(c), owners, values)[1], type=self.arrow)

    def skip(self, c: Cursors) -> None:
        """Skip every pair."""

        def pair(part: Cursors) -> None:
            self._key.skip(part)
            self._value.skip(part)

        _each_item(c, pair)


def _gathered(size: int, owners: Positions, items: Sequence[pa.Array]) -> tuple[pa.Array, pa.Array]:
    """The offsets of each owner's items, and the items sorted by owner."""
    counts = np.bincount(owners, minlength=size) if len(owners) else np.zeros(size, np.int64)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    values = items[0] if len(items) == 1 else pa.concat_arrays(items).take(pa.array(np.argsort(owners, kind="stable")))
    return pa.array(offsets), values


class AvroRecord(AvroType):
    """The fields' values, one after the other."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: tuple[tuple[str, AvroType], ...] = ()
        self.complete = False

    @property
    def arrow(self) -> pa.StructType:
        """A struct."""
        return pa.struct([pa.field(name, kind.arrow) for name, kind in self.fields])

    def read(self, c: Cursors) -> pa.Array:
        """Structs."""
        columns = self.columns(c, {name for name, _ in self.fields})
        if not columns:
            return pa.array([{}] * len(c), pa.struct([]))
        return pa.StructArray.from_arrays(list(columns.values()), fields=self.arrow.fields)

    def columns(self, c: Cursors, wanted: Collection[str]) -> dict[str, pa.Array]:
        """The arrays of the wanted fields, by name.  Skips the other fields."""
        if c.too_deep():
            return {name: pa.nulls(len(c), kind.arrow) for name, kind in self.fields if name in wanted}
        found = {}
        for name, kind in self.fields:
            if name in wanted:
                found[name] = kind.read(c)
            else:
                kind.skip(c)
        c.depth -= 1
        return found

    def skip(self, c: Cursors) -> None:
        """Skip every field."""
        if not len(c) or c.too_deep():
            return
        for _, kind in self.fields:
            kind.skip(c)
        c.depth -= 1


class AvroRecursive(AvroType):
    """A record inside itself: it can be skipped, but not read."""

    _arrow = pa.null()

    def __init__(self, record: AvroRecord) -> None:
        self._record = record

    def read(self, c: Cursors) -> pa.Array:
        """Mark every message as wrong."""
        self._record.skip(c)
        c.fault(np.ones(len(c), np.bool_), RECURSIVE)
        return pa.nulls(len(c))

    def skip(self, c: Cursors) -> None:
        """Skip the record."""
        self._record.skip(c)


class AvroMessage:
    """A message that consists of one record: nothing may follow it."""

    def __init__(self, record: AvroRecord) -> None:
        self._record = record

    def columns(self, c: Cursors, wanted: Collection[str]) -> dict[str, pa.Array]:
        """See :class:`chsink.decode.messages.Message`."""
        found = self._record.columns(c, wanted)
        c.fault(c.pos < c.end, LEFT_OVER)
        return found
