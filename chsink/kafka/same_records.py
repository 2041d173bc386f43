"""Are the rows those of the records that Kafka holds?  If a topic was deleted and created again, or if its log lost
records, other records lie at the same offsets: rows would hide that these never landed.

Rows say it where they have ``_kafka_timestamp``: the first and the last of them that Kafka still holds are compared.
A sink lands in order.  So where the last rows are of this topic, the new topic's records before them have landed, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chsink.kafka.exact import ExactReader
from chsink.statemachine.ranges import OffsetRange, TopicPartition

I64 = npt.NDArray[np.int64]
Times = tuple[I64, I64]
"""The offset and the timestamp in ms of each row."""
EACH: Final = 50_000
"""So many offsets are compared at each end."""


def unlike(reader: ExactReader, tp: TopicPartition, rows: OffsetRange, times_of: Callable[[OffsetRange], Times]) -> I64:
    """Offsets of rows whose timestamp differs from that of the record that Kafka holds there, ascending."""
    found = [np.empty(0, np.int64)]
    for part in _ends_of(rows):
        offsets, times = times_of(part)
        for held in reader.read(tp, part) if len(offsets) else ():
            ours = held.records.column("offset").to_numpy()
            at = np.searchsorted(ours, offsets)
            known = at < len(ours)
            known[known] = ours[at[known]] == offsets[known]
            ms = held.records.column("timestamp").cast(pa.int64()).to_numpy() // 1000
            found.append(offsets[known][times[known] != ms[at[known]]])
    return np.unique(np.concatenate(found))


def _ends_of(rows: OffsetRange) -> Iterator[OffsetRange]:
    if rows.length <= 2 * EACH:
        yield rows
    else:
        yield from (OffsetRange(rows.start, rows.start + EACH), OffsetRange(rows.end - EACH, rows.end))
