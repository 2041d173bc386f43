"""Reads a sink's state and compares it with Kafka."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from confluent_kafka import KafkaException

from chsink.config import Config
from chsink.connect import Services, connected
from chsink.dlq.replays import replays_in_doubt
from chsink.driver.ledger import read_sink
from chsink.errors import ChsinkError, PreflightError, UnavailableError, preflight
from chsink.kafka.ages import first_times
from chsink.observe.logs import configure
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord
from chsink.status.ahead import KafkaFacts, LogBounds, halts_ahead
from chsink.status.last_verify import last_verify
from chsink.status.model import PartitionStatus, ReplayInDoubt, SinkStatus

AGES_S: Final = 3.0
"""Seconds that reading the oldest record of each partition that is behind may take."""


def read_status(config: Config) -> SinkStatus:
    """The status of the configuration's sink.  Only errors are logged.  Raises ChsinkError if the state store cannot be
    read; a Kafka that does not answer is a finding.
    """
    configure(config.observe.log_format, "error")
    with connected(config) as services:
        return StatusReader(services).read()


@dataclass
class StatusReader:
    """Reads the status again and again, with the same connections.  What it knows of old records is not read again."""

    services: Services
    _times: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)

    def read(self) -> SinkStatus:
        """As :func:`read_status`."""
        services = self.services
        config = services.config
        owner, records = read_sink(services.store, config.sink.name)
        kafka = _ask(services, {k.topic_partition for k in records})
        starting, now_ms = services.config.kafka.starting_offsets, services.clock.now_ms()
        lags = {k: _lag(k, r, kafka, starting) for k, r in records.items()}
        ages = self._ages({k: _next(k, records[k], kafka) for k, lag in lags.items() if lag})
        partitions = tuple(_partition(k, r, lags[k], ages.get(k), now_ms) for k, r in sorted(records.items()))
        unrecorded = _unrecorded(kafka.logs, records, starting)
        return SinkStatus(
            config.sink.name,
            None if owner is None else {"driver": owner.driver, "epoch": owner.epoch, "since": _time(owner.claimed_at)},
            partitions,
            sum(p.in_doubt for p in partitions),
            None if kafka.away else sum(p.lag or 0 for p in partitions) + unrecorded,
            kafka.away,
            sum(p.skipped for p in partitions),
            sum(p.dead_letters for p in partitions),
            halts_ahead(services.config, services.clickhouse.routes, records, kafka),
            last_verify(config.verify_result, config.sink.name),
            _replays(services),
        )

    def _ages(self, behind: Mapping[StateKey, int]) -> dict[StateKey, int]:
        """The timestamp in ms of the record at each of these offsets, as far as Kafka gives it."""
        wanted = {(key.topic_partition, offset) for key, offset in behind.items()}
        self._times = {known: ms for known, ms in self._times.items() if known in wanted}
        kafka, group = self.services.config.kafka, f"chsink-{self.services.config.sink.name}/status"
        left = wanted - self._times.keys()
        while left:  # two tables of a topic may be at two offsets: one after the other
            first: dict[TopicPartition, int] = {}
            for tp, offset in left:
                first[tp] = min(offset, first.get(tp, offset))
            try:
                found = first_times(kafka.client_options(), group, first, AGES_S)
            except KafkaException:  # it may be read only: the age stays unknown
                break
            self._times.update({(tp, first[tp]): ms for tp, ms in found.items()})
            left -= first.items()
        ages = {key: self._times.get((key.topic_partition, offset)) for key, offset in behind.items()}
        return {key: ms for key, ms in ages.items() if ms is not None}


def _partition(key: StateKey, record: StateRecord, lag: int | None, oldest: int | None, now_ms: int) -> PartitionStatus:
    return PartitionStatus(
        key.topic,
        key.partition,
        key.table,
        str(record.phase),
        record.start,
        record.end,
        round((now_ms - record.seen.before_at) / 1000, 1) if record.seen.before_at else None,
        lag,
        _age(lag, oldest, now_ms),
        record.tally.skipped,
        record.tally.dead_letters,
        record.epoch,
        record.life.incarnation,
        dict(record.tally.unknown),
    )


def _replays(services: Services) -> tuple[ReplayInDoubt, ...]:
    doubtful = replays_in_doubt(services.store, services.config.sink.name).items()
    return tuple(ReplayInDoubt(k.topic, k.partition, k.table, len(r.doubt.only)) for k, r in doubtful)


def _age(lag: int | None, oldest: int | None, now_ms: int) -> float | None:
    if lag == 0:
        return 0.0
    return None if oldest is None else round(max(0, now_ms - oldest) / 1000, 1)


def _lag(key: StateKey, record: StateRecord, kafka: KafkaFacts, starting: str) -> int | None:
    """Offsets that are to be read; None where Kafka does not say, or where a first start at ``latest`` decides."""
    if key.topic_partition not in kafka.logs:
        return None
    start, end = kafka.logs[key.topic_partition]
    if record.phase is not Phase.EMPTY:
        return end - start if record.is_of_another(kafka.ids.get(key.topic)) else max(0, end - record.end)
    return end - start if record.life.late or starting == "earliest" else None


def _next(key: StateKey, record: StateRecord, kafka: KafkaFacts) -> int:
    """The first offset that is to be read."""
    start = kafka.logs[key.topic_partition][0]
    whole = record.phase is Phase.EMPTY or record.is_of_another(kafka.ids.get(key.topic))
    return start if whole else max(start, record.end)


def _unrecorded(logs: Mapping[TopicPartition, LogBounds], records: Iterable[StateKey], starting: str) -> int:
    """Offsets of the job's partitions that the sink never saw: all that Kafka holds, unless it starts at ``latest``."""
    recorded = {k.topic_partition for k in records}
    ran = {k.topic for k in records}
    to_read = [tp for tp in logs if tp.topic in ran or starting == "earliest"]
    return sum(logs[tp][1] - logs[tp][0] for tp in to_read if tp not in recorded)


def _ask(services: Services, recorded: Collection[TopicPartition]) -> KafkaFacts:
    """About the topics of the job, and those that are recorded."""
    missing: dict[str, ChsinkError] = {}
    existing: set[TopicPartition] = set()
    try:
        services.take_up_topics()
        kafka = services.kafka
        for topic in sorted({*services.config.topics, *(tp.topic for tp in recorded)}):
            try:
                existing.update(kafka.partitions([topic]))
            except PreflightError as error:
                if error.id != preflight.TOPIC_MISSING.id:
                    raise
                missing[topic] = error  # it was deleted
        starts, ends = kafka.log_starts(existing), kafka.log_ends(existing)
        ids = kafka.topic_ids({tp.topic for tp in existing})
    except (UnavailableError, PreflightError) as error:  # it is away, or refuses this user
        return KafkaFacts(away=error.message)
    return KafkaFacts({tp: (starts[tp], ends[tp]) for tp in existing}, ids, missing)


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
