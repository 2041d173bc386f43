"""All checks of all packages, in order: ``chsink doctor`` prints their findings, and every start runs them."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING

import structlog

from chsink.clickhouse.checks.examine import ClickHouseChecks, WrittenColumns
from chsink.clickhouse.checks.rights import check_grants
from chsink.clickhouse.grants import On, Use, rights_on
from chsink.clickhouse.landing import decoder
from chsink.config import Config
from chsink.connect import Services
from chsink.dlq.place import replay_sink
from chsink.dlq.replays import replays_in_doubt
from chsink.doctor.outcome import stop_at_errors
from chsink.driver.ledger import read_owner, read_records
from chsink.errors import ChsinkError, PreflightError, preflight
from chsink.errors import services as store_errors
from chsink.findings import Finding, Severity, found, guarded, passed
from chsink.formats.changed_columns import column_change
from chsink.formats.decoders import reads_value
from chsink.formats.pipeline import Untouched
from chsink.formats.settings import FormatSettings, KeyColumns
from chsink.kafka.admin import KafkaAdmin
from chsink.kafka.checks import dead_letters_findings, topics_findings
from chsink.ports import Clock, StreamShape
from chsink.registry.checks import registry_findings
from chsink.registry.client import Registry
from chsink.state.checks import store_findings
from chsink.state.keepermap import KeeperMap, KeeperMapStore
from chsink.state.zookeeper import ZooKeeperStore
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import Phase, StateRecords
from chsink.versions import package_findings

if TYPE_CHECKING:
    from chsink.mirror.opening import OpenMirror

Subject = tuple[str, str]
"""A topic, and one of its subjects in the Schema Registry."""


def all_findings(services: Services, written: WrittenColumns | None = None) -> Iterator[Finding]:
    """The findings of every check of services.  A check may rely on those before it; if a service is down, only its
    checks fail.

    ``written`` maps (topic, table) to the stream's columns, for routes whose columns are known.
    """
    if services.config.topic_pattern:
        yield from guarded("the topics of the patterns", partial(_topics, services))
    config = services.config
    clickhouse = ClickHouseChecks(services.clickhouse, written or {})
    yield from clickhouse.servers()
    if clickhouse.complete:
        yield from clickhouse.tables()
    for finding in guarded("the state store", partial(_store, services, bool(clickhouse.answering))):
        if finding.id not in _reported(services, clickhouse):
            yield finding
    records = _records(services)
    kafka_answers = yield from topics_findings(services.kafka, config.topics, records or {}, services.clock.now_ms())
    yield from guarded("the Schema Registry", partial(_registry, config, _subjects(config)))
    if kafka_answers and config.dead_letters.topic is not None and config.keeps_dead_letters:
        yield from guarded(
            "the topic of dead letters", partial(dead_letters_findings, services.kafka, config.dead_letters.topic)
        )
    if clickhouse.complete and records is not None:
        owner = cache(partial(read_owner, services.store, config.sink.name))
        yield from guarded("the state", lambda: clickhouse.state(records, owner()))
        yield from _changed_columns(services, records)
        yield from guarded("the replays", lambda: _replays(services, clickhouse))
        yield from clickhouse.existing_rows(records, partial(read_records, services.store, config.sink.name))
        yield from guarded("the state", lambda: clickhouse.emptied(records, owner()))
        if kafka_answers:
            chunks = partial(_chunks, services, records)
            yield from guarded("the deduplication windows", lambda: clickhouse.windows(chunks))


def check_start(services: Services, stream: StreamShape) -> None:
    """Run the checks of a start.  Logs warnings; raises the first error, after logging the others."""
    targets = services.clickhouse.targets.items()
    written = {leads: stream.columns for leads, t in targets if not reads_value(t.table.insertable, stream)}
    stop_at_errors(chain(package_findings(), all_findings(services, written)), services.log)


def mirror_findings(config: Config, kafka: KafkaAdmin, clock: Clock) -> Iterator[Finding]:
    """The findings of every check of the Iceberg mirror, if it is enabled, but for those of :func:`all_findings`.

    The mirror's start runs them, not the start of the ClickHouse side, which the mirror must never hold up.
    """
    if config.mirror.enabled:
        yield from guarded("the Iceberg mirror", partial(_mirror, config, kafka, clock))


def check_mirror(mirror: OpenMirror, log: structlog.typing.FilteringBoundLogger) -> None:
    """Run the checks of the mirror's start.  Logs warnings; raises the first error, after logging the others."""
    from chsink.mirror.checks import findings_of

    stop_at_errors(chain(findings_of(mirror), mirror_registry(mirror.config)), log)


def mirror_registry(config: Config, known: Collection[Subject] = ()) -> Iterator[Finding]:
    """The findings on the Schema Registry for the mirror's subjects, without the ``known`` ones."""
    reads = ((r.topic, config.mirror_format_of(r), config.mirror_keys_of(r)) for r in config.mirror.routes)
    mine = [subject for read in reads for subject in _needed(*read) if subject not in known]
    yield from guarded("the Schema Registry", partial(_registry, config, mine))


def _mirror(config: Config, kafka: KafkaAdmin, clock: Clock) -> Iterator[Finding]:
    from chsink.mirror.package import check_installed

    check_installed()
    from chsink.mirror import checks  # needs the packages

    landed = config.topics if config.clickhouse_section else ()
    config = config.with_mirrored(kafka.topics)
    mine = [topic for topic in config.mirror.topics if topic not in landed]
    yield from topics_findings(kafka, mine, {}, clock.now_ms())
    yield from checks.mirror_findings(config, kafka)
    yield from mirror_registry(config, _subjects(config) if landed else ())


def _topics(services: Services) -> Iterator[Finding]:
    """Whether Kafka lists its topics, and whether each ``topic_pattern`` matches at least one that no route names."""
    topics = services.kafka.topics()
    named = {topic for section in services.config.route_sections for topic in section.named}
    matched = {route.at for route in services.config.routes if route.topic in services.config.matched_topics}
    for at, section in enumerate(services.config.route_sections):
        if section.topic_pattern is not None:
            place = {"route": f"route[{at}]", "pattern": section.topic_pattern}
            if f"route[{at}]" in matched or any(map(section.matches, services.config.waiting)):
                yield passed(preflight.PATTERN_MATCHES_NOTHING, **place)
            elif taken := [topic for topic in topics if topic in named and section.matches(topic)]:
                yield found(Severity.WARNING, preflight.PATTERN_LEFT_NOTHING, topics=", ".join(taken), **place)
            else:
                yield found(Severity.WARNING, preflight.PATTERN_MATCHES_NOTHING, **place)


def _reported(services: Services, clickhouse: ClickHouseChecks) -> set[str]:
    """What need not be said of the state store, too: its user or its server is one of those of the tables."""
    state = services.config.state
    said = {preflight.LOGIN_REFUSED.id} if clickhouse.login_refused and isinstance(state, KeeperMap) else set()
    if (
        isinstance(state, KeeperMap)
        and state.url is None
        and services.clickhouse.clients[0] not in clickhouse.answering
    ):
        said.add(store_errors.STATE_STORE_UNAVAILABLE.id)
    return said


def _store(services: Services, clickhouse_answers: bool) -> Iterator[Finding]:
    config, store = services.config, services.store
    if isinstance(store, KeeperMapStore) and clickhouse_answers:
        missing = False
        for finding in check_grants(store.client, config, str(store.table), rights_on(On.STATE, Use.STATE)):
            missing |= finding.severity is Severity.ERROR
            yield finding
        if missing:  # the test would be refused
            return
    yield from store_findings(store, config.sink.name, lambda: uuid.uuid4().hex)
    if isinstance(store, ZooKeeperStore):
        yield from store.open_nodes(config.sink.name)
    read_records(store, config.sink.name)


def _subjects(config: Config) -> list[Subject]:
    """The Schema Registry's subjects that the routes to ClickHouse need."""
    return [subject for r in config.routes for subject in _needed(r.topic, r.format, r.keys)]


def _needed(topic: str, value: FormatSettings, keys: KeyColumns | None) -> Iterator[Subject]:
    if value.needs_registry:
        yield topic, f"{topic}-value"
    if keys is not None and keys.format.needs_registry:
        yield topic, f"{topic}-key"


def _registry(config: Config, subjects: Sequence[Subject]) -> Iterator[Finding]:
    if subjects:
        with closing(Registry(config.schema_registry)) as registry:
            yield from registry_findings(registry, list(dict.fromkeys(subjects)))


def _changed_columns(services: Services, records: StateRecords) -> Iterator[Finding]:
    """Which column of a table was altered while ranges were in doubt, where the recorded digest says so."""
    cluster, bare = services.clickhouse, Untouched(services.config.kafka.isolation_level)
    doubtful = {(key.topic_table, record.sent.pipeline) for key, record in records.items() if record.in_doubt}
    with suppress(PreflightError):  # a table is not there: other checks say so
        for (topic, table), recorded in sorted(doubtful):
            if (topic, table) in cluster.targets:
                change = column_change(decoder(cluster, (topic, table), bare), recorded)
                if change:
                    yield found(Severity.WARNING, preflight.DOUBT_COLUMNS, topic=topic, table=table, change=change)


def _replays(services: Services, clickhouse: ClickHouseChecks) -> Iterator[Finding]:
    doubtful = replays_in_doubt(services.store, services.config.sink.name)
    for key, record in doubtful.items():
        said = {"tp": key.topic_partition, "letters": len(record.doubt.only), "table": key.table}
        yield found(Severity.WARNING, preflight.DOUBT_REPLAY, **said)
    if doubtful:
        owner = read_owner(services.store, replay_sink(services.config.sink.name))
        yield from (replace(each, severity=Severity.WARNING) for each in clickhouse.renamed(doubtful, owner))


def _records(services: Services) -> StateRecords | None:
    """The recorded state; None if it cannot be read."""
    try:
        return read_records(services.store, services.config.sink.name)
    except ChsinkError:
        return None


def _chunks(services: Services, records: StateRecords, topics: Collection[str]) -> tuple[int | None, int]:
    """How many chunks a batch of these topics may have: by ``max_offsets_per_trigger`` (None if not set), and if the
    batch takes all offsets that wait in Kafka now.
    """
    kafka, size = services.kafka, services.config.clickhouse.chunk_offsets
    partitions = kafka.partitions(topics)
    most = services.config.kafka.max_offsets_per_trigger
    bound = None if most is None else most // size + len(partitions)
    recorded: dict[TopicPartition, int] = {}
    for key, record in records.items():
        if record.phase is not Phase.EMPTY:  # with several tables, the one that is furthest behind
            recorded[key.topic_partition] = min(record.end, recorded.get(key.topic_partition, record.end))
    starts, ends = kafka.log_starts(partitions), kafka.log_ends(partitions)
    waiting = (max(0, ends[tp] - recorded.get(tp, starts[tp])) for tp in partitions)
    return bound, sum(-(-n // size) for n in waiting)
