"""All checks of one configuration, in an order in which each may rely on the ones before.

A service that does not answer costs the checks that need it, not the others.
"""

from __future__ import annotations

import platform
import uuid
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING

from chsink.batch.ledger import read_owner, read_records
from chsink.clickhouse.preflight import Target, target_findings
from chsink.clickhouse.remembered import usable_blocks
from chsink.clickhouse.table import TargetTable
from chsink.clickhouse.writer import bounded
from chsink.config import Route
from chsink.doctor import rules, servers
from chsink.doctor.columns import column_findings
from chsink.doctor.records import in_doubt_findings, layout_findings, lost_state_findings
from chsink.doctor.rules import Load, Replication
from chsink.doctor.store import state_grant_findings, store_findings
from chsink.doctor.topics import topic_findings
from chsink.errors import ChsinkError
from chsink.findings import Finding, Severity, guarded, of_error
from chsink.pipelines import Untouched, fingerprint
from chsink.ports import Unanswered
from chsink.state.keepermap import KeeperMapStore
from statemachine.records import Phase, StateKey, StateRecord

if TYPE_CHECKING:
    from chsink.clickhouse.client import ClickHouseClient
    from chsink.wiring import Wiring

Written = Mapping[str, Collection[str]]
Records = Mapping[StateKey, StateRecord]


def start(wiring: Wiring, written: Written) -> None:
    """The checks of a start.  Logs warnings; raises the first error, after logging the others."""
    errors: list[Finding] = []
    for finding in Examination(wiring, written).findings():
        if finding.severity is Severity.ERROR:
            errors.append(finding)
        elif finding.severity is Severity.WARNING:
            wiring.log.warning(finding.sentence, id=finding.id, fix=finding.fix)
    for other in errors[1:]:
        wiring.log.error(other.sentence, id=other.id, fix=other.fix)
    if errors:
        raise errors[0].error()


class Examination:
    """One run of all checks.  ``written`` names, by topic, the columns that the stream has, where it is known."""

    def __init__(self, wiring: Wiring, written: Written | None = None) -> None:
        self._wiring = wiring
        self._config = wiring.config
        self._written = written or {}
        self._targets: dict[str, Target] = {}
        self._answering: list[ClickHouseClient] = []

    def findings(self) -> Iterator[Finding]:
        """All findings."""
        yield versions()
        for client in self._wiring.clients:
            yield from self._server(client)
        complete = len(self._answering) == len(self._wiring.clients)
        if complete:
            for route in self._config.routes:
                yield from self._target(route)
        yield from guarded("the state store", self._store)
        records = self._records()
        kafka_answers = yield from self._topics(records)
        if complete and records is not None:
            yield from guarded("the state", partial(self._state, records))
            if kafka_answers:
                yield from guarded("the deduplication windows", partial(self._windows, records))

    # --- ClickHouse -----------------------------------------------------------------------------------------------

    def _server(self, client: ClickHouseClient) -> Iterator[Finding]:
        ch, margin_s = self._config.clickhouse, self._config.in_doubt.margin_s
        sent = {**ch.settings, **bounded(ch.insert_timeout_s)}
        found = list(guarded(client.url, lambda: servers.server_findings(client, self._wiring.clock, margin_s, sent)))
        if not any(f.id in ("CHS-709", "CHS-232") for f in found):
            self._answering.append(client)
        yield from found

    def _target(self, route: Route) -> Iterator[Finding]:
        try:
            target = self._wiring.target(route)
        except ChsinkError as raised:
            yield of_error(raised)
            return
        self._targets[route.topic] = target
        found = list(target_findings(target))
        yield from found
        if any(f.id == "CHS-203" and f.severity is Severity.ERROR for f in found):
            return
        layout = self._wiring.layout(route)
        yield from guarded(target.name, lambda: column_findings(target, layout, self._written.get(route.topic)))
        for client, table in zip(self._wiring.clients, target.tables, strict=True):
            yield from guarded(client.url, partial(self._table, target, client, table))

    def _table(self, target: Target, client: ClickHouseClient, table: TargetTable) -> Iterator[Finding]:
        """One target table on one shard."""
        yield from servers.grant_findings(client, table, self._config.clickhouse.user)
        yield from rules.views(target.name, servers.table_views(client, table))
        replicated = self._replication(target, client, table)
        if replicated is not None:
            yield replicated

    def _replication(self, target: Target, client: ClickHouseClient, table: TargetTable) -> Finding | None:
        at = list(self._wiring.clients).index(client)
        listed = self._config.clickhouse.endpoints[at].urls
        total, _ = servers.total_replicas(client, table)
        paths: dict[str, str] = {}
        for url in listed if table.replicated else ():
            try:
                paths[url] = servers.total_replicas(self._wiring.client((url,)), table)[1]
            except Unanswered:
                continue
        own = self._config.clickhouse.settings.get("insert_quorum")
        quorum = servers.setting(client, "insert_quorum") if own is None else str(own)
        return rules.replication(target.name, Replication(table.replicated, listed, total, quorum, paths))

    # --- state and Kafka ------------------------------------------------------------------------------------------

    def _store(self) -> Iterator[Finding]:
        yield from store_findings(self._wiring.store, self._config.sink.name, lambda: uuid.uuid4().hex)
        store = self._wiring.store
        if isinstance(store, KeeperMapStore) and self._answering:
            yield from state_grant_findings(store.client, store.table, self._config.clickhouse.user)
        read_records(self._wiring.store, self._config.sink.name)

    def _records(self) -> dict[StateKey, StateRecord] | None:
        """The recorded state, None where it cannot be read."""
        try:
            return read_records(self._wiring.store, self._config.sink.name)
        except ChsinkError:
            return None

    def _topics(self, records: Records | None) -> Generator[Finding, None, bool]:
        """Findings of each topic; returns whether Kafka answers.  Once it does not, it is not asked again."""
        for topic in self._config.topics:
            check = partial(topic_findings, self._wiring.kafka, topic, records or {}, self._wiring.clock.now_ms())
            for finding in guarded(f"topic {topic}", check):
                yield finding
                if finding.id == "CHS-702":
                    return False
        return True

    def _state(self, records: Records) -> Iterator[Finding]:
        wiring = self._wiring
        owner = read_owner(wiring.store, self._config.sink.name)
        if len(self._targets) == len(self._config.routes):
            window = wiring.window(owner.layout if owner else lambda _: None)
            bare = Untouched(self._config.kafka.isolation_level)

            def present_pipeline(key: StateKey, record: StateRecord) -> str:
                members = window.members(key.table, record.layout)
                if not members:  # a layout that is not stored: CHS-312 says so
                    return record.pipeline
                return fingerprint(wiring.pipeline(key.topic, bare), [m.table for m in members])

            yield from in_doubt_findings(records, self._targets, window, wiring.clock.now_ms(), present_pipeline)
        present = {r.topic: wiring.layout(r).fingerprint() for r in self._config.routes}
        yield from layout_findings(records, owner, present)
        for target in self._targets.values():
            yield from lost_state_findings(records, target, wiring.clients)

    def _windows(self, records: Records) -> Iterator[Finding]:
        """A batch's blocks against each table's deduplication window."""
        by_name: dict[str, list[Target]] = {}
        for target in self._targets.values():
            by_name.setdefault(target.name, []).append(target)
        for name, targets in by_name.items():
            topics = [t.topic for t in targets]
            bound, backlog = self._chunks(topics, records)
            for client, table in zip(self._wiring.clients, targets[0].tables, strict=True):
                per_block = self._config.clickhouse.settings.get("max_partitions_per_insert_block")
                limit = servers.setting(client, "max_partitions_per_insert_block") if per_block is None else per_block
                load = Load(
                    bound, backlog, bool(table.partition_key), servers.table_partitions(client, table), int(limit or 0)
                )
                yield from rules.window(name, client.url, usable_blocks(table), load)

    def _chunks(self, topics: Collection[str], records: Records) -> tuple[int | None, int]:
        """Chunks that a batch of these topics may have: the bound by configuration, and of what waits in Kafka now."""
        kafka, size = self._wiring.kafka, self._config.clickhouse.chunk_offsets
        partitions = kafka.partitions(topics)
        most = self._config.kafka.max_offsets_per_trigger
        bound = None if most is None else most // size + len(partitions)
        recorded = {k.topic_partition: r.end for k, r in records.items() if r.phase is not Phase.EMPTY}
        starts, ends = kafka.log_starts(partitions), kafka.log_ends(partitions)
        waiting = (max(0, ends[tp] - recorded.get(tp, starts[tp])) for tp in partitions)
        return bound, sum(-(-n // size) for n in waiting)


def versions() -> Finding:
    """The clients in this process, against the versions that chsink was tested with."""
    wanted: dict[str, str] = {}
    try:
        required: Iterable[str] = metadata.requires("chsink") or ()
    except metadata.PackageNotFoundError:
        required = ()
    for requirement in required:
        name, pinned, version = requirement.partition("==")
        if pinned:
            wanted[name] = version.split(";")[0].strip()
    found = {name: metadata.version(name) for name in wanted}
    return rules.client_versions(
        {**wanted, "python": platform.python_version()}, {**found, "python": platform.python_version()}
    )
