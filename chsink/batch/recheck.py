"""Was what the tasks read still there, and the same topic's?  Asked after reading, before AFTER."""

from __future__ import annotations

from collections.abc import Mapping

from chsink.errors import halts
from chsink.ports import KafkaCluster
from statemachine.records import StateKey, StateRecord


def check_still_held(kafka: KafkaCluster, landed: Mapping[StateKey, StateRecord]) -> None:
    """A log start that passed a range while it was read exactly means that records may be missing: CHS-308."""
    starts = kafka.log_starts([k.topic_partition for k in landed])
    for key, record in landed.items():
        start = starts[key.topic_partition]
        if start > record.start:
            detail = f"Kafka's log start moved to {start} while {record.range} was read"
            raise halts.IN_DOUBT_LOST(tp=key.topic_partition, detail=detail)


def check_same_topics(kafka: KafkaCluster, landed: Mapping[StateKey, StateRecord]) -> None:
    """What was read is the recorded topic's only if that topic still lives: CHS-304 or CHS-308 if not."""
    ids = kafka.topic_ids({k.topic for k in landed})
    for key, record in landed.items():
        now = ids[key.topic]
        if now != record.topic_id:
            halt = halts.TOPIC_ID_KNOWN_UNKNOWN if None in (now, record.topic_id) else halts.IN_DOUBT_LOST
            detail = f"the topic's id changed from {record.topic_id} to {now} while {record.range} was read"
            raise halt(tp=key.topic_partition, detail=detail)
