"""The ClickHouse lander: the landing protocol of BEFORE and AFTER over the shards of a configuration."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import structlog

from chsink.batch.reader import ReadPlan, Span
from chsink.batch.roles import Landing, TaskBody
from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.dead_letters import LettersTable
from chsink.clickhouse.deleted_offsets import deleted_lists
from chsink.clickhouse.deletes import deletes_of
from chsink.clickhouse.pieces import PieceTask
from chsink.clickhouse.pipelines import Pipelines
from chsink.clickhouse.unknown_fields import FieldWatch, watch_of
from chsink.config import Config, Errors
from chsink.dlq.fates import Fate, Fates, tolerance
from chsink.dlq.letters import RECORD_FIELDS
from chsink.dlq.place import LettersTopic
from chsink.driver.driver import Destination, Driver
from chsink.driver.lanes import Lanes, answering, in_lanes
from chsink.driver.ledger import Ledger
from chsink.driver.recheck import check_logs
from chsink.driver.roles import Assignment, Observer
from chsink.driver_name import driver_name
from chsink.errors import preflight
from chsink.formats.announced_columns import reads_format
from chsink.formats.decoders import decoder_of
from chsink.formats.pipeline import LetterSettings, fingerprint
from chsink.notation.metadata_columns import METADATA_COLUMNS, SHARD_TYPES
from chsink.ports import Decoder, KafkaCluster, StateStore, StreamShape
from chsink.sharding import Layout, Shard
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import TopicTable
from chsink.statemachine.table import Policy

IDENTITY_FIELDS = ("topic", "partition", "offset")


def open_landing(
    cluster: Cluster,
    store: StateStore,
    kafka: KafkaCluster,
    stream: StreamShape,
    *,
    observer: Observer,
    log: structlog.typing.FilteringBoundLogger,
) -> Landing[Assignment]:
    """Put the driver together for a stream and claim the sink.  The target tables are those that ``cluster`` describes.

    Raises ChsinkError when the sink cannot be claimed, or Kafka's log ends before what was landed.
    """
    lanes, tasks = assemble(cluster, store, kafka, stream, observer, log)
    lanes.claim(cluster.layouts)
    owner = lanes.ledger.owner
    log.info("claimed", epoch=owner.epoch, driver=owner.driver, store=store.name)
    check_logs(kafka, lanes.topics, lanes.ledger.records)
    return Landing(lanes, tasks)


def assemble(  # noqa: PLR0917 - all that a sink is made of
    cluster: Cluster,
    store: StateStore,
    kafka: KafkaCluster,
    stream: StreamShape,
    observer: Observer,
    log: structlog.typing.FilteringBoundLogger,
) -> tuple[Lanes, PieceTasks]:
    """Drivers that own nothing yet, and their tasks."""
    config = cluster.config
    check_stream(cluster, stream)
    ledger = new_ledger(cluster, store, driver_name())
    window = cluster.window(ledger.layout)
    decoders = {leads: decoder(cluster, leads, stream) for leads in cluster.targets}
    pipelines = Pipelines(decoders, stream, window.shards, letters_part(cluster), growing(cluster))
    destinations = []
    for leads, route in cluster.routes.items():
        layout = cluster.layout(route).fingerprint()
        pipeline = pipelines.fingerprint(leads, layout)
        destinations.append(Destination(*leads, config.clickhouse.chunk_offsets, layout, pipeline))
    errors = config.errors
    policy = Policy(on_gap=errors.on_gap, on_rewind=errors.on_rewind, in_doubt=errors.in_doubt)
    lanes = in_lanes(destinations)
    lists = deleted_lists(cluster, letters_topic(config), log)

    def driver(lane: int) -> Driver:
        routes = lanes[lane]

        def pipeline_of(topic: str, layout: str, recorded: str) -> str:
            return pipelines.fingerprint((topic, routes[topic].table), layout, recorded)

        return Driver(
            ledger,
            routes,
            kafka,
            window,
            cluster.clock,
            policy,
            observer,
            pipeline_of,
            answers_for=answering(lanes, lane),
            list_deleted=lists,
        )

    tasks = PieceTasks(cluster, kafka, pipelines, ledger)
    from_first = config.kafka.starting_offsets == "earliest"
    return Lanes([driver(lane) for lane in range(len(lanes))], from_first), tasks


@dataclass(frozen=True)
class PieceTasks:
    """:class:`chsink.batch.roles.Tasks` that insert pieces."""

    cluster: Cluster
    kafka: KafkaCluster
    pipelines: Pipelines
    ledger: Ledger

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """What the decoders of all routes read, together, what layouts (of the configuration, and of ranges in doubt)
        hash of the record itself, and what dead letters hold.
        """
        decoded = [f for d in self.pipelines.decoders.values() for f in d.record_fields]
        hashed = {k for _, text in self.ledger.owner.layouts for k in Layout.from_json(text).hashed}
        keys = [METADATA_COLUMNS[k].source for k in SHARD_TYPES if k in hashed]
        kept = RECORD_FIELDS if self.cluster.config.keeps_records else ()
        return tuple(dict.fromkeys((*IDENTITY_FIELDS, *decoded, *keys, *kept)))

    @cached_property
    def _insert_settings(self) -> dict[str, str | int]:
        return self.cluster.insert_settings()

    def body(self, assignments: Sequence[Assignment], planned: Mapping[TopicPartition, OffsetRange]) -> TaskBody:
        """See :class:`chsink.batch.roles.Tasks`."""
        ch, errors, letters = self.cluster.config.clickhouse, self.cluster.config.errors, self.cluster.letters
        spans = {a.topic_partition: Span(a.range, a.record.sent.chunk_offsets) for a in assignments}
        return PieceTask(
            ReadPlan(dict(planned), spans, ch.max_chunk_bytes),
            {a.topic_partition: replace(a, layout=self.cluster.placed(a.layout)) for a in assignments},
            {a.topic_partition: self.pipelines.decoder(a.key.topic_table, a.record.sent.pipeline) for a in assignments},
            {
                a.topic_partition: self.pipelines.tables(
                    a.key.topic_table, a.record.sent.layout, a.record.sent.pipeline
                )
                for a in assignments
            },
            self.cluster.access,
            self.kafka,
            self._insert_settings,
            ch.retry_for_s,
            self.cluster.config.in_doubt.margin_s,
            fates_of(errors),
            letters_topic(self.cluster.config) if letters is None else LettersTable(letters.replicas, letters.table),
            self._watches(assignments),
        )

    def _watches(self, assignments: Sequence[Assignment]) -> dict[TopicPartition, FieldWatch]:
        """What looks for fields without a column; not in a stream whose columns are the table's."""
        watches, most = {}, self.cluster.config.tables.max_columns
        for a in assignments:
            leads = a.key.topic_table
            target, route = self.cluster.targets[leads], self.cluster.routes[leads]
            announced = self.pipelines.decoder(leads, a.record.sent.pipeline)
            if reads_format(announced):
                named = route.format.named | {*route.key_columns}
                watches[a.topic_partition] = watch_of(route.format, target, named, announced.filled, most)
        return watches


def fates_of(errors: Errors) -> Fates:
    """What the job file says about records without a row."""
    tombstone = None if errors.on_tombstone in {"bad", "delete"} else Fate(errors.on_tombstone)
    return Fates(Fate(errors.on_bad_value), tombstone, tolerance(errors.tolerance))


def check_stream(cluster: Cluster, stream: StreamShape) -> None:
    """PreflightError CHS-271 where dead letters need a column that the stream does not have."""
    missing = [name for name in RECORD_FIELDS if name not in stream.columns]
    if cluster.config.keeps_records and missing:
        raise preflight.DEAD_LETTERS_FIELDS(columns=", ".join(missing))


def decoder(cluster: Cluster, leads: TopicTable, stream: StreamShape) -> Decoder:
    """What turns the topic's records into rows of the table."""
    target, route = cluster.targets[leads], cluster.routes[leads]
    elsewhere = {c.name for t in cluster.targets.values() if t is not target for c in t.table.insertable}
    columns, timezone = target.table.insertable, target.table.timezone
    elsewhere |= {r.choice.name for r in cluster.routes.values() if r.choice and r.choice.source == "column"}
    return decoder_of(
        target.name,
        columns,
        timezone,
        stream,
        route.format,
        keys=route.keys,
        choice=route.choice,
        elsewhere=elsewhere,
        deletes=deletes_of(cluster, leads) if cluster.config.errors.on_tombstone == "delete" else None,
    )


def present_fingerprint(cluster: Cluster, leads: TopicTable, stream: StreamShape) -> str:
    """What an insert of the topic into the table would carry now, under the present shard layout."""
    identities = [s.table.identity for s in cluster.targets[leads].shards]
    grows = leads in growing(cluster)
    return fingerprint(decoder(cluster, leads, stream), stream, identities, letters_part(cluster), growing=grows)


def growing(cluster: Cluster) -> frozenset[TopicTable]:
    """The routes whose tables gain columns for new fields."""
    return frozenset(leads for leads, route in cluster.routes.items() if cluster.config.adds_columns(route))


def letters_part(cluster: Cluster) -> LetterSettings | None:
    """The part of dead letters in a fingerprint.  A topic is the same by its name: what was delivered is known by the
    group, not by the topic.
    """
    fates = fates_of(cluster.config.errors)
    by_key = {"on_bad_value": fates.bad_value.value, "on_tombstone": (fates.tombstone or fates.bad_value).value}
    if cluster.letters is not None:
        table, first = cluster.letters.table, cluster.config.clickhouse.endpoints[0]
        # ON CLUSTER gives the tables of all servers one UUID.
        server = "" if table.replicated else Shard(first.urls, name=first.name).identity
        return LetterSettings(f"{table.identity} {server}".rstrip(), by_key)
    place = letters_topic(cluster.config)
    return None if place is None else LetterSettings(f"topic {place.topic}", by_key)


def letters_topic(config: Config) -> LettersTopic | None:
    """The topic of dead letters, None where they go elsewhere, or nowhere."""
    topic, kafka = config.dead_letters.topic, config.kafka
    if topic is None or not config.keeps_dead_letters:
        return None
    return LettersTopic(kafka.client_options(), topic, config.sink.name, kafka.timeout_s)


def new_ledger(cluster: Cluster, store: StateStore, driver: str, sink: str = "", *, resets: bool = False) -> Ledger:
    """The state rows of the configured sink, or of another name, for a driver of this name.  Nothing is claimed yet."""
    new_attempt: Callable[[], str] = lambda: uuid.uuid4().hex  # noqa: E731 - a name for its type
    config = cluster.config
    timeout_ms = int(config.state.timeout_s * 1000)
    return Ledger(
        store,
        sink or config.sink.name,
        driver,
        cluster.clock,
        new_attempt,
        timeout_ms,
        config.matched_topics,
        () if sink else named_by_records(cluster),
        resets,
    )


def named_by_records(cluster: Cluster) -> frozenset[TopicTable]:
    """The tables that the records of a topic name."""
    return frozenset(leads for leads, route in cluster.routes.items() if route.choice)
