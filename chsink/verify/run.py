"""Every route of a job, or a part of them, against what its tables hold.  Claims nothing and changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from chsink.batch.ledger import read_records
from chsink.clickhouse.landing import decoder
from chsink.clickhouse.shards import RoutedTable
from chsink.config import Route
from chsink.connect import Services
from chsink.errors import ChsinkError, preflight
from chsink.errors.several import several
from chsink.formats.pipeline import Untouched, fingerprint
from chsink.kafka.exact import ExactReader, open_exact_reader
from chsink.ports import Decoder
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey, StateRecord
from chsink.verify.by_offset import OffsetCheck, Progress
from chsink.verify.digests import Digester
from chsink.verify.report import PartitionReport, Report
from chsink.verify.rules import Rules, removals, rules_of
from chsink.verify.scope import Scope, Unjudged, Why, holds_still, scope_of


@dataclass(frozen=True, slots=True)
class Selection:
    """Which part of a job: None for all of it.  ``offsets`` only of one ``partition``.  ``any_shard``: rows may be on
    any shard.
    """

    topic: str | None = None
    partition: int | None = None
    start: int | None = None
    end: int | None = None
    any_shard: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """One route that can be checked, and what is judged of its partitions."""

    route: Route
    target: RoutedTable
    rules: Rules
    decoder: Decoder
    topic_id: str | None
    scopes: Mapping[TopicPartition, Scope]


@dataclass(frozen=True, slots=True)
class Audit:
    """What a run will look at, by the state as it was when the run began."""

    services: Services
    selection: Selection
    recorded: Mapping[StateKey, StateRecord]
    routes: tuple[Checked, ...]

    @property
    def offsets(self) -> int:
        """How many offsets are judged."""
        return sum(scope.offsets for route in self.routes for scope in route.scopes.values())

    def run(self, progress: Progress) -> Report:
        """Look at all of it.  UnavailableError when a service does not answer."""
        kafka = self.services.kafka
        report = Report(self.services.config.sink.name)
        with closing(open_exact_reader(self.services.config, lambda tp: kafka.log_starts([tp])[tp])) as reader:
            for checked in self.routes:
                found = [self._check(checked, reader, progress, tp, s) for tp, s in checked.scopes.items()]
                report.partitions += found
                report.notes += self._notes(checked, found)
        self._withdraw_changed(report)
        return report

    def _check(
        self, checked: Checked, reader: ExactReader, progress: Progress, tp: TopicPartition, scope: Scope
    ) -> PartitionReport:
        config, clickhouse = self.services.config, self.services.clickhouse
        columns = checked.target.table.insertable
        return OffsetCheck(
            checked.target,
            clickhouse.clients,
            checked.decoder,
            clickhouse.layout(checked.route).to_json(),
            checked.rules,
            Digester(columns, self.services.clock, config.clickhouse.retry_for_s),
            reader,
            self.services.clock,
            self.services.kafka.may_be_compacted(tp.topic),
            self.selection.any_shard,
            progress,
        ).check(tp, scope)

    def _notes(self, checked: Checked, found: Iterable[PartitionReport]) -> list[str]:
        notes = list(checked.rules.notes)
        if any(p.missing.offsets or p.different.offsets for p in found) and (count := removals(checked.target)):
            notes.append(f"{count} mutations of {checked.target.name} deleted or updated rows")
        return notes

    def _withdraw_changed(self, report: Report) -> None:
        """What was found proves nothing where the state was reset, or the topic recreated, during the run."""
        now = read_records(self.services.store, self.services.config.sink.name)
        ids = self.services.kafka.topic_ids([c.route.topic for c in self.routes])
        topics = {c.route.topic: c.topic_id for c in self.routes}
        for at, found in enumerate(report.partitions):
            tp = found.topic_partition
            key = StateKey(self.services.config.sink.name, tp.topic, tp.partition, found.table)
            same_topic = ids[tp.topic] == topics[tp.topic]
            if same_topic and holds_still(self.recorded.get(key), now.get(key)):
                continue
            why = Why.CHANGED if same_topic else Why.RECREATED
            unjudged = sorted([*found.unjudged, *(Unjudged(r, why) for r in found.judged)])
            report.partitions[at] = PartitionReport(tp, found.table, (), unjudged)


def plan(services: Services, selection: Selection) -> Audit:
    """What there is to look at.  PreflightError CHS-29x when a part of it cannot be checked."""
    recorded = read_records(services.store, services.config.sink.name)
    routes = [r for r in services.config.routes if selection.topic in (None, r.topic)]
    if not routes:
        raise preflight.VERIFY_NOT_ROUTED(topic=selection.topic)
    ids = services.kafka.topic_ids([r.topic for r in routes])
    checked, refused = [], []
    for route in routes:
        try:
            checked.append(_checked(services, selection, route, recorded, ids[route.topic]))
        except ChsinkError as error:
            refused.append(error)
    if refused:
        raise several(refused)
    return Audit(services, selection, recorded, tuple(checked))


def _checked(
    services: Services,
    selection: Selection,
    route: Route,
    recorded: Mapping[StateKey, StateRecord],
    topic_id: str | None,
) -> Checked:
    target = services.clickhouse.targets[route.topic]
    rules = rules_of(target)
    if not rules.by_offset:
        raise preflight.VERIFY_WHOLE_TABLE(table=target.name)
    mine = {k.topic_partition: r for k, r in recorded.items() if (k.topic, k.table) == (route.topic, target.name)}
    decodes = _decoder(services, target, mine.values())
    existing = services.kafka.partitions([route.topic])
    wanted = [tp for tp in existing if selection.partition in (None, tp.partition)]
    if not wanted:
        raise preflight.VERIFY_NO_PARTITION(topic=route.topic, partition=selection.partition, count=len(existing))
    starts, ends = services.kafka.log_starts(wanted), services.kafka.log_ends(wanted)
    scopes = {}
    for tp in wanted:
        log = OffsetRange(starts[tp], max(starts[tp], ends[tp]))
        scopes[tp] = scope_of(mine.get(tp), topic_id, log, _asked(selection, mine.get(tp), log))
    return Checked(route, target, rules, decodes, topic_id, scopes)


def _asked(selection: Selection, record: StateRecord | None, log: OffsetRange) -> OffsetRange | None:
    if selection.start is None and selection.end is None:
        return None
    start = selection.start if selection.start is not None else (record.first if record else log.start)
    end = selection.end if selection.end is not None else max(record.end if record else log.end, start)
    return OffsetRange(start, end)


def _decoder(services: Services, target: RoutedTable, records: Iterable[StateRecord]) -> Decoder:
    """What decoded the records, unless a transform came before it, which only the job knows."""
    shape = Untouched(services.config.kafka.isolation_level)
    decodes = decoder(services.clickhouse, target.topic, shape)
    untouched = _transform(fingerprint(decodes, shape, []))
    if any(r.pipeline and _transform(r.pipeline) != untouched for r in records):
        raise preflight.VERIFY_TRANSFORM(topic=target.topic, table=target.name)
    return decodes


def _transform(pipeline: str) -> str | None:
    parts = dict(part.partition("=")[::2] for part in pipeline.split(","))
    return parts.get("transform")
