"""A table that has no row of a topic, although rows landed in it: it was emptied, or dropped and created again.

The state does not tell which, and emptying a table is nobody's fault: so this is a warning, and says what is certain.

Rules:
- A shard that held blocks when its newest range was announced, and has no row, lost them all.
- A range that landed in a table with another identity landed elsewhere: this one may lack its rows.  Where the list of
  shards has changed, this shows only from one shard to another one.
- A table that has no row of the topic on any shard lost those of a record by which some landed.  Rows say their topic
  where chsink's inserts do; one that names none may be older than the column.  Rows of another sink that read the same
  topic cannot be told from this one's.  Where ``table_by`` may have given a table no row of the topic, any row counts.
- Fewer rows than landed are not noticed: the state counts offsets, and a record may have made no row, or have lost it
  on purpose.  ``chsink verify`` compares each record.
- Nothing is said of a table that may lose all rows by itself: by its TTL, or because its engine removes rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chsink.clickhouse.shards import RoutedTable, ShardTable
from chsink.clickhouse.unaccounted import QUERY_LIMIT_S
from chsink.errors import preflight
from chsink.findings import Finding, Severity, found, passed
from chsink.formats.pipeline import digest_of, part_of
from chsink.notation.sql import quote_string, quote_table
from chsink.ports import Clock
from chsink.sharding import Layout
from chsink.statemachine.records import Phase, StateKey, StateRecord
from chsink.statemachine.table import choice_of

TOPIC = "_kafka_topic"
REMOVING = ("CollapsingMergeTree", "SummingMergeTree")
"""Engines that may remove every row: of pairs that cancel each other, or whose sums are zero."""


def emptied_findings(
    records: Mapping[StateKey, StateRecord],
    target: RoutedTable,
    layout: str,
    stored: Mapping[str, str],
    clock: Clock,
) -> Iterator[Finding]:
    """``records`` were read before; ``layout`` is the present one, by which marks are the shards' own.  ``stored`` has
    the layouts that records name (fingerprint → JSON).
    """
    mine = {k: r for k, r in records.items() if k.topic_table == (target.topic, target.name)}
    landed = sum(map(_landed, mine.values()))
    if not landed or any(s.table.ttl.removes_rows or s.table.engine.endswith(REMOVING) for s in target.shards):
        return
    topic = target.topic if target.table.takes_places and not any(map(_shared, mine.values())) else None
    lacking = [_is_empty(shard, clock, topic) for shard in target.shards]
    if all(lacking):
        said = {"table": target.name, "topic": target.topic}
        yield found(Severity.WARNING, preflight.TABLE_IS_EMPTY, **said, offsets=f"{landed:,}")
        return
    held = [r.seen.marks for r in mine.values() if r.sent.layout == layout and len(r.seen.marks) >= len(target.shards)]
    for number, shard in enumerate(target.shards):
        if lacking[number] and any(marks[number].blocks for marks in held) and _is_empty(shard, clock):
            yield found(Severity.WARNING, preflight.SHARD_IS_EMPTY, table=target.name, url=shard.url)
            return
    here = digest_of([shard.table.identity for shard in target.shards])
    alone = [f for f, text in stored.items() if len(target.shards) == len(Layout.from_json(text).shards) == 1]
    told = {k: r for k, r in mine.items() if r.sent.layout in {layout, *alone}}
    if tps := ", ".join(sorted(str(k.topic_partition) for k, r in told.items() if not _is_of(r, here))):
        yield found(Severity.WARNING, preflight.TABLE_IS_ANOTHER, table=target.name, tps=tps)
        return
    yield passed(preflight.TABLE_IS_EMPTY, table=target.name, topic=target.topic)


def _landed(record: StateRecord) -> int:
    """How many offsets landed and were not left out.  A table that shares a topic by ``table_by`` may have got none."""
    if record.phase is Phase.EMPTY or (_shared(record) and not any(mark.blocks for mark in record.seen.marks)):
        return 0
    left_out = record.tally.skipped + record.tally.dead_letters + sum(gap.length for gap in record.gaps)
    return max(0, record.done - record.life.first - left_out)


def _is_of(record: StateRecord, table: str) -> bool:
    """Whether its newest range landed in the table with these identities, as far as it says."""
    return record.phase is not Phase.AFTER or part_of(record.sent.pipeline, "table") in ("", table)


def _shared(record: StateRecord) -> bool:
    """Whether the topic's rows may all have gone to other tables."""
    return bool(choice_of(record.sent.pipeline)) or not record.sent.pipeline


def _is_empty(shard: ShardTable, clock: Clock, topic: str | None = None) -> bool:
    of = f"WHERE {TOPIC} IN ({quote_string(topic)}, '') OR {TOPIC} IS NULL " if topic is not None else ""
    limits = f"LIMIT 1 SETTINGS max_execution_time = {QUERY_LIMIT_S}"
    return not shard.reader(clock).query(f"SELECT 1 FROM {quote_table(shard.table.canonical)} {of}{limits}")
