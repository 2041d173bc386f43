"""May a piece be sent again?  Only while its table surely remembers the token (``chsink.clickhouse.dedup_mark``).

Where a table forgets tokens by time too, nobody starts a send so late that it could last beyond that, on the server
as well.  The server's own clock tells how late it is.

When a token may be forgotten, pieces are *probed*: looked for by (topic, partition, offset) in the table, and sent
only where nothing is there.  Nobody has to be waited for: whoever may still send the range finds the token doubtful,
too.  A table that does not allow looking means halt, never a guess.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, repeat

from chsink.clickhouse.dedup_mark import Slack, look, looks, most_chunks, why_forgotten, why_too_late, windows_s
from chsink.clickhouse.describe import TableFacts, read_facts
from chsink.clickhouse.probe import count_rows, only_of
from chsink.clickhouse.replicas import said_by_each
from chsink.clickhouse.shards import ShardTable, asked
from chsink.clickhouse.table import NOT_REPLICATED, WINDOW, TargetTable, in_keeper
from chsink.clickhouse.unaccounted import check_nothing_landed
from chsink.driver.pace import TableLimit
from chsink.driver.roles import Looked
from chsink.errors import halts, preflight, services
from chsink.notation.sql import TableName
from chsink.ports import Clock, Queries, ServerRefused, Unanswered
from chsink.statemachine.parts import Mark
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey, StateRecord
from chsink.statemachine.tokens import token_head

LOOK_AGAIN_S = 1
ROUND_S = 3600
"""A round is planned as if its sends had no longer than this: a retry begins at its first chunk."""
SEND_FOR_S = 86_400
"""No task sends later than this after it was given its range: what a person decides meanwhile is not undone later."""
_WAITING = (
    "%s is still running an insert of %s. Waiting up to %d s until it ends; then chsink looks for the rows. To end "
    "it at once, find it in system.processes and stop it with KILL QUERY"
)
OUTLAST_S = 120
"""The least that an insert on a silent server is waited for: it may have been sent with a longer limit than the present
one, but seldom with a longer one than the default.
"""
_OUTLASTING = (
    "%s may still run an insert whose sender is gone: waiting %.0f s, until it must have ended. If "
    "clickhouse.insert_timeout_s was longer when the insert was sent, stop this command, and run it with that value"
)
_REPLICAS = (
    "SELECT replica_name, mapKeys(replica_is_active) FROM system.replicas WHERE database = {database:String} "
    "AND table = {name:String}"
)
_log = logging.getLogger(__name__)
BEYOND = 2**62
"""Above any offset."""


@dataclass(slots=True)
class DedupWindow:
    """:class:`chsink.driver.roles.Window` over the target tables.

    ``shards(table, layout)`` gives the table on each shard of a layout (by fingerprint, None for the present one), in
    the shards' order.  Where a table has a limit by time, no send of a range starts later than that after BEFORE, less
    ``insert_s`` (how long one may take) and ``margin_s`` (clocks of servers that differ).
    ``foreign_accepted``: the job accepts rows that the state does not account for, so they may lie at any offset.
    ``letters`` is the table of dead letters, which every range may send to as to one more shard.
    ``lost`` says whether each shard of a recorded layout has lost a server since; HaltError CHS-409 if nobody knows.
    ``silent``: since when (steady ms) servers that may be gone do not answer.  ``away``: replicas that did not.
    """

    shards: Callable[[str, str | None], Sequence[ShardTable]]
    clock: Clock
    margin_s: int
    insert_s: int
    foreign_accepted: bool = False
    letters: ShardTable | None = None
    lost: Callable[[str], Sequence[bool]] = lambda _: ()
    silent: dict[str, int] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)

    def places(self, table: str, layout: str | None) -> Sequence[ShardTable]:
        """Wherever a range of the table may be sent: the shards of a layout, and the table of dead letters."""
        shards = self.shards(table, layout)
        return shards if self.letters is None else (*shards, self.letters)

    def everywhere(self, table: str, layout: str) -> list[ShardTable]:
        """The table on the shards of a recorded layout and on the present ones, each once.  HaltError CHS-409 as
        ``lost``.
        """
        self.lost(layout)
        recorded, present = self.shards(table, layout), self.shards(table, None)
        known = {(url, shard.table.at) for shard in recorded for url in shard.replicas}
        others = [s for s in present if known.isdisjoint((url, s.table.at) for url in s.replicas)]
        return [*recorded, *(s for s in others if not any(map(partial(_is_same, s), recorded)))]

    def marks(self, tables: Iterable[str], layout: str | None = None) -> dict[str, tuple[Mark, ...]]:
        """See :class:`chsink.driver.roles.Window`."""
        places = {table: self.places(table, layout) for table in tables}
        seen = asked(places.values(), looks)
        return {table: tuple(seen[s.source][s.table.at].mark for s in shards) for table, shards in places.items()}

    def letters_mark(self) -> Mark | None:
        """See :class:`chsink.driver.roles.Window`."""
        return None if self.letters is None else look(self.letters.client, self.letters.table).mark

    def check_unchanged(self, tables: Iterable[str]) -> None:
        """See :class:`chsink.driver.roles.Window`."""
        places = [self.places(table, None) for table in tables]
        seen = asked(places, _definitions)
        for shard in chain.from_iterable(places):
            for table in shard.table.with_fed:
                if seen[shard.source].get(table.at) != table.definition:
                    raise preflight.TABLE_CHANGED(table=table.canonical, url=shard.url)

    def check_nothing_landed(self, topic: str, table: str, partitions: Collection[int]) -> None:
        """See :class:`chsink.driver.roles.Window`."""
        if not self.foreign_accepted:
            check_nothing_landed(self.shards(table, None), table, topic, partitions, self.clock)

    def limit(self, table: str) -> TableLimit:
        """See :class:`chsink.driver.roles.Window`.  Half of what each shard surely remembers: others write, too."""
        shards = self.places(table, None)
        needed_s = self.margin_s + self.insert_s
        for shard in shards:
            check_window(shard.table, shard.url)
            for each in shard.table.with_fed:
                if each.window_s is not None and each.window_s <= needed_s:
                    too_short = {"window": each.window_s, "needed": needed_s, "enough": 2 * needed_s}
                    raise preflight.WINDOW_TOO_SHORT(table=each.canonical, url=shard.url, **too_short)
        chunks = min(most_chunks(s.table) for s in shards)
        return TableLimit(chunks, min([ROUND_S, *(w - needed_s for s in shards for w in windows_s(s.table))]))

    def deadline_ms(self) -> int:
        """See :class:`chsink.driver.roles.Window`."""
        return self.clock.now_ms() + SEND_FOR_S * 1000

    def must_probe(self, key: StateKey, record: StateRecord, looked: Looked | None = None) -> bool:
        """See :class:`chsink.driver.roles.Window`."""
        shards = self.places(key.table, record.sent.layout)
        looked = {} if looked is None else looked
        why = self._forgotten(shards, record, looked)
        if why is None:
            return self._may_have_been_lowered(shards, key, record, looked)
        if not all(m.table.can_probe for m in shards):
            raise halts.CANNOT_PROBE(tp=key.topic_partition, range=record.range, reason=why, table=key.table)
        return True

    def holds_foreign(self, key: StateKey, record: StateRecord) -> bool:
        """See :class:`chsink.driver.roles.Window`.  Rows at or beyond the last offset that was ever announced."""
        if self.foreign_accepted:
            return True
        beyond = OffsetRange(record.end, BEYOND)
        shards, tp = self.shards(key.table, record.sent.layout), key.topic_partition
        if any(count_rows(s.reader(self.clock), s.table.canonical, tp, beyond) for s in shards):
            return True
        kept = self.letters
        if kept is None:
            return False
        return count_rows(kept.reader(self.clock), kept.table.canonical, tp, beyond, only_of(key)) > 0

    def is_alone(self, record: StateRecord) -> bool:
        """See :class:`chsink.driver.roles.Window`."""
        return not self.foreign_accepted and record.start >= record.life.older_end

    def doubtful_tokens(self, key: StateKey, record: StateRecord) -> str | None:
        """Why a token of the range may be gone, None when it surely is not."""
        shards = self.shards(key.table, record.sent.layout)
        if len(record.seen.marks) != len(shards):  # announced with a table of dead letters
            shards = self.places(key.table, record.sent.layout)
        return self._forgotten(shards, record, {})

    def _forgotten(self, shards: Sequence[ShardTable], record: StateRecord, looked: Looked) -> str | None:
        if record.doubt.probe:
            return "chsink found earlier that ClickHouse may have forgotten its tokens"
        if len(record.seen.marks) != len(shards):
            return "chsink does not know what the table held when it announced the range"
        lost = chain(self.lost(record.sent.layout), repeat(False))  # the table of dead letters is on no shard
        for shard, then, moved in zip(shards, record.seen.marks, lost, strict=False):
            if moved and not shard.table.replicated:
                return f"{shard.table.canonical} may have moved to another server, {shard.url}"
            at = shard.url, shard.table.canonical
            if at not in looked:
                seen = look(shard.client, shard.table)
                looked[at] = seen.mark, max(seen.altered_s, self._altered_elsewhere(shard))
            now, _ = looked[at]
            why = why_forgotten(shard.table, then, now)
            why = why or why_too_late(shard.table, then, now, Slack(self.insert_s, self.margin_s))
            if why is not None:
                return f"{why} on {shard.url}"
        return None

    def _altered_elsewhere(self, shard: ShardTable) -> int:
        """When (s) the table was altered last on any replica that answers, at the latest, as their clocks may differ:
        each has settings of its own.
        """
        at, said = shard.table.at, list[TableFacts]()
        if in_keeper(shard.table.engine):
            for facts in said_by_each(shard.client, self.away, lambda one: read_facts(one, [at], replicated=False)):
                said += [facts[at]] if at in facts else []
        clocks = [fact.at_s for fact in said]
        return max(fact.defined_s for fact in said) + max(clocks) - min(clocks) if said else -BEYOND

    def _may_have_been_lowered(
        self, shards: Sequence[ShardTable], key: StateKey, record: StateRecord, looked: Looked
    ) -> bool:
        """A window that was lowered and raised again since the mark shows only in that the table was altered.  To look
        costs little then.  Where it might halt (other rows, views), or is not possible, nothing is assumed.
        A replica that nobody looked at, as the client went to it meanwhile, may have been altered.
        """
        pairs = zip(shards, record.seen.marks, strict=True)
        last = {at: altered_s for at, (_, altered_s) in looked.items()}
        altered = [s for s, then in pairs if last.get((s.url, s.table.canonical), BEYOND) >= then.at_s]
        sure = all(s.table.can_probe and not s.table.views for s in shards) and self.is_alone(record)
        return bool(altered) and sure and not self.holds_foreign(key, record)

    # --- waiting for others -----------------------------------------------------------------------------------------

    def wait_for_inserts(self, key: StateKey, record: StateRecord, servers: Iterable[Queries] | None = None) -> None:
        """Wait until no server (those of the recorded shards, if none is given) runs an insert of the range.  An insert
        ends by ``max_execution_time``, even if its sender is gone; UnavailableError CHS-710 if one does not.
        """
        for server in servers or [shard.client for shard in self.places(key.table, record.sent.layout)]:
            self.wait_for_tokens(token_head(key, record), f"{key.topic_partition} {record.range}", server)

    def wait_for_tokens(self, head: str, what: str, server: Queries) -> bool:
        """Wait until the server runs no insert whose token has this prefix.  ``what`` names its records (CHS-710).
        Returns whether it ran one.
        """
        give_up, told = self.clock.steady_ms() + self.insert_s * 1000, False
        while _running(server, head):
            if not told:
                told = True
                _log.warning(_WAITING, server.url, what, self.insert_s)
            if self.clock.steady_ms() >= give_up:
                raise services.STILL_INSERTING(url=server.url, what=what)
            self.clock.sleep(LOOK_AGAIN_S)
        return told

    def wait_where_answered(self, head: str, what: str, servers: Iterable[Queries]) -> list[str]:
        """The same for servers that may be gone.  Returns which ran one.  One that does not answer may run one, too,
        until its limit of time: that is waited for, once for each server.
        """
        ran, silent = list[str](), list[str]()
        for server in servers:
            try:
                ran += [server.url] * self.wait_for_tokens(head, what, server)
            except (Unanswered, ServerRefused) as error:
                _log.warning("%s is asked for inserts of %s, and does not answer: %s", server.url, what, error)
                self.silent.setdefault(server.url, self.clock.steady_ms())
                silent.append(server.url)
        for url in silent:
            self.outlast(url)
        return ran

    def outlast(self, where: str) -> None:
        """Wait until an insert on a server that does not answer, or that is not known, must have ended."""
        since = self.silent.setdefault(where, self.clock.steady_ms())
        left_s = (since - self.clock.steady_ms()) / 1000 + max(self.insert_s, OUTLAST_S)
        if left_s > 0:
            _log.warning(_OUTLASTING, where, left_s)
            self.clock.sleep(left_s)


def _is_same(one: ShardTable, other: ShardTable) -> bool:
    """Whether it surely is the same table under another URL.  Servers may have tables of one UUID (``ON CLUSTER``), and
    Keepers tables of one path; the UUID of a Shared table names its data.
    """
    if (one.table.identity, one.table.at) != (other.table.identity, other.table.at):
        return False
    if in_keeper(one.table.engine):
        at = {"database": one.table.database, "name": one.table.name}
        (mine, theirs), (name, names) = (shard.client.query(_REPLICAS, at)[0] for shard in (one, other))
        return mine in names and name in theirs
    servers = (shard.client.query("SELECT toString(serverUUID()), hostName()")[0] for shard in (one, other))
    return one.table.replicated or len({tuple(row) for row in servers}) == 1


def _definitions(client: Queries, tables: Collection[TargetTable]) -> dict[TableName, str]:
    """What the tables are; nothing of a table that is gone."""
    every = [each for table in tables for each in table.with_fed]
    facts = read_facts(client, [t.at for t in every], replicated=any(in_keeper(t.engine) for t in every))
    return {name: fact.definition for name, fact in facts.items()}


def _running(client: Queries, head: str) -> bool:
    """Whether an insert under a token with this head is being executed."""
    rows = client.query(
        "SELECT count() FROM system.processes WHERE startsWith(Settings['insert_deduplication_token'], {head:String})",
        {"head": head},
    )
    return int(rows[0][0]) > 0


def check_window(table: TargetTable, url: str) -> None:
    """PreflightError when the table does not deduplicate by chsink's tokens."""
    if table.queues_inserts:
        raise preflight.INSERTS_QUEUED(table=table.canonical, url=url)
    if table.window_blocks == 0:
        setting = WINDOW[0] if table.replicated else NOT_REPLICATED
        raise preflight.NO_DEDUPLICATION(table=table.canonical, url=url, setting=setting)
