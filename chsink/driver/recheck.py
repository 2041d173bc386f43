"""Asks Kafka: is it still the same topic, and does it hold what landed, what will be announced, and what was read?"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from chsink.errors import ChsinkError, halts
from chsink.errors.several import raise_all
from chsink.ports import KafkaCluster, TopicIds
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey, StateRecord


def check_logs(kafka: KafkaCluster, topics: Collection[str], records: Mapping[StateKey, StateRecord]) -> None:
    """CHS-301 for logs of these topics that end before what landed.  Spark itself would only report missing offsets,
    with any checkpoint, and suggest ignoring them.  CHS-304 where brokers hide the id that is recorded: nobody knows
    whether the log is the same.
    """
    ids = kafka.topic_ids(topics)
    announced = {k: r for k, r in records.items() if r.end and k.topic in ids}
    raise_all(
        [
            halts.TOPIC_ID_KNOWN_UNKNOWN(tp=k.topic_partition, detail=f"recorded topic id {r.life.topic_id}, now None")
            for k, r in announced.items()
            if r.life.topic_id is not None and ids[k.topic] is None
        ]
    )
    same = {k: r for k, r in announced.items() if ids[k.topic] == r.life.topic_id}
    ends = kafka.log_ends(dict.fromkeys(k.topic_partition for k in same)) if same else {}
    raise_all(
        [
            halts.LOG_SHRANK(tp=tp, detail=f"it ends at {ends[tp]}, the recorded range is {r.range}")
            for k, r in same.items()
            if ends[tp := k.topic_partition] < r.end
        ]
    )


def check_readable(kafka: KafkaCluster, planned: Mapping[TopicPartition, OffsetRange]) -> None:
    """CHS-307 if the log start passed a planned range, CHS-301 if the log ends before the range does.

    Announced, such a range would be in doubt and could not be read again.
    Before BEFORE nothing is lost: with a new checkpoint, the source starts where the log starts now.
    """
    starts, ends = kafka.log_starts(planned), kafka.log_ends(planned)
    found: list[ChsinkError] = []
    for tp, offsets in planned.items():
        if ends[tp] < offsets.end:
            found.append(halts.PLAN_BEYOND_LOG(tp=tp, planned=offsets, end=ends[tp]))
        elif starts[tp] > offsets.start:
            gone = OffsetRange(offsets.start, min(starts[tp], offsets.end))
            found.append(halts.PLAN_NOT_HELD(tp=tp, planned=offsets, gone=gone, start=starts[tp]))
    raise_all(found)


def check_still_held(
    kafka: KafkaCluster, landed: Mapping[StateKey, StateRecord], *, gives_up: bool = False
) -> dict[TopicPartition, int]:
    """The log starts.  CHS-308 if the log does not hold all of a range after its exact read, and nobody ``gives_up``
    what expired: records may be missing.  A log that ends before the range belongs to another topic than the plan.
    """
    partitions = [k.topic_partition for k in landed]
    starts, ends = kafka.log_starts(partitions), kafka.log_ends(partitions)
    found: list[ChsinkError] = []
    for key, record in landed.items():
        start = starts[key.topic_partition]
        if start > record.start and not (record.doubt.expired or gives_up):
            detail = f"Kafka's log start moved to {start} while {record.range} was read"
            found.append(halts.IN_DOUBT_LOST(tp=key.topic_partition, detail=detail))
        elif ends[key.topic_partition] < record.end:
            detail = f"Kafka's log ends at {ends[key.topic_partition]}, before the end of {record.range}"
            found.append(halts.IN_DOUBT_LOST(tp=key.topic_partition, detail=detail))
    raise_all(found)
    return starts


def check_same_topics(kafka: TopicIds, landed: Mapping[StateKey, StateRecord]) -> None:
    """CHS-304 or CHS-308 if the recorded topic no longer exists: then the records may be another topic's.

    Tasks ask after they read and before they send, the driver before AFTER.
    """
    ids = kafka.topic_ids({k.topic for k in landed})
    found: list[ChsinkError] = []
    for key, record in landed.items():
        now = ids[key.topic]
        if now != record.life.topic_id:
            halt = halts.TOPIC_ID_KNOWN_UNKNOWN if None in (now, record.life.topic_id) else halts.IN_DOUBT_LOST
            detail = f"the topic's id changed from {record.life.topic_id} to {now} while {record.range} was read"
            found.append(halt(tp=key.topic_partition, detail=detail))
    raise_all(found)
