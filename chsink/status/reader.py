"""Reads a sink's state and compares it with Kafka."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

from chsink.batch.ledger import read_sink
from chsink.config import Config
from chsink.connect import Services, connected
from chsink.errors import PreflightError, UnavailableError
from chsink.observe.logs import configure
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord
from chsink.status.model import PartitionStatus, SinkStatus

Log = tuple[int, int]
"""First offset and next offset of a partition's log."""


def read_status(config: Config) -> SinkStatus:
    """The status of the configuration's sink.  Only errors are logged.  Raises ChsinkError if the state store cannot be
    read; a Kafka that does not answer is a finding.
    """
    configure(config.observe.log_format, "error")
    with connected(config) as services:
        return _read(services)


def _read(services: Services) -> SinkStatus:
    config = services.config
    owner, records = read_sink(services.store, config.sink.name)
    logs, away = _logs(services, {k.topic_partition for k in records})
    now_ms, starting = services.clock.now_ms(), config.kafka.starting_offsets
    partitions = tuple(
        _partition(key, record, _lag(record, logs.get(key.topic_partition), starting), now_ms)
        for key, record in sorted(records.items())
    )
    return SinkStatus(
        config.sink.name,
        None if owner is None else {"driver": owner.driver, "epoch": owner.epoch, "since": _time(owner.claimed_at)},
        partitions,
        sum(p.in_doubt for p in partitions),
        None if away else sum(p.lag or 0 for p in partitions) + _unrecorded(logs, records, starting),
        away,
        sum(p.skipped for p in partitions),
        sum(p.dead_letters for p in partitions),
    )


def _partition(key: StateKey, record: StateRecord, lag: int | None, now_ms: int) -> PartitionStatus:
    return PartitionStatus(
        key.topic,
        key.partition,
        key.table,
        str(record.phase),
        record.start,
        record.end,
        round((now_ms - record.seen.before_at) / 1000, 1) if record.seen.before_at else None,
        lag,
        record.tally.skipped,
        record.tally.dead_letters,
        record.epoch,
        record.life.incarnation,
        dict(record.tally.unknown),
    )


def _lag(record: StateRecord, log: Log | None, starting: str) -> int | None:
    """Offsets that are to be read; None where Kafka does not say, or where a first start at ``latest`` decides."""
    if log is None:
        return None
    start, end = log
    if record.phase is not Phase.EMPTY:
        return max(0, end - record.end)
    return end - start if record.life.late or starting == "earliest" else None


def _unrecorded(logs: Mapping[TopicPartition, Log], records: Iterable[StateKey], starting: str) -> int:
    """Offsets of the job's partitions that the sink never saw: all that Kafka holds, unless it starts at ``latest``."""
    recorded = {k.topic_partition for k in records}
    ran = {k.topic for k in records}
    to_read = [tp for tp in logs if tp.topic in ran or starting == "earliest"]
    return sum(logs[tp][1] - logs[tp][0] for tp in to_read if tp not in recorded)


def _logs(services: Services, recorded: Collection[TopicPartition]) -> tuple[dict[TopicPartition, Log], str | None]:
    """First and next offset of the job's and the recorded partitions that Kafka has, or why it does not answer."""
    existing: set[TopicPartition] = set()
    try:
        services.take_up_topics()
        for topic in sorted({*services.config.topics, *(tp.topic for tp in recorded)}):
            with suppress(PreflightError):  # a topic that was deleted
                existing.update(services.kafka.partitions([topic]))
        starts, ends = services.kafka.log_starts(existing), services.kafka.log_ends(existing)
        return {tp: (starts[tp], ends[tp]) for tp in existing}, None
    except UnavailableError as error:
        return {}, error.message


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
