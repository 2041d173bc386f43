"""Combines decoded results: of parts of the records, or of parts of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from chsink.decode.blocks import Rows
from chsink.ports import BadValue, Decoded


def rows_of(decoded: Decoded, size: int) -> Rows:
    """The record number of each decoded row, as an array.  ``size`` is the number of records."""
    return np.arange(size) if decoded.rows is None else decoded.rows.to_numpy()


def gathered(size: int, parts: Sequence[tuple[Rows, Decoded]], bad: Sequence[BadValue] = ()) -> Decoded:
    """The result for ``size`` records.  Each part is (rows, decoded): ascending record numbers, and their result.  All
    other records must be in ``bad``.
    """
    assert sum(len(rows) for rows, _ in parts) + len(bad) == size, "every record is decoded or bad"
    if len(parts) == 1 and not bad:
        return parts[0][1]
    found = [*bad, *(replace(one, row=int(rows[one.row])) for rows, part in parts for one in part.bad)]
    origin = np.concatenate([np.asarray(rows)[rows_of(part, len(rows))] for rows, part in parts])
    batch = pa.concat_batches([part.batch for _, part in parts])
    if len(origin) and (np.diff(origin) < 0).any():
        order = np.argsort(origin)
        batch, origin = batch.take(pa.array(order)), origin[order]
    found.sort(key=lambda one: one.row)
    return Decoded(batch, pa.array(origin, pa.int64()) if found else None, found)


def beside(size: int, left: Decoded, right: Decoded) -> Decoded:
    """The columns of both sides for the same ``size`` records.  A record that either side rejects has no row; if both
    do, ``left`` gives the reason.
    """
    bad = {one.row: one for one in (*right.bad, *left.bad)}
    kept = np.delete(np.arange(size), list(bad))
    batches = [part.batch if len(part.bad) == len(bad) else _taken(size, part, kept) for part in (left, right)]
    schema = pa.schema([field for batch in batches for field in batch.schema])
    batch = pa.RecordBatch.from_arrays([column for batch in batches for column in batch.columns], schema=schema)
    return Decoded(batch, pa.array(kept, pa.int64()) if bad else None, [bad[row] for row in sorted(bad)])


def _taken(size: int, part: Decoded, kept: Rows) -> pa.RecordBatch:
    """The part's rows of the ``kept`` records; it must have all of them."""
    position = np.full(size, -1, np.int64)
    position[rows_of(part, size)] = np.arange(part.batch.num_rows)
    return part.batch.take(pa.array(position[kept]))
