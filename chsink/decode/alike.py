"""Reads records that have one :mod:`skeleton <chsink.decode.skeleton>`, all at once.

A :mod:`walk <chsink.decode.walk>` finds where the values are; then they are cut out of the block's bytes and
converted, a column at a time.  What is read equals what the parser reads, in the same types.  Every other record is
left to the parser.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from chsink.decode.block_bytes import BlockBytes
from chsink.decode.codec import Suspects
from chsink.decode.field_paths import Path
from chsink.decode.number_texts import numbers_of
from chsink.decode.skeleton import Skeleton, Slot, leaves, skeleton_of
from chsink.decode.walk import Value, Walk


class AlikeReader:
    """Reads the columns of ``schema``, which may be inside objects, from records with this skeleton."""

    def __init__(self, schema: pa.Schema, skeleton: Skeleton) -> None:
        self._schema = schema
        self._skeleton = skeleton

    def read(self, records: pa.Array) -> tuple[pa.Table, Suspects] | None:
        """The columns of ``records`` (binary, UTF-8, without nulls), and the records that were not read: their values
        are arbitrary.  None if no record was read.
        """
        if not len(records):
            return None
        walk = Walk(BlockBytes(records), self._skeleton)
        if not walk.good.any():
            return None
        arrays = _arrays(walk)
        if not walk.good.any():
            return None
        columns = [_column((field.name,), field.type, arrays, len(records)) for field in self._schema]
        return pa.Table.from_arrays(columns, schema=self._schema), None if walk.good.all() else ~walk.good


def alike(schema: pa.Schema, record: str) -> AlikeReader | None:
    """A reader of records like this valid one; None if it is not simple enough."""
    skeleton = skeleton_of(record, dict(leaves((), schema)))
    if skeleton is None or not all(slot.kind is None or _readable(slot.kind) for slot in skeleton.slots):
        return None
    return AlikeReader(schema, skeleton)


def _readable(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _column(path: Path, kind: pa.DataType, arrays: Mapping[Path, pa.Array | None], size: int) -> pa.Array:
    """A column, or an object's member; null where the skeleton has no slot for it."""
    found = arrays.get(path)
    if found is not None:
        return found
    if not any(other[: len(path)] == path for other in arrays):
        return pa.nulls(size, kind)
    assert isinstance(kind, pa.StructType), "values are read inside it"
    members = [_column((*path, field.name), field.type, arrays, size) for field in kind]
    return pa.StructArray.from_arrays(members, fields=list(kind))


def _arrays(walk: Walk) -> dict[Path, pa.Array | None]:
    """The values of each slot; None if they are ignored.  Records with values that JSON forbids, or that are too large,
    are no longer good.
    """
    return {slot.path: _array(walk, slot, value) for slot, value in walk.values}


def _array(walk: Walk, slot: Slot, value: Value) -> pa.Array | None:
    kind = slot.kind
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
