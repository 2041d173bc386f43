"""Every route of a job, or a part of them, against what its tables hold.  Claims nothing and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from chsink.clickhouse.cluster import Cluster
from chsink.config import Route
from chsink.driver.ledger import read_records, read_sink
from chsink.errors import PreflightError, preflight
from chsink.errors.counts import counted
from chsink.errors.several import raise_all
from chsink.kafka.admin import KafkaAdmin
from chsink.kafka.exact import ExactReader, open_exact_reader
from chsink.ports import StateStore
from chsink.refusals import asking_target
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import StateKey
from chsink.verify.by_offset import AddedColumn, OffsetCheck, VerifyProgress
from chsink.verify.digests import Digester, Place
from chsink.verify.letters import LettersOfRun
from chsink.verify.report import PartitionReport, Report
from chsink.verify.route import CheckedRoute, Recorded, Selection, examine
from chsink.verify.rules import removals
from chsink.verify.scope import Scope, SkipReason, Unjudged, holds_still
from chsink.verify.without_offsets import WholeTable, photograph

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Audit:
    """What a run will look at, by the state as it was when the run began."""

    clickhouse: Cluster
    store: StateStore
    kafka: KafkaAdmin
    selection: Selection
    recorded: Recorded
    by_offset: tuple[tuple[CheckedRoute, Mapping[TopicPartition, Scope]], ...]
    wholes: tuple[WholeTable, ...]

    @property
    def offsets(self) -> int:
        """How many offsets are judged."""
        scopes = [s for _, s in self.by_offset] + [whole.scopes for whole in self.wholes]
        return sum(scope.offsets for of_route in scopes for scope in of_route.values())

    @property
    def _routes(self) -> list[CheckedRoute]:
        return [route for route, _ in self.by_offset] + [route for whole in self.wholes for route in whole.routes]

    def run(self, progress: VerifyProgress) -> Report:
        """Look at all of it.  UnavailableError when a service does not answer."""
        kafka = self.kafka
        report = Report(self.clickhouse.config.sink.name)
        with closing(open_exact_reader(self.clickhouse.config, lambda tp: kafka.log_starts([tp])[tp])) as reader:
            letters = LettersOfRun(self.clickhouse)
            for route, scopes in self.by_offset:
                with asking_target():
                    places = route.places(self.clickhouse)
                for tp, scope in scopes.items():
                    check = self._offset_check(route, places, tp, letters, reader=reader, progress=progress)
                    report.partitions.append(check.check(tp, scope))
            for whole in self.wholes:
                partitions, table = whole.check(self.clickhouse, reader, self.selection, progress)
                report.partitions += partitions
                report.tables.append(table)
        self._withdraw_changed(report)
        self._note(report)
        return report

    def _offset_check(
        self,
        route: CheckedRoute,
        places: Sequence[Place],
        tp: TopicPartition,
        letters: LettersOfRun,
        *,
        reader: ExactReader,
        progress: VerifyProgress,
    ) -> OffsetCheck:
        key = self._key(tp, route.table)
        record = self.recorded.get(key)
        digester = route.digester(self.clickhouse)
        return OffsetCheck(
            places,
            route.maker,
            route.rules,
            digester,
            reader,
            route.compacted,
            self.selection.any_shard,
            progress,
            None if record is None else letters.of(key, record),
            added_columns(digester, places, tp, self.selection.added),
        )

    def _key(self, tp: TopicPartition, table: str) -> StateKey:
        return StateKey(self.clickhouse.config.sink.name, tp.topic, tp.partition, table)

    def _note(self, report: Report) -> None:
        for route in self._routes:
            report.notes += route.rules.notes
            mine = [p for p in report.partitions if p.table == route.table]
            if any(p.missing.offsets or p.different.offsets for p in mine) and (count := removals(route.target)):
                report.notes.append(f"{counted(count, 'mutations')} of {route.table} deleted or updated rows")
        report.notes += [note for whole in self.wholes for note in whole.notes]
        report.notes = list(dict.fromkeys(report.notes))

    def _withdraw_changed(self, report: Report) -> None:
        """What was found proves nothing where the state was reset, or the topic recreated, during the run."""
        now = read_records(self.store, self.clickhouse.config.sink.name)
        ids = self.kafka.topic_ids([route.topic for route in self._routes])
        topics = {route.topic: route.topic_id for route in self._routes}
        withdrawn = set()
        for at, found in enumerate(report.partitions):
            tp = found.topic_partition
            key = self._key(tp, found.table)
            same_topic = ids[tp.topic] == topics[tp.topic]
            if same_topic and holds_still(self.recorded.get(key), now.get(key)):
                continue
            why = SkipReason.CHANGED if same_topic else SkipReason.RECREATED
            unjudged = sorted([*found.unjudged, *(Unjudged(r, why) for r in found.judged)])
            report.partitions[at] = PartitionReport(tp, found.table, (), unjudged)
            withdrawn.add(found.table)
        report.tables = [table for table in report.tables if table.table not in withdrawn]


def plan(clickhouse: Cluster, store: StateStore, kafka: KafkaAdmin, selection: Selection) -> Audit:
    """What there is to look at.  PreflightError CHS-29x when a part of it cannot be checked."""
    sink = clickhouse.config.sink.name
    owner, recorded = read_sink(store, sink)
    if owner is None:
        raise preflight.VERIFY_NO_SINK(sink=sink)
    routes = [r for r in clickhouse.config.routes if selection.topic in (None, r.topic)]
    if not routes and selection.topic is not None:
        raise preflight.VERIFY_NOT_ROUTED(topic=selection.topic)
    examined = _each(routes, lambda route: examine(clickhouse, kafka, route, recorded))
    by_offset = [route for route in examined if route.rules.by_offset]
    tables = {route.table: route for route in examined if not route.rules.by_offset}

    def whole(table: str) -> WholeTable:
        leading = [r for r in clickhouse.config.routes if clickhouse.config.table_of(r).canonical == table]
        return photograph(
            clickhouse, store, kafka, [examine(clickhouse, kafka, route, recorded) for route in leading], selection
        )

    filled = {column.name for route in by_offset for column in route.maker.columns()}
    for column in selection.added:
        if column not in filled:
            raise preflight.VERIFY_NOT_ADDED(column=column)
    wholes = _each(list(tables), whole)
    for one in wholes:
        recorded = {**recorded, **one.recorded}
    scoped = _each(by_offset, lambda route: (route, route.scopes(kafka, recorded, selection)))
    return Audit(clickhouse, store, kafka, selection, recorded, tuple(scoped), tuple(wholes))


def added_columns(
    digester: Digester, places: Sequence[Place], tp: TopicPartition, names: Sequence[str]
) -> list[AddedColumn]:
    """Those of the named columns that the table has, as its partition's rows fill them."""
    added = []
    for at, column in enumerate(digester.columns):
        if column.name in names:
            default = digester.default_of(places[0].client, at)
            filled = [first for place in places if (first := digester.filled_from(place, tp, at)) is not None]
            added.append(AddedColumn(column.name, at, default, min(filled, default=None)))
    return added


def _each(items: list[Route] | list[str] | list[CheckedRoute], make: Callable[..., T]) -> list[T]:
    """All of them, or one error that says why each of those that failed did."""
    made, refused = [], []
    for item in items:
        try:
            made.append(make(item))
        except PreflightError as error:
            refused.append(error)
    raise_all(refused)
    return made
