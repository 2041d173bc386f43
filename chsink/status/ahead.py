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
    for key, record in sorted(records.items()):
        routed, log = key.topic_table in routes, kafka.logs.get(key.topic_partition)
        if record.phase is Phase.EMPTY or (log is None and routed):
            continue
        if not routed:
            if record.in_doubt:
                yield halts.NOT_ROUTED(tp=key.topic_partition, table=key.table)
            continue
        assert log is not None
        facts = Facts(kafka.ids.get(key.topic), *log, pipeline=record.sent.pipeline)
        decision = decide(record, _rest(record, facts), facts, policy)
        if decision.halt is not None:
            yield halt_error(decision.halt, key.topic_partition, decision.detail)


def _rest(record: StateRecord, facts: Facts) -> OffsetRange:
    """What a batch would read if the log began behind the recorded end; otherwise nothing is planned."""
    assert facts.log_start is not None and facts.log_end is not None
    expired = facts.log_start > record.end and not record.is_of_another(facts.topic_id)
    return OffsetRange(facts.log_start, facts.log_end) if expired else OffsetRange(record.end, record.end)
