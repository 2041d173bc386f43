"""Checks of the topics in Kafka against what the sink has recorded."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial

from chsink.errors import ChsinkError, preflight
from chsink.findings import Finding, Severity, found, guarded, passed
from chsink.kafka.admin import KafkaAdmin
from chsink.kafka.refusals import NO_ANSWER
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import Phase, StateRecords


def topics_findings(
    kafka: KafkaAdmin, topics: Iterable[str], records: StateRecords, now_ms: int
) -> Generator[Finding, None, bool]:
    """Yields the findings of each topic, and stops once Kafka does not answer; returns whether it answers."""
    for topic in topics:
        for finding in guarded(f"topic {topic}", partial(topic_findings, kafka, topic, records, now_ms)):
            yield finding
            if finding.id in NO_ANSWER:
                return False
    return True


def topic_findings(kafka: KafkaAdmin, topic: str, records: StateRecords, now_ms: int) -> Iterator[Finding]:
    """Check that the topic exists, is the recorded one, and keeps unread records long enough."""
    topic_id = kafka.topic_ids([topic])[topic]
    partitions = kafka.partitions([topic])
    mine = {k: r for k, r in records.items() if k.topic == topic and r.phase is not Phase.EMPTY}
    if topic_id is None:
        yield found(Severity.WARNING, preflight.TOPIC_WITHOUT_ID, topic=topic)
    else:
        yield passed(preflight.TOPIC_MISSING, topic=topic, partitions=len(partitions), id=topic_id)
    yield from _recreated(topic, topic_id, mine)
    yield from _gone(topic, sorted({k.topic_partition for k in mine}.difference(partitions)))
    there = {k: r for k, r in mine.items() if k.topic_partition in partitions}
    yield from _retention(kafka, topic, there, now_ms)


def dead_letters_findings(kafka: KafkaAdmin, topic: str) -> Iterator[Finding]:
    """Check that the topic of dead letters exists and keeps its messages."""
    try:
        kafka.topic_ids([topic])
    except ChsinkError as error:
        if error.id != preflight.TOPIC_MISSING.id:
            raise
        yield found(Severity.ERROR, preflight.NO_DEAD_LETTERS_TOPIC, topic=topic)
        return
    retention_ms = kafka.retention_ms(topic)
    if retention_ms >= 0:
        yield found(Severity.WARNING, preflight.DEAD_LETTERS_EXPIRE, topic=topic, hours=f"{retention_ms / 3_600_000:g}")
    if kafka.may_be_compacted(topic):
        yield found(Severity.WARNING, preflight.DEAD_LETTERS_TOPIC, topic=topic)
    else:
        yield passed(preflight.DEAD_LETTERS_TOPIC, topic=topic)


def _recreated(topic: str, topic_id: str | None, mine: StateRecords) -> Iterator[Finding]:
    other = sorted({key.partition for key, r in mine.items() if not r.may_belong_to(topic_id)})
    if other and topic_id is not None:
        yield found(Severity.WARNING, preflight.TOPIC_IS_ANOTHER, topic=topic, partitions=", ".join(map(str, other)))
    for key, record in sorted(mine.items()):
        if record.in_doubt and record.is_of_another(topic_id):
            yield found(Severity.WARNING, preflight.DOUBT_RECREATED, tp=key.topic_partition, range=record.range)


def _gone(topic: str, partitions: Sequence[TopicPartition]) -> Iterator[Finding]:
    if partitions:
        numbers = [str(tp.partition) for tp in partitions]
        yield found(
            Severity.WARNING,
            preflight.PARTITIONS_GONE,
            topic=topic,
            partitions=", ".join(numbers),
            reset=f"chsink state reset {topic} {' '.join(numbers)}",
        )


def _retention(kafka: KafkaAdmin, topic: str, mine: StateRecords, now_ms: int) -> Iterator[Finding]:
    retention_ms = kafka.retention_ms(topic)
    partitions = {key.topic_partition for key in mine}
    ends, starts = kafka.log_ends(partitions), kafka.log_starts(partitions)
    unread: dict[TopicPartition, int] = {}
    for key, record in sorted(mine.items()):
        tp = key.topic_partition
        if record.in_doubt and starts[tp] > record.start and not record.doubt.expired:
            yield found(Severity.WARNING, preflight.DOUBT_EXPIRED, tp=tp, range=record.range, start=starts[tp])
        if ends[tp] > record.end:  # of several tables, the one that lacks most
            unread[tp] = min(record.end, unread.get(tp, record.end))
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
        return found(Severity.WARNING, preflight.RECORDS_EXPIRED, topic=topic, expired=expired)
    if old:
        return found(Severity.WARNING, preflight.RECORDS_EXPIRE, topic=topic, old=old, hours=f"{hours:g}")
    kept = "for ever" if retention_ms < 0 else f"for {hours:g} h"
    return passed(preflight.RECORDS_EXPIRED, topic=topic, kept=kept)
