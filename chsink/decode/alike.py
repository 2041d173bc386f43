"""Reads records that have one :mod:`skeleton <chsink.decode.skeleton>`, all at once.

A :mod:`walk <chsink.decode.walk>` finds where the values are; then they are cut out of the block's bytes and
converted, a column at a time.  What is read equals what the parser reads, in the same types.  Every other record is
left to the parser.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from chsink.decode.block_bytes import BlockBytes
from chsink.decode.codec import Suspects
from chsink.decode.elements import Inside
from chsink.decode.field_paths import Path
from chsink.decode.number_texts import numbers_of
from chsink.decode.skeleton import Skeleton, Slot, leaves, skeleton_of
from chsink.decode.walk import Arrays, Value, Walk


class AlikeReader:
    """Reads the columns of ``schema``, which may be inside objects, from records with this skeleton."""

    def __init__(self, schema: pa.Schema, skeleton: Skeleton) -> None:
        self._schema = schema
        self._skeleton = skeleton

    def read(self, records: pa.Array) -> tuple[pa.Table, Suspects] | None:
        """The columns of the ``records`` (binary, UTF-8, without nulls) that were read, and a mask of all others.  None
        if no record was read.
        """
        if not len(records):
            return None
        block = BlockBytes(records)
        walk = Walk(block, self._skeleton, Inside(block.starts, block.ends, block.firsts), block.good, drops=True)
        if not walk.good.any():
            return None
        arrays = _arrays(walk)
        if not walk.good.any():
            return None
        columns = [_column((field.name,), field.type, arrays, len(walk.good)) for field in self._schema]
        table = pa.Table.from_arrays(columns, schema=self._schema)
        if walk.good.all() and len(walk.good) == len(records):
            return table, None
        unread = np.ones(len(records), np.bool_)
        unread[walk.rows[walk.good]] = False
        return table if walk.good.all() else table.filter(pa.array(walk.good)), unread


def alike(schema: pa.Schema, record: str) -> AlikeReader | None:
    """A reader of records like this valid one; None if it is not simple enough, or no column is read by type."""
    if not len(schema):
        return None
    skeleton = skeleton_of(record, dict(leaves((), schema)))
    return None if skeleton is None or not _readable(skeleton) else AlikeReader(schema, skeleton)


def _readable(skeleton: Skeleton) -> bool:
    for slot in skeleton.slots:
        if slot.elements is not None:
            if slot.elements.each is not None and not _readable(slot.elements.each):
                return False
        elif slot.kind is not None and not any(test(slot.kind) for test in _READABLE):
            return False
    return True


_READABLE = (pa.types.is_string, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


def _column(path: Path, kind: pa.DataType, arrays: Mapping[Path, pa.Array | None], size: int) -> pa.Array:
    """A column, or an object's member; null where the skeleton has no slot for it."""
    found = arrays.get(path)
    if found is not None:
        return found
    if not any(other[: len(path)] == path for other in arrays):
        return pa.nulls(size, kind)
    return _struct(kind, path, arrays, size)


def _struct(kind: pa.DataType, path: Path, arrays: Mapping[Path, pa.Array | None], size: int) -> pa.Array:
    assert isinstance(kind, pa.StructType), "values are read inside it"
    members = [_column((*path, field.name), field.type, arrays, size) for field in kind]
    return pa.StructArray.from_arrays(members, fields=list(kind))


def _arrays(walk: Walk) -> dict[Path, pa.Array | None]:
    """The values of each slot; None if they are ignored.  Records with values that JSON forbids, or that are too large,
    are no longer good.

    In order: behind a wrong number, the positions of other values may be wrong, too.
    """
    return {slot.path: _array(walk, slot, value) for slot, value in walk.values}


def _array(walk: Walk, slot: Slot, value: Value) -> pa.Array | None:
    kind = slot.kind
    if value.arrays is not None:
        return _lists(walk, kind, value, value.arrays)
    if kind is not None and pa.types.is_boolean(kind):
        there = walk.there(value)
        return pa.array(walk.block.bytes[value.start] == ord("t"), mask=None if there.all() else ~there)
    if not value.numbers and kind is None:
        return None
    there = walk.there(value)
    texts = walk.block.texts(value.start, value.end, there)
    if not value.numbers:
        assert kind is not None, "it is not ignored"
        texts = walk.block.without_escapes(texts, value.start, value.end, there)
        return texts if pa.types.is_string(kind) else texts.cast(kind)  # nulls only
    numbers, bad = numbers_of(texts, kind)
    if bad is not None:
        walk.good &= ~bad
    return None if kind is None else numbers


def _lists(walk: Walk, kind: pa.DataType | None, value: Value, arrays: Arrays) -> pa.Array | None:
    """The arrays, if the type is one of arrays."""
    assert kind is None or isinstance(kind, pa.ListType), "arrays are read in it"
    inner = None if kind is None else kind.value_type
    elements, bad = _elements(walk, inner, arrays)
    if bad is not None:
        walk.good[arrays.records(arrays.found.arrays_of(bad))] = False
    if kind is None or elements is None:
        return None
    counts = np.zeros(len(walk.good), np.int32)
    counts[arrays.rows] = arrays.found.counts
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
    absent = None if value.there is None else pa.array(~value.there)
    return pa.ListArray.from_arrays(offsets, elements, type=kind, mask=absent)


def _elements(walk: Walk, kind: pa.DataType | None, arrays: Arrays) -> tuple[pa.Array | None, Suspects]:
    """The elements of all arrays, in order, and those that are not good."""
    found = arrays.found
    if found.texts is not None:
        return numbers_of(found.texts, kind)
    if arrays.each is not None:
        members = _arrays(arrays.each)
        bad = None if arrays.each.good.all() else ~arrays.each.good
        return None if kind is None else _struct(kind, (), members, len(found.at.starts)), bad
    if kind is None:
        return None, None
    if not pa.types.is_string(kind):
        return pa.nulls(len(found.at.starts), kind), np.ones(len(found.at.starts), np.bool_)  # the sample's was empty
    there = np.repeat(walk.good[arrays.rows], found.counts)
    texts = walk.block.texts(found.at.starts, found.at.ends, there)
    return walk.block.without_escapes(texts, found.at.starts, found.at.ends, there), None
