"""What a start of the sink does before Spark plans a batch.  Nothing here imports Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from chsink.batch.roles import Landing
from chsink.checks import check_start
from chsink.clickhouse.landing import named_by_records, open_landing
from chsink.connect import Services
from chsink.driver.ledger import read_records
from chsink.driver.recheck import check_readable
from chsink.driver.roles import Assignment, Observer
from chsink.errors import stream as errors
from chsink.errors.several import raise_all
from chsink.findings import raise_first
from chsink.kafka.sample import holding, may_have_held
from chsink.ports import StreamShape
from chsink.spark.checkpoint import Folder, checkpoint_findings
from chsink.spark.checks import passed_over_findings, recorded
from chsink.spark.starting import starting_offsets
from chsink.statemachine.choices import joining
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey
from chsink.tables.create import create_missing
from chsink.tables.grow import level


def check_checkpoint(services: Services, folder: Folder) -> None:
    """Raise the first error of the checkpoint: damaged, another query's, or without the state it belongs to."""
    config, routes = services.config, services.clickhouse.routes
    raise_first(checkpoint_findings(folder, config.topics, lambda: recorded(services, claimed=True), routes))


def check_passed_over(services: Services, folder: Folder) -> None:
    """HaltError for all topic-partitions of which the checkpoint has passed records without one of their tables.

    After all other checks of a start: a state that is older than its table looks the same, and CHS-229 names it.
    """
    raise_all([finding.error() for finding in passed_over_findings(services, folder)])


def nothing_waits(services: Services, unrouted: Mapping[TopicPartition, OffsetRange]) -> bool:
    """Whether these ranges are of topics that wait for their first record, and hold none: only aborted transactions.

    HaltError CHS-307 or CHS-301 if Kafka had some when they were planned, and holds nothing of these topics now.
    Without a route, no driver would say so.
    """
    waiting = {tp: offsets for tp, offsets in unrouted.items() if tp.topic in services.config.waiting}
    if waiting:
        check_readable(services.kafka, waiting)
    return waiting.keys() == unrouted.keys() and not any(holding(services.config, waiting))


def never_read(services: Services, passed: Mapping[TopicPartition, OffsetRange]) -> frozenset[TopicPartition]:
    """Topic-partitions of which the checkpoint ``passed`` no record while their topic waited for its first one.

    Kafka must still hold the whole range, without compaction: of what it deleted, a range in doubt may have been
    forgotten (CHS-302).
    """
    config, kafka = services.config, services.kafka
    found = {tp for tp in passed if tp.topic in {*config.matched_topics, *config.waiting}}
    if found:
        recorded = read_records(services.store, config.sink.name)
        found -= {key.topic_partition for key, record in recorded.items() if record.phase is not Phase.EMPTY}
    unread = found - {*may_have_held(config, kafka, {tp: passed[tp] for tp in found})}
    starts = kafka.log_starts(unread)  # last: what Kafka deletes meanwhile was there
    return frozenset(tp for tp in unread if starts[tp] <= passed[tp].start)


def source_offsets(services: Services) -> str:
    """``startingOffsets`` for the Kafka source: the recorded end of each partition (``chsink.spark.starting``).

    Spark uses it only with a new checkpoint, so a lost checkpoint costs nothing.  Offsets that Kafka has deleted are
    left out: they are a gap, and ``errors.on_gap`` decides.
    """
    kafka, topics = services.kafka, services.config.topics
    stored = read_records(services.store, services.config.sink.name)
    held, configured = kafka.log_starts(kafka.partitions(topics)), services.config.kafka.starting_offsets
    routes, matched = services.clickhouse.routes, services.config.matched_topics
    ids = kafka.topic_ids(topics)
    sink = services.config.sink.name
    named = named_by_records(services.clickhouse)
    keys = [StateKey(sink, tp.topic, tp.partition, table) for topic, table in named for tp in held if tp.topic == topic]
    records = {k: r for k, r in stored.items() if services.clickhouse.is_routed(k)}
    records |= joining(stored, keys, named)
    found = starting_offsets(records, routes, ids, held, configured, matched=matched)
    return json.dumps(found)


def create_tables(services: Services) -> None:
    """Create the missing tables.  Topics that wait for their first record have no route from now on."""
    waiting = create_missing(services.clickhouse, services.store, services.kafka, services.log)
    if waiting:
        services.take_up(services.config.without(sorted(waiting)))


def open_for(
    services: Services,
    stream: StreamShape,
    observer: Observer,
    check: Callable[[Services, StreamShape], None] = check_start,
) -> Landing[Assignment]:
    """Check services and tables, then open the lander for the stream."""
    isolation = services.config.kafka.isolation_level
    if stream.isolation_level != isolation:
        raise errors.ISOLATION_DIFFERS(stream=stream.isolation_level, job=isolation)
    services.take_up_topics()
    create_tables(services)
    level(services.clickhouse, services.log)
    check(services, stream)
    return open_landing(
        services.clickhouse, services.store, services.kafka, stream, observer=observer, log=services.log
    )
