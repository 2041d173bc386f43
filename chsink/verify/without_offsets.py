"""A table without ``_kafka_*`` columns at one moment: what it held, and the state that says what it should hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from chsink.clickhouse.cluster import Cluster
from chsink.driver.ledger import read_records
from chsink.errors import preflight
from chsink.kafka.admin import KafkaAdmin
from chsink.kafka.exact import ExactReader
from chsink.ports import StateStore
from chsink.refusals import asking_target
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord
from chsink.verify.by_content import ContentCheck, comparable, sums_of
from chsink.verify.by_offset import VerifyProgress
from chsink.verify.content import Sums
from chsink.verify.digests import Digester
from chsink.verify.report import PartitionReport, TableReport
from chsink.verify.route import CheckedRoute, Recorded, Selection
from chsink.verify.scope import Scope, SkipReason

PATIENCE_S: Final = 30.0
"""How long to wait for a moment at which nothing is in doubt."""
PAUSE_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class WholeTable:
    """``routes`` are all that lead to the table; ``recorded`` is the state at the moment at which it held ``sums``."""

    routes: Sequence[CheckedRoute]
    recorded: Recorded
    sums: Sums
    scopes: Mapping[TopicPartition, Scope]
    digester: Digester
    notes: tuple[str, ...]

    def check(
        self, clickhouse: Cluster, reader: ExactReader, selection: Selection, progress: VerifyProgress
    ) -> tuple[list[PartitionReport], TableReport]:
        """Compare it with Kafka."""
        first = self.routes[0]
        gaps = any(u.why is SkipReason.GAP for s in self.scopes.values() for u in s.unjudged)
        older = any(s.older_end for s in self.scopes.values())
        return ContentCheck(
            first.table,
            first.places(clickhouse),
            {route.topic: route.maker for route in self.routes},
            self.digester,
            reader,
            selection.any_shard,
            not (gaps or older or any(route.compacted for route in self.routes)),
            progress,
        ).check(self.scopes, self.sums)


def photograph(
    clickhouse: Cluster, store: StateStore, kafka: KafkaAdmin, routes: Sequence[CheckedRoute], selection: Selection
) -> WholeTable:
    """PreflightError CHS-293 to CHS-295 for what cannot be compared as a whole."""
    first = routes[0]
    if selection.partition is not None:
        raise preflight.VERIFY_WHOLE_TABLE(table=first.table)
    if not all(route.rules.rows_stay and route.rules.cells_stay for route in routes):
        raise preflight.VERIFY_INCOMPLETE(table=first.table, reason="its engine or TTL removes or changes rows")
    filled = [set(route.maker.columns()) for route in routes]
    compared, chosen = comparable([c for c in first.maker.columns() if all(c in columns for columns in filled)])
    digester = first.digester(clickhouse, compared)
    recorded, sums = _moment(clickhouse, store, routes, digester)
    scopes = {tp: s for route in routes for tp, s in route.scopes(kafka, recorded, selection).items()}
    _check_complete(first.table, scopes)
    notes = [f"{first.table} lacks _kafka_topic, _kafka_partition or _kafka_offset: compared as a whole, by content"]
    if chosen:
        notes.append(f"{first.table}: not compared, because the server may have chosen the value: {', '.join(chosen)}")
    return WholeTable(routes, recorded, sums, scopes, digester, tuple(notes))


def _moment(
    clickhouse: Cluster, store: StateStore, routes: Sequence[CheckedRoute], digester: Digester
) -> tuple[Recorded, Sums]:
    """The recorded state, and what the table held while it was so.  CHS-294 if the job never pauses."""
    table, sink = routes[0].table, clickhouse.config.sink.name
    give_up_ms = clickhouse.clock.steady_ms() + PATIENCE_S * 1000
    while True:
        before = _of(store, sink, table)
        if not any(r.in_doubt for r in before.values()):
            with asking_target():
                places = routes[0].places(clickhouse)
            sums = sums_of(places, digester)
            if _of(store, sink, table) == before:
                _check_routed(before, routes)
                return before, sums
        if clickhouse.clock.steady_ms() >= give_up_ms:
            raise preflight.VERIFY_BUSY(table=table, seconds=f"{PATIENCE_S:.0f}")
        clickhouse.clock.sleep(PAUSE_S)


def _of(store: StateStore, sink: str, table: str) -> dict[StateKey, StateRecord]:
    records = read_records(store, sink)
    return {key: record for key, record in records.items() if key.table == table}


def _check_routed(recorded: Recorded, routes: Sequence[CheckedRoute]) -> None:
    """Rows of a topic that no route has any more are in the table too."""
    landed = {key.topic for key, record in recorded.items() if record.phase is not Phase.EMPTY}
    other = sorted(landed - {route.topic for route in routes})
    if other:
        reason = f"it holds rows of topic {other[0]}, which the job file no longer routes to it"
        raise preflight.VERIFY_INCOMPLETE(table=routes[0].table, reason=reason)


def _check_complete(table: str, scopes: Mapping[TopicPartition, Scope]) -> None:
    for tp, scope in scopes.items():
        for left_out in scope.unjudged:
            if left_out.why in (SkipReason.DELETED, SkipReason.RECREATED):
                raise preflight.VERIFY_INCOMPLETE(table=table, reason=f"{tp} {left_out.range}: {left_out.why}")
