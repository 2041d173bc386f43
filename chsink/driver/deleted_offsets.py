"""``errors.in_doubt = "dead_letter"``: offsets of a range in doubt that Kafka deleted are given up, and listed.

The driver does by itself what a person does with ``chsink state resolve --expired``: what Kafka still holds is settled
as usual, the rest becomes a gap.  Each run of deleted offsets is listed once, among the dead letters.

Order, and why:
1. Read the range.  Only then it is known what Kafka deleted meanwhile.
2. Write the deleted offsets to the state record: a start after a crash lists the same runs, and new ones behind them.
3. List the runs, each as one dead letter under the same name in every attempt.
4. AFTER records the gap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chsink.batch.model import Ack, ChunkAck
from chsink.driver.ledger import Ledger
from chsink.driver.roles import Assignment
from chsink.statemachine import writes
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey, StateRecord

ListDeleted = Callable[[Assignment], None]
"""Lists the deleted runs of the assigned record.  Returns once each is there, once."""


def announce_deleted(
    ledger: Ledger, landed: Mapping[StateKey, StateRecord], starts: Mapping[TopicPartition, int]
) -> list[StateKey]:
    """Record in the state which offsets of ranges in doubt Kafka deleted.  Returns the ranges that lost offsets."""
    until = {key: min(starts[key.topic_partition], record.end) for key, record in landed.items()}
    more = {key: end for key, end in until.items() if end > (landed[key].start, *landed[key].deleted)[-1]}
    if more:
        attempt, epoch = ledger.attempt(), ledger.epoch
        ledger.write({k: writes.deleted(landed[k], end, epoch=epoch, attempt=attempt) for k, end in more.items()})
    return [key for key in landed if ledger.records[key].deleted]


def listed(assignment: Assignment) -> Ack:
    """The acknowledgement of its runs, which counts each as a dead letter."""
    tp, runs = assignment.topic_partition, assignment.record.deleted_runs
    first = f"topic {tp.topic!r} partition {tp.partition} offset {runs[0].start}: {why_deleted(runs[0])}"
    chunk = ChunkAck(runs[0].start, runs[-1].end, dead_letters=len(runs), first_dead_letter=first)
    return Ack(-1, tp.topic, tp.partition, (chunk,))


def why_deleted(run: OffsetRange) -> str:
    """The reason of its dead letter."""
    return f"Kafka deleted offsets {run} while they were in doubt; their records may or may not be in the table"
