"""Are the rows those of the records that Kafka holds?  If a topic was deleted and created again, or if its log lost
records, other records lie at the same offsets: rows would hide that these never landed.

Rows say it where they have ``_kafka_timestamp``: the first and the last of them that Kafka still holds are compared.
A sink lands in order.  So where the last rows are of this topic, the new topic's records before them have landed, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from chsink.clickhouse.table import TargetTable
from chsink.kafka.exact import ExactReader
from chsink.recovery.explained import I64, NONE
from chsink.recovery.landed import Place, timestamps
from chsink.statemachine.ranges import OffsetRange, TopicPartition

EACH: Final = 50_000
"""So many offsets are compared at each end."""


def have_timestamps(table: TargetTable) -> bool:
    """Whether rows have the timestamps of their records.  An insert changes none: what does not fit is refused."""
    return any(column.name == "_kafka_timestamp" and "DateTime" in column.type for column in table.insertable)


def unlike(reader: ExactReader, tp: TopicPartition, tables: Sequence[Place], rows: OffsetRange) -> I64:
    """Offsets of rows whose timestamp differs from that of the record that Kafka holds there, ascending."""
    found = [NONE]
    for part in _ends_of(rows):
        offsets, times = timestamps(tables, tp, part)
        for held in reader.read(tp, part):
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
