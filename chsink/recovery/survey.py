"""Which topic-partitions ``recover`` has to rebuild, and whether their tables can tell what landed.

What the rows of one topic-partition prove: :mod:`chsink.recovery.partition_survey`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace as changed

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.mutations import check_none_deleting, mutations
from chsink.clickhouse.shards import RoutedTable
from chsink.clickhouse.table import KEEPING, TargetTable
from chsink.driver.ledger import catch_up, read_records
from chsink.errors import ChsinkError, halts
from chsink.errors.several import several
from chsink.errors.steps import NEWER_STATE
from chsink.kafka.admin import KafkaAdmin
from chsink.kafka.exact import open_exact_reader
from chsink.notation.metadata_columns import PROBE_COLUMNS
from chsink.ports import Queries, StateStore
from chsink.recovery.accepted import REMOVED_SHARDS, Accepted
from chsink.recovery.explained import Means
from chsink.recovery.landed import extent, have_timestamps
from chsink.recovery.landed_rows import views_of, wait_for_any_insert
from chsink.recovery.letters import SinkLetters
from chsink.recovery.partition_survey import PartitionSurvey, Say, SurveyReads, reached, tables_of
from chsink.recovery.recovered import Recovered
from chsink.refusals import asking_target
from chsink.statemachine.records import Phase, StateKey, StateRecord


def survey(
    clickhouse: Cluster, store: StateStore, kafka: KafkaAdmin, say: Say, accepted: Accepted, *, replace: bool = False
) -> list[Recovered]:
    """Look at every topic-partition without state; with ``replace`` also at those whose table holds rows beyond the
    recorded end, as after an old backup was restored; all others then get new tokens.  Changes nothing.

    Raises PreflightError CHS-321 while a task may still send records, and CHS-330 for tables that cannot tell, with all
    refusals of theirs: a person decides once.
    """
    catch_up(store, clickhouse.config.sink.name)
    stored = read_records(store, clickhouse.config.sink.name)
    known = {key: record for key, record in stored.items() if record.phase is not Phase.EMPTY}
    say(f"looking for rows on {', '.join(c.url for c in clickhouse.clients)}; {REMOVED_SHARDS}")
    found: list[Recovered] = []
    refused: list[ChsinkError] = []
    reader = open_exact_reader(clickhouse.config, lambda tp: kafka.log_starts([tp])[tp])
    with closing(reader):
        letters = SinkLetters(clickhouse, kafka, reader)
        reads = SurveyReads(clickhouse, kafka, say, reader, letters, known)
        for target in clickhouse.targets.values():
            of_table, of_keys = _of_table(reads, store, target, accepted, replace=replace)
            refused += of_table
            found += of_keys
    if refused:
        raise several([*refused, *(one.refusal for one in found if one.refusal is not None)])
    return found


def _of_table(
    reads: SurveyReads, store: StateStore, target: RoutedTable, accepted: Accepted, *, replace: bool
) -> tuple[list[ChsinkError], list[Recovered]]:
    """Why the table proves nothing, and what was found for each of its topic-partitions."""
    clickhouse, sink = reads.clickhouse, reads.clickhouse.config.sink.name
    keys = [StateKey(sink, tp.topic, tp.partition, target.name) for tp in reads.kafka.partitions([target.topic])]
    recorded = {k: reads.known[k] for k in keys if k in reads.known}
    if replace and recorded and not target.table.shows_places:
        reads.say(
            f"{target.name}: without the columns {', '.join(PROBE_COLUMNS)}, chsink cannot tell whether more landed "
            f"than is recorded, and leaves the recorded state as it is; if that is of an older backup, {NEWER_STATE}"
        )
    stale = _stale(reads, target, recorded, accepted) if replace else set()
    todo = [k for k in keys if k not in recorded or k in stale]
    others = {k: r for k, r in recorded.items() if replace and k not in todo}
    kept = {k: r for k, r in others.items() if _may_have_lost_rows(target, r, accepted)}
    if todo or kept:
        if not accepted.senders_gone:
            raise halts.SENDERS_MAY_LIVE(ranges=f"records of {target.topic}")
        wait_for_any_insert(clickhouse, store, sink, target.topic, target.shards)
    refused: list[ChsinkError] = []
    found: list[Recovered] = []
    if todo:
        with asking_target():
            refused += _refusals(clickhouse, target, accepted)
    means = reads.means(target)
    for key in todo:
        with asking_target():
            mine = changed(means, letters=reads.letters.of(key).counted)
            found += PartitionSurvey(reads, target, key, mine, share=len(todo)).survey(accepted)
    if found:
        _say_views(target, reads.say)
        _say_unchecked(target, reads.say)
    return refused, [*found, *(_kept(reads, key, record, means) for key, record in kept.items())]


def _kept(reads: SurveyReads, key: StateKey, record: StateRecord, means: Means) -> Recovered:
    means = changed(means, letters=reads.letters.of(key).counted)
    delivered = reads.delivered_until(key, record.done, means)
    return Recovered(key, record, record.range, record.life.topic_id, kept=True, delivered=delivered)


def _say_views(target: RoutedTable, say: Say) -> None:
    """Rows show what the table received, not what its views did: the last insert may have failed between the two."""
    with asking_target():
        views = views_of(target.shards)
    if views:
        say(
            f"{target.name}: these dependent views may lack rows that the table holds; compare them with the table "
            f"before you start the job: {', '.join(views)}"
        )


def _say_unchecked(target: RoutedTable, say: Say) -> None:
    if not have_timestamps(target.table):
        say(
            f"{target.name}: without a column _kafka_timestamp, chsink cannot check whether rows are of the records "
            f"that Kafka holds now; if {target.topic} was deleted and created again since they landed, answer no: "
            "records of the new topic would be skipped"
        )


def _stale(
    reads: SurveyReads, target: RoutedTable, recorded: Mapping[StateKey, StateRecord], accepted: Accepted
) -> set[StateKey]:
    """Those whose table holds rows beyond the recorded end, where it can tell.  Earlier incarnations may have reached
    further: rows that they left there are rows of these offsets, too.

    Where rows were removed, also a range in doubt: its tokens may be remembered for rows that are not there any more.
    """
    if not (recorded and target.table.shows_places):
        return set()
    with asking_target():
        tables = tables_of(reads.clickhouse, target)
        rows = {key: extent(tables, key.topic_partition) for key in recorded}
    seen = {key: reached(found, reads.letters.of(key).counted) for key, found in rows.items()}
    return {
        key
        for key, record in recorded.items()
        if (there := seen[key]) is not None and (there.range.end > record.end or (accepted.removed and record.in_doubt))
    }


def _may_have_lost_rows(target: RoutedTable, record: StateRecord, accepted: Accepted) -> bool:
    """Whether rows beyond a record that is not stale may have been there until somebody deleted them, as recover asks
    for.  The table remembers their tokens: the same range would be dropped under them.  A range in doubt keeps its
    tokens unless rows were removed; then none of it is there, or it would have been rebuilt.
    """
    return target.table.shows_places and (accepted.removed or not record.in_doubt)


def _refusals(clickhouse: Cluster, target: RoutedTable, accepted: Accepted) -> Iterator[ChsinkError]:
    """Why rows of the table may be gone, unless that is accepted.  Raises where rows cannot be looked for at all."""
    for shard in target.shards:
        missing = set(PROBE_COLUMNS) - {c.name for c in shard.table.columns}
        if missing:
            raise _cannot(target, shard.url, f"it has no column {', '.join(sorted(missing))}", NEWER_STATE)
        reader = shard.reader(clickhouse.clock)
        check_none_deleting(reader, shard.table)
        why = _losing(reader, shard.table)
        if why is not None and not accepted.removed:
            fix = (
                "add `--accept-removed` to this command if rows that were removed beyond the last remaining row may be "
                "inserted again"
            )
            yield _cannot(target, shard.url, why, fix)


def _cannot(target: RoutedTable, url: str, why: str, fix: str) -> ChsinkError:
    return halts.TABLE_PROVES_NOTHING(topic=target.topic, table=target.name, url=url, reason=why, fix=fix)


def _losing(reader: Queries, table: TargetTable) -> str | None:
    """Why rows that landed may not be there any more."""
    if table.engine not in KEEPING:
        return f"a {table.engine} removes rows when it merges"
    if table.ttl:
        return "its TTL removes rows"
    deletes = mutations(reader, table).deletes
    return f"rows were removed (mutations: {deletes})" if deletes else None
