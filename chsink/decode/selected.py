"""What became of some of the records, as what became of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from chsink.ports import BadValue, Decoded


def among(size: int, rows: Any, decoded: Decoded, bad: Sequence[BadValue]) -> Decoded:
    """``decoded`` is of the records at ``rows`` (ascending), of ``size`` records; ``bad`` is about the others."""
    assert len(rows) + len(bad) == size, "every record is decoded or bad"
    if not bad:
        return decoded
    found = [*bad, *(replace(one, row=int(rows[one.row])) for one in decoded.bad)]
    found.sort(key=lambda one: one.row)
    kept = rows if decoded.rows is None else np.asarray(rows)[decoded.rows.to_numpy()]
    return Decoded(decoded.batch, pa.array(kept, pa.int64()), found)
