"""Where a source with a new checkpoint starts, per topic-partition.

From first to last, the first rule that fits decides:
- a recorded range of this topic: its end.  What Kafka dropped beyond it is a gap: ``errors.on_gap`` decides.
- a recorded range, and brokers that do not give the topic's id: its end.  The start halts (CHS-304); once the ids
  are back, the new checkpoint goes on from there, or the job halts for a recreated topic (CHS-303).
- a recorded range of an earlier topic of the same name: the first offset.
- a partition that appeared after the sink first ran: the first offset, as nothing of it was ever passed over.
- a partition without a recorded range, of a topic that has landed others: the first offset.  Where the first checkpoint
  began is not known any more; the newest offset could pass over records that came since.
- else (the sink's first start, a new topic, or after ``chsink state reset``): ``kafka.starting_offsets``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import Phase, StateRecord

FIRST, NEXT = -2, -1
"""What Kafka's source calls the first offset that Kafka holds, and the one after the last."""


def starting_offsets(
    records: Mapping[TopicPartition, StateRecord],
    topic_ids: Mapping[str, str | None],
    log_starts: Mapping[TopicPartition, int],
    configured: Literal["earliest", "latest"],
) -> dict[str, dict[str, int]]:
    """``startingOffsets`` of the Kafka source for every partition of ``log_starts``; ``records`` are the sink's."""
    known = {tp.topic for tp in records}
    landed = {tp.topic for tp, record in records.items() if record.phase is not Phase.EMPTY}
    offsets: dict[str, dict[str, int]] = {}
    for tp in log_starts:
        start = _start(records.get(tp), tp, topic_ids, known, landed)
        if start is None:
            start = FIRST if configured == "earliest" else NEXT
        offsets.setdefault(tp.topic, {})[str(tp.partition)] = start if start < 0 else max(start, log_starts[tp])
    return offsets


def _start(
    record: StateRecord | None,
    tp: TopicPartition,
    topic_ids: Mapping[str, str | None],
    known: Collection[str],
    landed: Collection[str],
) -> int | None:
    """The recorded start, None where the configuration decides."""
    if record is None:
        return FIRST if tp.topic in known else None
    if record.phase is Phase.EMPTY:
        never_reset = record.incarnation == 0
        return FIRST if record.late or (never_reset and tp.topic in landed) else None
    return FIRST if record.is_of_another(topic_ids[tp.topic]) else record.end
