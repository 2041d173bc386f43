"""Why the next start or batch would halt, as far as the recorded state and Kafka show it.

The decision table itself is asked (``statemachine/table.py``), as if nothing but the rest of each log was planned.
What only the tables know is not found here: forgotten tokens, a changed pipeline, rows that nobody recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from chsink.config import Config
from chsink.driver.halts import halt_error
from chsink.errors import ChsinkError, halts
from chsink.errors.several import several
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord, TopicTable
from chsink.statemachine.table import Facts, Policy, decide
from chsink.status.model import NextHalt

LogBounds = tuple[int, int]
"""First offset and next offset of a partition's log."""


@dataclass(frozen=True, slots=True)
class KafkaFacts:
    """What Kafka says: the logs of the partitions that it has, topic ids, and the errors of topics that are missing.
    ``away`` is why it does not answer; the others are then empty.
    """

    logs: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)
    ids: Mapping[str, str | None] = field(default_factory=dict)
    missing: Mapping[str, ChsinkError] = field(default_factory=dict)
    away: str | None = None


def halts_ahead(
    config: Config, routes: Mapping[TopicTable, object], records: Mapping[StateKey, StateRecord], kafka: KafkaFacts
) -> tuple[NextHalt, ...]:
    """One for each fix, in the order of the partitions.  ``routes`` lead from topics to tables."""
    if kafka.away is not None:
        return ()
    policy = Policy(config.errors.on_gap, config.errors.on_rewind, config.errors.in_doubt)
    found = [kafka.missing[topic] for topic in config.topics if topic in kafka.missing]
    found += _of_records(routes, records, kafka, policy)
    if not found:
        return ()
    whole = several(found)
    return tuple(NextHalt(one.id, one.message, one.hint) for one in whole.parts or (whole,))


def _of_records(
    routes: Mapping[TopicTable, object], records: Mapping[StateKey, StateRecord], kafka: KafkaFacts, policy: Policy
) -> Iterator[ChsinkError]:
    read_anew = {k.topic for k, r in records.items() if r.life.topic_id == kafka.ids.get(k.topic)}
    for key, record in sorted(records.items()):
        if record.phase is Phase.EMPTY:
            continue
        if key.topic_table not in routes:
            if record.in_doubt:
                yield halts.NOT_ROUTED(tp=key.topic_partition, table=key.table)
        elif (log := kafka.logs.get(key.topic_partition)) is not None:
            facts = Facts(kafka.ids.get(key.topic), *log, pipeline=record.sent.pipeline)
            decision = decide(record, _rest(record, facts.topic_id, log), facts, policy)
            if decision.halt is not None:
                yield halt_error(decision.halt, key.topic_partition, decision.detail)
            elif record.is_of_another(facts.topic_id) and log[1] and key.topic not in read_anew:
                detail = f"recorded topic id {record.life.topic_id}, now {facts.topic_id}; {record.range} landed before"
                yield halts.TOPIC_RECREATED(tp=key.topic_partition, detail=detail)


def _rest(record: StateRecord, topic_id: str | None, log: LogBounds) -> OffsetRange:
    """What is left and the next record, if the log begins behind the recorded end; otherwise nothing is planned."""
    expired = log[0] > record.end and not record.is_of_another(topic_id)
    return OffsetRange(log[0], log[1] + 1) if expired else OffsetRange(record.end, record.end)
