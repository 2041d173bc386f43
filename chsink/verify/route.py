"""What the run knows of a route before it reads a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.landing import decoder
from chsink.clickhouse.replicas import current
from chsink.clickhouse.shards import RoutedTable
from chsink.config import Route
from chsink.decode import Column
from chsink.errors import preflight
from chsink.formats.pipeline import TRANSFORM, Untouched, fingerprint, part_of
from chsink.kafka.admin import KafkaAdmin
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey, StateRecord
from chsink.verify.digests import Digester, Place
from chsink.verify.rows import RowMaker
from chsink.verify.rules import Rules, rules_of
from chsink.verify.scope import Scope, scope_of

Recorded = Mapping[StateKey, StateRecord]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which part of a job: None for all of it.  Offsets are of one ``partition``.  ``any_shard``: rows may be on any
    shard.  ``added``: columns that were added after rows had landed.
    """

    topic: str | None = None
    partition: int | None = None
    start: int | None = None
    end: int | None = None
    any_shard: bool = False
    added: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedRoute:
    """``compacted``: Kafka may have removed single records of the topic."""

    topic: str
    topic_id: str | None
    target: RoutedTable
    rules: Rules
    maker: RowMaker
    compacted: bool

    @property
    def table(self) -> str:
        """The table's name."""
        return self.target.name

    def places(self, clickhouse: Cluster) -> list[Place]:
        """The table on each shard, as a replica holds it that is current."""
        clients, clock = clickhouse.patient_clients, clickhouse.clock
        shards = zip(clients, self.target.shards, strict=True)
        return [Place(current(client, s.table, clock), s.table.canonical) for client, s in shards]

    def digester(self, clickhouse: Cluster, columns: Iterable[Column] | None = None) -> Digester:
        """Digests of these columns, or of all that a record fills."""
        compared = self.maker.columns() if columns is None else tuple(columns)
        return Digester(compared, clickhouse.clock, clickhouse.config.clickhouse.retry_for_s)

    def scopes(self, kafka: KafkaAdmin, recorded: Recorded, selection: Selection) -> dict[TopicPartition, Scope]:
        """What is judged of each selected partition, by the state as it was recorded."""
        mine = {k.topic_partition: r for k, r in recorded.items() if k.topic_table == (self.topic, self.table)}
        existing = kafka.partitions([self.topic])
        wanted = [tp for tp in existing if selection.partition in (None, tp.partition)]
        if not wanted:
            raise preflight.VERIFY_NO_PARTITION(topic=self.topic, partition=selection.partition, count=len(existing))
        starts, ends = kafka.log_starts(wanted), kafka.log_ends(wanted)
        logs = {tp: OffsetRange(starts[tp], max(starts[tp], ends[tp])) for tp in wanted}
        return {
            tp: scope_of(mine.get(tp), self.topic_id, log, _asked(selection, mine.get(tp), log))
            for tp, log in logs.items()
        }


def examine(clickhouse: Cluster, kafka: KafkaAdmin, route: Route, recorded: Recorded) -> CheckedRoute:
    """PreflightError CHS-290 or CHS-291 for a route that cannot be checked."""
    leads = route.topic, clickhouse.config.table_of(route).canonical
    target = clickhouse.targets[leads]
    rules = rules_of(target)
    shape = Untouched(clickhouse.config.kafka.isolation_level)
    decodes = decoder(clickhouse, leads, shape)
    untouched = part_of(fingerprint(decodes, shape, []), TRANSFORM)
    mine = [r for k, r in recorded.items() if k.topic_table == leads]
    if any(r.sent.pipeline and part_of(r.sent.pipeline, TRANSFORM) != untouched for r in mine):
        raise preflight.VERIFY_TRANSFORM(topic=route.topic, table=target.name)
    maker = RowMaker(decodes, target, clickhouse.layout(route).to_json())
    [topic_id] = kafka.topic_ids([route.topic]).values()
    return CheckedRoute(route.topic, topic_id, target, rules, maker, kafka.may_be_compacted(route.topic))


def _asked(selection: Selection, record: StateRecord | None, log: OffsetRange) -> OffsetRange | None:
    if selection.start is None and selection.end is None:
        return None
    whole = log if record is None else OffsetRange(record.life.first, record.end)
    start = whole.start if selection.start is None else selection.start
    return OffsetRange(start, max(start, whole.end if selection.end is None else selection.end))
