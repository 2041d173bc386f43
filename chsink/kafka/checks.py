"""What Kafka says of the topics, against what the sink has recorded."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial

from chsink.findings import Finding, guarded, ok, warning
from chsink.kafka.admin import KafkaAdmin
from statemachine.ranges import TopicPartition
from statemachine.records import Phase, StateKey, StateRecord

Records = Mapping[StateKey, StateRecord]


def topics_findings(
    kafka: KafkaAdmin, topics: Iterable[str], records: Records, now_ms: int
) -> Generator[Finding, None, bool]:
    """Findings of each topic; returns whether Kafka answers.  Once it does not, it is not asked again."""
    for topic in topics:
        for finding in guarded(f"topic {topic}", partial(topic_findings, kafka, topic, records, now_ms)):
            yield finding
            if finding.id == "CHS-702":
                return False
    return True


def topic_findings(kafka: KafkaAdmin, topic: str, records: Records, now_ms: int) -> Iterator[Finding]:
    """The topic is there, is the recorded one, and holds what is unread long enough."""
    topic_id = kafka.topic_ids([topic])[topic]
    partitions = kafka.partitions([topic])
    mine = {k.topic_partition: r for k, r in records.items() if k.topic == topic and r.phase is not Phase.EMPTY}
    if topic_id is None:
        yield warning(
            "CHS-226",
            f"the brokers give {topic} no id: a topic that is made anew cannot be told from a log that shrank",
            "use brokers of version 3.0 or later",
        )
    else:
        yield ok("CHS-201", f"{topic} has {len(partitions)} partitions, id {topic_id}")
    yield from _recreated(topic, topic_id, mine)
    yield from _gone(topic, sorted(mine.keys() - set(partitions)))
    yield from _retention(kafka, topic, {tp: mine[tp] for tp in partitions if tp in mine}, now_ms)


def _recreated(topic: str, topic_id: str | None, mine: Mapping[TopicPartition, StateRecord]) -> Iterator[Finding]:
    other = sorted(tp.partition for tp, r in mine.items() if not r.may_belong_to(topic_id))
    if other and topic_id is not None:
        yield warning(
            "CHS-226",
            f"{topic} is not the topic that the state was recorded for (partitions {', '.join(map(str, other))})",
            "if it was made anew on purpose, start with a new checkpoint, so that it is read from its beginning",
        )


def _gone(topic: str, partitions: Sequence[TopicPartition]) -> Iterator[Finding]:
    if partitions:
        numbers = ", ".join(str(tp.partition) for tp in partitions)
        yield warning(
            "CHS-226",
            f"{topic} has no partition {numbers} any more, of which there is state: it was made anew with fewer",
            f"if that is meant, forget their state, one by one: chsink state reset {topic} {partitions[0].partition}",
        )


def _retention(
    kafka: KafkaAdmin, topic: str, mine: Mapping[TopicPartition, StateRecord], now_ms: int
) -> Iterator[Finding]:
    retention_ms = kafka.retention_ms(topic)
    ends, starts = kafka.log_ends(mine), kafka.log_starts(mine)
    unread = {tp: r.end for tp, r in mine.items() if ends[tp] > r.end}
    expired = sum(max(0, starts[tp] - end) for tp, end in unread.items())
    old = 0
    if retention_ms > 0 and unread:
        young_from = kafka.offsets_since(unread, now_ms - retention_ms // 2)
        old = sum(end < (ends[tp] if young_from[tp] < 0 else young_from[tp]) for tp, end in unread.items())
    yield retention(topic, expired, old, retention_ms)


def retention(topic: str, expired: int, old: int, retention_ms: int) -> Finding:
    """``expired``: unread offsets that Kafka no longer holds.  ``old``: partitions whose unread records are past half
    of their retention.
    """
    hours = retention_ms / 3_600_000
    if expired:
        return warning(
            "CHS-225",
            f"Kafka dropped {expired} offsets of {topic} before they were read",
            'the job will halt with CHS-307; accept the loss with errors.on_gap = "record", and lengthen the retention',
        )
    if old:
        return warning(
            "CHS-225",
            f"{old} partitions of {topic} have unread records older than half of their retention of {hours:g} h",
            "lengthen retention.ms until the sink has caught up",
        )
    kept = "for ever" if retention_ms < 0 else f"{hours:g} h"
    return ok("CHS-225", f"{topic} keeps records {kept}, and what is unread is not near its end")
