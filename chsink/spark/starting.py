"""Where a source with a new checkpoint starts, per topic-partition.

A topic-partition starts where the first of its tables needs it: the others skip what they have.  A table that begins at
the newest offset waits for no other table, and begins where the topic-partition starts.  So does a table that the
topic's records name only now, or again (``table_by``): it begins where the topic's other tables are, and has their
record here.

For one table, the first rule that fits decides, from first to last:
- a recorded range of this topic: its end.  What Kafka dropped beyond it is a gap: ``errors.on_gap`` decides.
- a recorded range, and brokers that do not give the topic's id: its end.  The start halts (CHS-304); once the ids
  are back, the new checkpoint goes on from there, or the job halts for a recreated topic (CHS-303).
- a recorded range of an earlier topic of the same name: the first offset.
- a partition that appeared after the sink first ran, or was reset (``chsink state reset``): the first offset.
- a partition without a recorded range, once the sink has landed anything: the first offset.  Where an earlier
  checkpoint began is not known any more; the newest offset could pass over records that came since.
- a topic that a pattern matches, and of which nothing is recorded, when the sink has run: the first offset, as the
  topic is new, or its pattern is.
- else (the sink's first start, a new table, or a new topic that a route names): ``kafka.starting_offsets``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord, TopicTable

FIRST, NEXT = -2, -1
"""What Kafka's source calls the first offset that Kafka holds, and the one after the last."""


def starting_offsets(
    records: Mapping[StateKey, StateRecord],
    routes: Collection[TopicTable],
    topic_ids: Mapping[str, str | None],
    log_starts: Mapping[TopicPartition, int],
    configured: Literal["earliest", "latest"],
    *,
    matched: Collection[str] = (),
) -> dict[str, dict[str, int]]:
    """``startingOffsets`` of the Kafka source for every partition of ``log_starts``; ``records`` are of the ``routes``.

    ``matched`` are the topics that a pattern matches.
    """
    by_place = {(k.topic_partition, k.table): r for k, r in records.items()}
    known = {k.topic_table for k in records}
    landed = any(record.phase is not Phase.EMPTY for record in records.values())
    recorded = {k.topic for k in records}
    if recorded:
        known |= {leads for leads in routes if leads[0] in matched and leads[0] not in recorded}
    tables: dict[str, list[str]] = {}
    for topic, table in routes:
        tables.setdefault(topic, []).append(table)
    otherwise = FIRST if configured == "earliest" else NEXT
    offsets: dict[str, dict[str, int]] = {}
    for tp, log_start in log_starts.items():
        starts = [
            _start(by_place.get((tp, table)), (tp.topic, table), topic_ids[tp.topic], known, landed)
            for table in tables[tp.topic]
        ]
        start = _least([otherwise if one is None else one for one in starts])
        offsets.setdefault(tp.topic, {})[str(tp.partition)] = start if start < 0 else max(start, log_start)
    return offsets


def _least(starts: Collection[int]) -> int:
    """The first of them; the newest offset comes last."""
    return min((start for start in starts if start != NEXT), default=NEXT)


def _start(
    record: StateRecord | None,
    leads: TopicTable,
    topic_id: str | None,
    known: Collection[TopicTable],
    landed: bool,
) -> int | None:
    """The recorded start of one table, None where the configuration decides."""
    if record is None:
        return FIRST if leads in known else None
    if record.phase is Phase.EMPTY:
        return FIRST if record.life.late or landed else None
    return FIRST if record.is_of_another(topic_id) else record.end
