"""Does a table still remember a deduplication token?  The driver asks this, and a task before each send.

A table remembers the last N *blocks of the whole table* (N by its settings; every insert makes at least one, one per
table partition it touches).  What it held when a range was announced is kept with the range as one :class:`Mark` per
shard; the growth since bounds the blocks that came.

- The tables that views of the table fill remember tokens of their own, and may forget sooner: other tables feed them,
  too, and a block of the table may be several of theirs.  Their blocks are counted together, so the growth says
  something only while they are the same tables.
- A window that was raised since then keeps no token that was forgotten before: the smaller one counts.
- What a view makes of a block has the view's name in its token, or its UUID if the server has altered the view since it
  loaded it; nothing shows which.  So a view counts as another one where it was altered, or where it may have been and
  the server restarted, or a replica answers that did.
- A plain MergeTree numbers its blocks in one sequence.  Its log of tokens is not atomic with its parts, so a server
  that was restarted since then makes tokens doubtful.
- A Replicated table numbers blocks per table partition; the entries of its replication log count them all, dropped
  partitions included, and its tokens lie in Keeper.  A Shared table shows no log: there the partitions' numbers are
  summed.
- ClickHouse has changed the kind of tokens that Replicated tables keep in Keeper: another version may not find them.
- A token is of one table partition.  A server or session with another time zone, or a default that was altered, may put
  the same rows into another one, where the token is not known.
- A Replicated table that was dropped and restored under its Keeper path remembers nothing, and may have as many blocks
  or more.  Its UUID is new.  Another replica has another UUID, too, but its table is older than the range.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from chsink.clickhouse.describe import BLOCKS, BLOCKS_BY_PARTITION, LOG_ENTRIES, TableFacts, read_facts
from chsink.clickhouse.table import (
    NOT_REPLICATED,
    WINDOW,
    TargetTable,
    computed_in,
    in_keeper,
    lowered,
    read_columns,
    read_settings,
)
from chsink.errors import preflight
from chsink.formats.pipeline import digest_of
from chsink.notation.sql import TableName
from chsink.ports import Queries, Unanswered
from chsink.statemachine.parts import Mark

SPARE = 10
"""One part in ten of the window is kept for what others insert between a look and the send that follows it."""

JITTER_S = 1
"""The server reports its start in whole seconds, computed from two clocks that tick apart."""


@dataclass(frozen=True, slots=True)
class Slack:
    """What is kept of a limit by time: for an insert that runs, and for clocks of servers that differ."""

    insert_s: int
    margin_s: int

    @property
    def seconds(self) -> int:
        """Together."""
        return self.insert_s + self.margin_s


@dataclass(frozen=True, slots=True)
class Look:
    """What a table holds, whether it, or a table that it feeds, was altered since it was described, and when it was
    altered last, to whatever it is now (server's time).
    """

    mark: Mark
    altered: bool
    altered_s: int


def look(client: Queries, table: TargetTable) -> Look:
    """:func:`looks` at one table."""
    return looks(client, [table])[table.at]


def looks(client: Queries, tables: Collection[TargetTable]) -> dict[TableName, Look]:
    """What the server's tables hold and are now, by one question for many tables.

    AlteredError when another one has taken a name; Unanswered when a Replicated table has no session with its Keeper.
    """
    facts: dict[TableName, TableFacts] = {}
    every = {each.at: each for table in tables for each in table.with_fed}
    facts |= read_facts(client, {view for table in tables for view in table.views}, replicated=False)
    for counting in (LOG_ENTRIES, BLOCKS_BY_PARTITION, BLOCKS):
        mine = {at: table for at, table in every.items() if _count_of(table) is counting}
        now = read_facts(client, mine, counting, replicated=counting is LOG_ENTRIES)
        for name, table in mine.items():
            fact = now.get(name)
            if fact is None or fact.identity != table.identity:
                raise preflight.TABLE_CHANGED(table=table.canonical, url=client.url)
            if fact.blocks is None and counting is LOG_ENTRIES:
                raise Unanswered(f"{client.url}: {table.canonical} has no session with its Keeper")
            facts[name] = fact
    return {table.at: _seen(table, facts) for table in tables}


def _seen(table: TargetTable, facts: Mapping[TableName, TableFacts]) -> Look:
    fed = sum(facts[each.at].blocks or 0 for each in table.feeds)
    own = facts[table.at]
    altered = any(facts[each.at].definition != each.definition for each in table.with_fed)
    kept = [facts[each.at] for each in table.with_fed if in_keeper(each.engine)]
    since = max(fact.defined_s for fact in kept) if _in_keeper_alone(table) else own.started_s
    uuids = digest_of(sorted(fact.uuid for fact in kept)) if kept else ""
    kept_for = (
        table.window_blocks,
        min((t.window_blocks for t in table.feeds), default=0),
        min(windows_s(table), default=0),
    )
    mark = Mark(own.blocks or 0, since, fed, own.at_s, _which(table, facts), uuids, kept_for)
    return Look(mark, altered, own.defined_s)


def _in_keeper_alone(table: TargetTable) -> bool:
    return all(in_keeper(each.engine) for each in table.with_fed)


def _which(table: TargetTable, facts: Mapping[TableName, TableFacts]) -> str:
    """A digest, the same on every replica of a version: a Keeper path names a table wherever it is, a UUID may be none
    at all.
    """
    kinds = sorted({facts[each.at].tokens for each in table.with_fed} - {""})
    names = [each.identity if in_keeper(each.engine) else f"{each.canonical} {each.identity}" for each in table.feeds]
    views = [f"{view.canonical} {_altered(facts[view])}" for view in table.views if view in facts]
    keys = sorted(f"{each.name} {column}" for each in table.with_fed for column in each.partitioning)
    return digest_of([*sorted(names), *views, *kinds, *keys]) if names or kinds or keys else ""


def _altered(view: TableFacts) -> str:
    """Of a view that the server may have altered since it loaded it, which one it is: replicas on which it was created
    and altered together agree.
    """
    return "" if view.defined_s + JITTER_S < view.started_s else view.definition


def check_columns(client: Queries, table: TargetTable, names: Collection[str]) -> None:
    """AlteredError if one of these columns has changed: ClickHouse converts the values of an Arrow stream to the
    current type silently, even where that changes them.  The position of a column, and other columns, change no value,
    but for those that decide the table partition.
    """
    now = {c.name: c for c in read_columns(client, table.database, table.name)} if names or table.computing else {}
    moved = {*computed_in(table.computing, [*now.values()], filled=())} ^ {*table.partitioning}
    altered = {c.name for c in table.columns if c.name in names and now.get(c.name) != c} | {c.name for c in moved}
    if altered:
        raise preflight.COLUMNS_ALTERED(table=table.canonical, url=client.url, columns=", ".join(sorted(altered)))


def why_altered(client: Queries, table: TargetTable) -> str | None:
    """Why a token may be gone, or is not asked for, although few blocks came: ClickHouse drops tokens at once when the
    window is lowered.
    """
    settings = read_settings(client, table.with_fed)
    if any(each.at not in settings for each in table.with_fed):
        raise preflight.TABLE_CHANGED(table=table.canonical, url=client.url)
    return next(filter(None, (_why_altered(each, settings[each.at]) for each in table.with_fed)), None)


def _why_altered(table: TargetTable, settings: Mapping[str, str]) -> str | None:
    now, name = replace(table, merge_tree=settings), table.canonical
    if now.queues_inserts:
        return f"{name} was set to async_insert = 1"
    if now.window_blocks < table.window_blocks:
        return (
            f"the deduplication window of {name} was lowered from {table.window_blocks} to {now.window_blocks} blocks"
        )
    if table.window_s is not None and now.window_s is not None and now.window_s < table.window_s:
        return f"the deduplication window of {name} was lowered from {table.window_s} to {now.window_s} s"
    return None


def _count_of(table: TargetTable) -> str:
    if in_keeper(table.engine):
        return LOG_ENTRIES
    return BLOCKS_BY_PARTITION if table.engine.startswith("Shared") else BLOCKS


def usable_blocks(table: TargetTable) -> int:
    """How many blocks may follow a token before chsink treats it as forgotten."""
    return table.window_blocks - table.window_blocks // SPARE


def round_of(usable: int) -> int:
    """How many chunks one announcement may have: half of the usable blocks, at least one.  Others insert, too."""
    return max(1, usable // 2)


def most_chunks(table: TargetTable) -> int:
    """The same, of the table and all that it feeds."""
    fed = (round_of(usable_blocks(each)) // len(table.feeds) for each in table.feeds)
    return max(1, min(round_of(usable_blocks(table)), *fed)) if table.feeds else round_of(usable_blocks(table))


def windows_s(table: TargetTable) -> list[int]:
    """The limits by time of the table and of those that it feeds."""
    return [each.window_s for each in table.with_fed if each.window_s is not None]


def why_too_late(table: TargetTable, then: Mark, now: Mark, slack: Slack) -> str | None:
    """Why a token that was sent after ``then`` may be gone before an insert that is sent now has ended: by the server's
    clock.
    """
    least, passed = min(windows_s(_as_then(table, then)), default=None), now.at_s - then.at_s
    if least is None:
        return None
    if passed < -slack.margin_s:
        return f"the server's clock went back by {-passed} s after the range was announced"
    if passed >= least - slack.seconds:
        return f"the range was announced {passed} s ago, and tokens are remembered for {least} s only"
    return None


def _as_then(table: TargetTable, then: Mark) -> TargetTable:
    """The table as it has remembered tokens since ``then``: raising a window brings none back."""
    if not then.window:
        return table
    blocks, fed, seconds = then.window
    feeds = tuple(_at_most(each, fed, seconds) for each in table.feeds)
    return replace(_at_most(table, blocks, seconds), feeds=feeds)


def _at_most(table: TargetTable, blocks: int, seconds: int) -> TargetTable:
    bounds = {NOT_REPLICATED: blocks, WINDOW[0]: blocks, WINDOW[1]: seconds}
    return lowered(table, {s: most for s, most in bounds.items() if most and s in table.merge_tree})


def why_forgotten(table: TargetTable, then: Mark, now: Mark) -> str | None:
    """Why a token that was sent after ``then`` may be gone; None if it is still there, but for the limit by time."""
    table = _as_then(table, then)
    if now.feeds != then.feeds:
        return (
            "the table's views, or the tables that they fill, have changed since the range was announced, or the "
            "server that answers now may give blocks other tokens (after an upgrade of ClickHouse, or a change of its "
            "time zone, of a view, or of a column in a partition key)"
        )
    if now.uuids != then.uuids and (now.since_s >= then.at_s or not _in_keeper_alone(table)):
        return "the table, or one that its views fill, was created again after the range was announced"
    grown, fed = now.blocks - then.blocks, now.fed - then.fed
    if min(grown, fed) < 0:
        emptied = "the table" if grown < 0 else "a table that its views fill"
        return f"{emptied} was emptied or restored after the range was announced"
    if grown >= usable_blocks(table):
        kept = table.window_blocks
        return f"{grown} blocks were inserted after the range was announced; the deduplication window holds {kept}"
    least = min(table.feeds, key=usable_blocks, default=None)
    if least is not None and fed >= usable_blocks(least):
        return (
            f"{fed} blocks were inserted into the tables that its views fill after the range was announced; the "
            f"deduplication window of {least.canonical} holds {least.window_blocks}"
        )
    restarted = abs(now.since_s - then.since_s) > JITTER_S
    if restarted and not all(each.replicated for each in table.with_fed):
        return "the server restarted after the range was announced (it does not store token log and parts atomically)"
    return None
