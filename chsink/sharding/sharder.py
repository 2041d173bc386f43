"""Assigns rows to shards as ClickHouse's `Distributed` engine does with `f(key columns)` as its sharding key.

Rules:
- slot = hash modulo total weight; shard `i` owns the slots from the sum of the weights before it, `weight` of
  them.
- A key with a null in any column has no hash (in ClickHouse `f(NULL)` is NULL, and `Distributed` refuses a
  Nullable sharding key). A null is either a NULL in a Nullable column, or a missing field whose DEFAULT only the
  server can compute. `null_shard_key` decides: `halt` gives such rows no shard and lists them, `first_shard` sends
  them to shard 0.
- With one shard nothing is hashed, and a null key is allowed.
- The order of rows is kept within a shard, so a piece has the same bytes each time it is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chsink.notation.hash_functions import hash_function
from chsink.sharding.functions import apply
from chsink.sharding.keytypes import parse_key_type
from chsink.sharding.stored import stored_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chsink.sharding.keytypes import KeyType
    from chsink.sharding.layout import Layout
    from chsink.sharding.xxh64 import I64

NO_SHARD = -1


@dataclass(frozen=True, slots=True, eq=False)
class ShardAssignment:
    """The shard of each row of a batch.

    `shard` has a shard number, or `NO_SHARD`, for each row; `null_rows` are the rows without a shard, ascending, or
    None if there are none; `counts` has the number of rows of each shard of the layout.
    """

    shard: npt.NDArray[np.int32]
    null_rows: I64 | None
    counts: I64


class Sharder:
    """Assigns rows to the shards of one layout. Holds no state between calls; it can be pickled."""

    def __init__(self, layout: Layout, key_types: Sequence[str]) -> None:
        """`key_types` are the ClickHouse types of `layout.hashed`, in order, as `system.columns` shows them.

        Raises ConfigError CHS-404 for a type that the hash function does not take.
        """
        assert len(key_types) == len(layout.hashed), "one type a key column"
        self._layout = layout
        self._key_types = [parse_key_type(text) for text in key_types]
        for column, key_type in zip(layout.hashed, self._key_types, strict=True):
            function = hash_function(layout.hash_function)
            for hashed in key_type.leaves if function.columns == "several" else (key_type,):
                function.check_type(column, key_type.text, hashed.family)
        weights = [shard.weight for shard in layout.shards]
        self._shard_of_slot = np.repeat(np.arange(len(weights), dtype=np.int32), weights)

    def assign(self, columns: Sequence[pa.Array], rows: int) -> ShardAssignment:
        """`columns` are the key columns in the layout's order, `rows` values each, in their wire types.

        Raises HaltError CHS-406 when a column or value does not fit its type; nothing is assigned then.
        """
        shards = len(self._layout.shards)
        if shards == 1 or rows == 0:
            counts = np.zeros(shards, dtype=np.int64)
            counts[0] = rows
            return ShardAssignment(np.zeros(rows, dtype=np.int32), None, counts)
        assert len(columns) == len(self._key_types), "one array a key column"
        assert all(len(column) == rows for column in columns), "one value a row"
        columns = [leaf for key, column in zip(self._key_types, columns, strict=True) for leaf in _leaves(key, column)]
        known = _rows_without_null(columns)
        if known is None:
            shard = self._shards_of(columns)
            return ShardAssignment(shard, None, np.bincount(shard, minlength=shards))
        return self._assign_around_nulls(columns, rows, known)

    def _assign_around_nulls(self, columns: Sequence[pa.Array], rows: int, known: I64) -> ShardAssignment:
        first = self._layout.null_shard_key == "first_shard"
        shard = np.full(rows, 0 if first else NO_SHARD, dtype=np.int32)
        if len(known):
            indices = pa.array(known)
            shard[known] = self._shards_of([column.take(indices) for column in columns])
        counts = np.bincount(shard[shard != NO_SHARD], minlength=len(self._layout.shards))
        return ShardAssignment(shard, None if first else np.flatnonzero(shard == NO_SHARD), counts)

    def _shards_of(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.int32]:
        """The shard of each row; no column holds a null."""
        keys = zip(self._layout.hashed, self._key_types, strict=True)
        leaves = [(name, leaf) for name, key_type in keys for leaf in key_type.leaves]
        stored = [stored_values(name, leaf, column) for (name, leaf), column in zip(leaves, columns, strict=True)]
        hashes = apply(self._layout.hash_function, [leaf for _, leaf in leaves], stored)
        slot = hashes % np.uint64(len(self._shard_of_slot))
        return self._shard_of_slot[slot.astype(np.int64)]


def split(batch: pa.RecordBatch, assignment: ShardAssignment) -> list[tuple[int, pa.RecordBatch]]:
    """The shards that get rows, ascending, each with its rows in the batch's order; rows without a shard are left out.

    If all rows go to one shard, the batch itself is returned; otherwise each part is a copy.
    """
    assert batch.num_rows == len(assignment.shard), "the assignment is of this batch"
    present = np.flatnonzero(assignment.counts).tolist()
    if len(present) == 1 and int(assignment.counts[present[0]]) == batch.num_rows:
        return [(present[0], batch)]
    return [(shard, batch.take(pa.array(np.flatnonzero(assignment.shard == shard)))) for shard in present]


def _leaves(key_type: KeyType, column: pa.Array) -> Iterator[pa.Array]:
    """The columns of a Tuple's elements, with the tuple's nulls applied; any other column unchanged."""
    if not key_type.elements:
        yield column
        return
    assert isinstance(column, pa.StructArray), "a Tuple is a struct"
    for element, part in zip(key_type.elements, column.flatten(), strict=True):
        yield from _leaves(element, part)


def _rows_without_null(columns: Sequence[pa.Array]) -> I64 | None:
    """The rows whose key has no null; None if no row has one."""
    with_nulls = [column for column in columns if column.null_count]
    if not with_nulls:
        return None
    null = np.zeros(len(with_nulls[0]), dtype=np.bool_)
    for column in with_nulls:
        null |= column.is_null().to_numpy(zero_copy_only=False)
    return np.flatnonzero(~null)
