"""The checks of one configuration's servers and target tables, in an order in which each may rely on the ones before.

A server that does not answer costs the checks that need it, not the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from chsink.clickhouse.checks import rights, rules, servers
from chsink.clickhouse.checks.columns import column_findings
from chsink.clickhouse.checks.distributed import distributed_findings
from chsink.clickhouse.checks.emptied import emptied_findings
from chsink.clickhouse.checks.existing_rows import existing_rows_findings
from chsink.clickhouse.checks.hashes import hash_findings
from chsink.clickhouse.checks.letters import letters_findings
from chsink.clickhouse.checks.records import in_doubt_findings, layout_findings
from chsink.clickhouse.checks.replicas import (
    Status,
    forgetting,
    log_end,
    memory_findings,
    replica_findings,
    status,
    together,
)
from chsink.clickhouse.checks.rules import Load, Replication
from chsink.clickhouse.checks.tables import target_findings
from chsink.clickhouse.checks.views import attached, view_findings, views_differ
from chsink.clickhouse.client import ClickHouseClient
from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.dedup_mark import usable_blocks
from chsink.clickhouse.distributed import sharding_expression
from chsink.clickhouse.feeds import dependents
from chsink.clickhouse.grants import On, Use, needed
from chsink.clickhouse.landing import decoder, growing, letters_part
from chsink.clickhouse.pipelines import Pipelines
from chsink.clickhouse.shards import RoutedTable, ShardTable, asked
from chsink.clickhouse.table import TargetTable
from chsink.clickhouse.writer import bounded
from chsink.config import Route
from chsink.errors import ChsinkError, PreflightError, preflight, services
from chsink.findings import Finding, Severity, found, guarded, of_error
from chsink.formats.pipeline import Untouched
from chsink.notation.sql import TableName
from chsink.ports import Queries, ServerRefused, Unanswered, is_away
from chsink.sharding import Layout
from chsink.statemachine.owner import Owner
from chsink.statemachine.records import StateKey, StateRecord, StateRecords, TopicTable

WrittenColumns = Mapping[TopicTable, Collection[str]]
_OF_FORMAT = (preflight.FORMAT_COLUMN_REQUIRED, preflight.FORMAT_EPOCH, preflight.SCHEMA_FILE_WRONG)
CANNOT_DECODE = {
    each.id
    for each in (
        *_OF_FORMAT,
        preflight.DELETES_UNKNOWN,
        preflight.NO_REGISTRY_PACKAGES,
        preflight.FORMAT_COLUMN_UNKNOWN,
    )
}
NO_ANSWER = (services.CLICKHOUSE_UNAVAILABLE.id, preflight.LOGIN_REFUSED.id)


@dataclass(frozen=True, slots=True)
class Together:
    """What one replica said of all its target tables at once: rights, and the views behind each."""

    url: str = ""
    granted: Collection[str] = ()
    views: Mapping[TableName, list[TableName]] = field(default_factory=dict)


def _together(client: Queries, tables: Collection[TargetTable]) -> Together:
    url, granted = client.url, rights.granted_together(client, tables)
    views = dependents(client, [table.at for table in tables])
    return Together(url, granted, views) if client.url == url else Together()


class ClickHouseChecks:
    """One run of all of them.  ``written`` names, by topic and table, the columns that the stream has, where it is
    known.
    """

    def __init__(self, cluster: Cluster, written: WrittenColumns) -> None:
        self._cluster = cluster
        self._config = cluster.config
        self._written = written
        self._settings: dict[tuple[str, str], str] = {}
        self._targets: dict[TopicTable, RoutedTable] = {}
        self.answering: list[ClickHouseClient] = []
        self.login_refused = False
        self._said_together: dict[int, Together] = {}
        self._away: set[str] = set()
        self._heard: set[str] = set()

    def servers(self) -> Iterator[Finding]:
        """Each configured server, and whether this user may set what every insert sets."""
        for client, endpoint in zip(self._cluster.clients, self._config.clickhouse.endpoints, strict=True):
            yield from self._server(client)
            further = [self._cluster.client((url,)) for url in endpoint.urls if url != client.url]
            for replica in further:
                yield from self._further(replica)
            heard = [replica for replica in (client, *further) if replica.url in self._heard]
            margin_s = self._config.in_doubt.margin_s
            yield from guarded(client.url, partial(servers.clock_findings, heard, self._cluster.clock, margin_s))

    @property
    def complete(self) -> bool:
        """Whether every server answered."""
        return len(self.answering) == len(self._cluster.clients)

    def tables(self) -> Iterator[Finding]:
        """Each route's table on every shard."""
        with suppress(ChsinkError, ServerRefused, Unanswered):  # then each table is asked about by itself
            self._ask_together()
        for leads, route in self._cluster.routes.items():
            yield from self._target(leads, route)
        if self._targets.keys() == self._cluster.routes.keys():
            for leads in sorted(self._targets.keys() - self._written.keys()):
                yield from self._filled(leads)
        if self._config.keeps_dead_letters and self._config.dead_letters_table is not None:
            yield from guarded("the table of dead letters", self._letters)
        for client, endpoint in zip(self._cluster.clients, self._config.clickhouse.endpoints, strict=True):
            yield from guarded(client.url, partial(self._unused_rights, client, endpoint.urls))

    def state(self, records: StateRecords, owner: Owner | None) -> Iterator[Finding]:
        """What is recorded, against the tables and the configured layout."""
        cluster, renamed = self._cluster, list(self.renamed(records, owner))
        yield from renamed
        if self._targets.keys() == cluster.routes.keys() and not renamed:
            window = cluster.window(owner.layout if owner else lambda _: None)
            bare = Untouched(self._config.kafka.isolation_level)

            def present_pipeline(key: StateKey, record: StateRecord) -> str:
                if not window.shards(key.table, record.sent.layout):  # a layout that is not stored: CHS-312 says so
                    return record.sent.pipeline
                leads = key.topic_table
                decoders, letters = {leads: decoder(cluster, leads, bare)}, letters_part(cluster)
                pipelines = Pipelines(decoders, bare, window.shards, letters, growing(cluster))
                return pipelines.fingerprint(leads, record.sent.layout, record.sent.pipeline)

            yield from in_doubt_findings(records, self._targets, window, cluster.clock.now_ms(), present_pipeline)
        present = {leads: cluster.layout(route).fingerprint() for leads, route in cluster.routes.items()}
        yield from layout_findings(records, owner, present)

    def renamed(self, records: StateRecords, owner: Owner | None) -> Iterator[Finding]:
        """Layouts of ranges in doubt that do not tell where their shards are now (CHS-407, CHS-409)."""
        cluster, stored = self._cluster, dict(owner.layouts) if owner else {}
        present, doubtful = cluster.layouts, {key: record for key, record in records.items() if record.in_doubt}
        asked_for = {r.sent.layout for k, r in doubtful.items() if r.sent.layout in present or cluster.is_routed(k)}
        for layout in sorted(asked_for & stored.keys()):
            try:
                if layout in present:
                    Layout.from_json(present[layout]).with_former(stored[layout])
                else:
                    cluster.placed(stored[layout])
            except ChsinkError as error:
                yield of_error(error)

    def existing_rows(self, records: StateRecords, latest: Callable[[], StateRecords]) -> Iterator[Finding]:
        """Rows that the recorded state does not account for, unless the job accepts them."""
        if self._config.errors.on_existing_rows == "accept":
            return
        clock = self._cluster.clock
        asked_ms = clock.steady_ms()
        for target in self._targets.values():
            check = partial(existing_rows_findings, records, target, latest, clock, asked_ms)
            yield from guarded(f"rows of {target.topic} in {target.name}", check)

    def emptied(self, records: StateRecords, owner: Owner | None) -> Iterator[Finding]:
        """Tables without a row in which, by the recorded state, rows landed."""
        stored = dict(owner.layouts) if owner else {}
        for leads, target in self._targets.items():
            layout = self._cluster.layout(self._cluster.routes[leads]).fingerprint()
            check = partial(emptied_findings, records, target, layout, stored, self._cluster.clock)
            yield from guarded(f"rows of {target.topic} in {target.name}", check)

    def windows(self, chunks: Callable[[Collection[str]], tuple[int | None, int]]) -> Iterator[Finding]:
        """A batch's blocks against the deduplication window of each table, and of those that its views fill.

        ``chunks`` gives, of some topics, the chunks that a batch may have: at most, and of what waits in Kafka now.
        """
        by_name: dict[str, list[RoutedTable]] = {}
        for target in self._targets.values():
            by_name.setdefault(target.name, []).append(target)
        for name, targets in by_name.items():
            bound, backlog = chunks([t.topic for t in targets])
            transformed = any((t.topic, t.name) in self._written for t in targets)  # a record may have become many rows
            for shard in (s for s in targets[0].shards if s.table.window_blocks):  # else CHS-210 says so
                per_block = self._config.clickhouse.settings.get("max_partitions_per_insert_block")
                if per_block is None:
                    per_block = self._setting(shard.client, "max_partitions_per_insert_block")
                for table in shard.table.with_fed:
                    touched = servers.table_partitions(shard.client, table) if table.partition_key else 0
                    rows = None if transformed or table is not shard.table else self._config.clickhouse.chunk_offsets
                    load = Load(bound, backlog, bool(table.partition_key), touched, int(per_block or 0), rows)
                    called = name if table is shard.table else table.canonical
                    yield from rules.window(called, shard.url, table.window_blocks, usable_blocks(table), load)

    def _ask_together(self) -> None:
        """About all tables of a server: hundreds of them cost a few questions."""
        shards = []
        for route in self._cluster.routes.values():
            with suppress(PreflightError):
                shards.append(self._cluster.described(route).shards)
        self._said_together = asked(shards, _together)

    def _server(self, client: ClickHouseClient) -> Iterator[Finding]:
        said = self._said(client)
        self.login_refused |= any(f.id == preflight.LOGIN_REFUSED.id for f in said)
        if not any(f.id in NO_ANSWER for f in said):
            self.answering.append(client)
        yield from said

    def _further(self, client: ClickHouseClient) -> Iterator[Finding]:
        """A replica that is not in use: what is wrong with it.  If it is away, another one is used."""
        for finding in self._said(client):
            if finding.id == services.CLICKHOUSE_UNAVAILABLE.id:
                self._away.add(client.url)
                yield found(Severity.WARNING, preflight.REPLICA_AWAY, url=client.url, reason=finding.sentence)
            elif finding.severity is not Severity.OK:
                yield finding

    def _said(self, client: ClickHouseClient) -> list[Finding]:
        ch = self._config.clickhouse
        sent = {**ch.settings, **bounded(ch.insert_timeout_s)}
        said = list(guarded(client.url, lambda: servers.server_findings(client, sent)))
        if not any(f.id in NO_ANSWER for f in said):
            self._heard.add(client.url)
            said += guarded(client.url, lambda: rights.system_grant_findings(client, self._config))
        return said

    def _filled(self, leads: TopicTable) -> Iterator[Finding]:
        """What stops a start that decodes the topic, such as a column that its format names and the table lacks."""
        try:
            decoder(self._cluster, leads, Untouched(self._config.kafka.isolation_level))
        except ChsinkError as raised:
            if raised.id in CANNOT_DECODE:
                yield of_error(raised)

    def _target(self, leads: TopicTable, route: Route) -> Iterator[Finding]:
        try:
            target = self._cluster.described(route)
        except ChsinkError as raised:
            if raised.id == preflight.NO_TABLE.id and self._config.creates(route):
                yield found(
                    Severity.INFO, preflight.NO_TABLE_YET, table=raised.params["table"], url=raised.params["url"]
                )
                yield from self._creation(route)
            else:
                yield of_error(raised)
            return
        self._targets[leads] = target
        of_target = list(target_findings(target))
        yield from of_target
        if any(f.id == preflight.NOT_MERGE_TREE.id and f.severity is Severity.ERROR for f in of_target):
            return
        layout = self._cluster.layout(route)
        yield from guarded(target.name, lambda: column_findings(target, layout, self._written.get(leads)))
        expression = sharding_expression(self._config, route)
        for shard in target.shards:
            yield from guarded(shard.url, partial(self._table, target, shard))
            if self._config.adds_columns(route):
                changes = partial(rights.change_findings, shard.client, self._config, Use.ADD)
                yield from guarded(shard.url, partial(changes, shard.table.at))
            if expression is not None:
                yield from guarded(shard.url, partial(hash_findings, shard, self._config.clickhouse.hash_function))
                weights = [endpoint.weight for endpoint in self._config.clickhouse.endpoints]
                yield from guarded(shard.url, partial(distributed_findings, shard, expression, weights))

    def _creation(self, route: Route) -> Iterator[Finding]:
        """Whether the user may create the route's table."""
        name = self._config.table_of(route)
        for client, own in zip(self._cluster.clients, self._config.databases_of(route), strict=True):
            table = TableName(own or name.database, name.table)
            changes = partial(rights.change_findings, client, self._config, Use.CREATE, table)
            yield from guarded(client.url, changes)

    def _letters(self) -> Iterator[Finding]:
        """The table of dead letters, on the first endpoint."""
        place = self._cluster.letters
        assert place is not None
        yield from letters_findings(place)
        yield from rights.grant_findings(place.client, self._config, place.table, On.LETTERS)
        yield from self._replicas(place, place.table, On.LETTERS)
        yield from self._memory(place)

    def _table(self, target: RoutedTable, shard: ShardTable) -> Iterator[Finding]:
        """One target table on one shard."""
        known = self._said_together.get(shard.source, Together())
        known = known if known.url == shard.url else Together()
        yield from rights.grant_findings(shard.client, self._config, shard.table, On.TABLE, known.granted)
        behind = attached(shard.client, shard.table, known.views)
        yield from view_findings(shard.client, self._config, target.name, shard.table, behind)
        yield from self._replicas(shard, shard.table, On.TABLE)
        for filled in (one for one in behind.filled if one.replicated):
            for finding in self._replicas(shard, filled, None):
                error = finding.severity is Severity.ERROR  # the records are in their own table
                yield replace(finding, severity=Severity.WARNING) if error else finding
        yield from views_differ(shard.table, behind, self._others(shard))
        yield from self._memory(shard)

    def _others(self, shard: ShardTable) -> list[ClickHouseClient]:
        """The replicas that answer, besides the one in use."""
        used = {shard.url, *self._away}
        return [self._cluster.client((url,)) for url in shard.replicas if shard.table.replicated and url not in used]

    def _replicas(self, shard: ShardTable, table: TargetTable, on: On | None) -> Iterator[Finding]:
        """The table on each replica of the shard, by the replica's own URL; ``on``: what the user needs rights on."""
        clients = {url: self._cluster.client((url,)) for url in shard.replicas if table.replicated}
        answers = {url: self._status(client, table) for url, client in clients.items()}
        seen = {url: answer for url, answer in answers.items() if answer is not None}
        for url, answer in seen.items():
            yield from replica_findings(clients[url], table, answer, log_end(seen.values()), self._cluster.clock)
            if url != shard.url and on is not None:
                own = rights.grant_findings(clients[url], self._config, table, on)
                yield from (finding for finding in own if finding.severity is Severity.ERROR)
        own_quorum = self._config.clickhouse.settings.get("insert_quorum")
        quorum = self._setting(shard.client, "insert_quorum") if own_quorum is None else str(own_quorum)
        if seen:
            yield from forgetting(table, [clients[url] for url in seen])
            yield from together(table, seen, quorum, all_answer=self._away.isdisjoint(shard.replicas))
        paths = {url: "" if answer is None else answer.path for url, answer in answers.items() if url not in self._away}
        total = max((one.total for one in seen.values()), default=1)
        judged = rules.replication(table.canonical, Replication(table.replicated, shard.replicas, total, quorum, paths))
        if judged is not None:
            yield judged

    def _status(self, replica: ClickHouseClient, table: TargetTable) -> Status | None:
        if replica.url not in self._away:
            try:
                return status(replica, table)
            except (Unanswered, ServerRefused) as error:
                if not is_away(error):
                    raise
                self._away.add(replica.url)
        return None

    def _memory(self, shard: ShardTable) -> Iterator[Finding]:
        """How long the table remembers tokens, beside how long an insert may take."""
        ch = self._config.clickhouse
        needed_s = self._config.in_doubt.margin_s + math.ceil(ch.insert_timeout_s)
        yield from memory_findings(shard.table, shard.url, needed_s, needed_s + math.ceil(ch.retry_for_s))

    def _unused_rights(self, client: ClickHouseClient, urls: tuple[str, ...]) -> Iterator[Finding]:
        """What the job can do without: ``_part`` is of use where parts are numbered, and rows are looked for."""
        shards = (s for target in self._targets.values() for s in target.shards if s.client is client)
        numbered = {str(s.table.at) for s in shards if s.table.can_probe and not s.table.replicated}
        asked = [
            one
            for one in needed(self._config, Use.RUN, Use.VERIFY, Use.DLQ)
            if one.urls == urls and (one.on in numbered if one.right.optional else one.right.use != Use.RUN)
        ]
        yield from rights.unused_findings(client, self._config, asked)

    def _setting(self, client: Queries, name: str) -> str:
        """The same for all tables of a server, of which there may be hundreds."""
        at = client.url, name
        if at not in self._settings:
            self._settings[at] = servers.setting(client, name)
        return self._settings[at]
