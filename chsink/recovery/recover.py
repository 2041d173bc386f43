"""``recover``: rebuild a lost state store from the target tables' ``_kafka_…`` columns.

The sink landed ranges in order, and finished each one before the next began.  So the rows of a topic-partition cover
everything up to the last finished range, but for records that have no row on purpose; only an unfinished range may have
left some of its rows.

Rules:
- Each offset from the first row to the last has a row, or Kafka has no record there, or the record says why it has no
  row (:mod:`chsink.recovery.explained`): then all of it landed, and the rebuilt range ends at the next record.
- From the first unexplained offset on, the rebuilt range is *in doubt*, to be probed: the next start reads it from
  Kafka by the job's own transform, looks for each piece, and sends what is missing.  So its pieces have to be whole
  (:mod:`chsink.recovery.whole_pieces`): where they cannot be, it is refused, and the rows to delete are named.
- Tables that share a topic-partition by ``table_by`` reach equally far: what is no row of one may be one of another.
- Nobody accepts what was not shown: a hole is accepted by its offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from dataclasses import replace as changed

import numpy as np

from chsink.batch.halts import asking_target
from chsink.batch.ledger import read_records
from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.landing import decoder, fates_of, letters_topic, present_fingerprint
from chsink.clickhouse.mutations import check_none_deleting, mutations
from chsink.clickhouse.pieces import by_shard
from chsink.clickhouse.probe import only_of
from chsink.clickhouse.replicas import TWICE
from chsink.clickhouse.shards import RoutedTable
from chsink.clickhouse.table import KEEPING, TargetTable
from chsink.errors import ChsinkError, halts
from chsink.errors.several import several
from chsink.formats.pipeline import Untouched
from chsink.kafka.admin import KafkaAdmin
from chsink.kafka.exact import ExactReader, open_exact_reader
from chsink.notation.metadata_columns import PROBE_COLUMNS
from chsink.notation.sql import quote_string, quote_table
from chsink.ports import Queries, StateStore
from chsink.recovery.accepted import Accepted, in_words, option_for, runs_of
from chsink.recovery.change import check_unchanged, claim
from chsink.recovery.explained import NONE, Means, Prepare, Told, explain, first_halting, shards_of
from chsink.recovery.landed import SLICE, Extent, Place, extent, holes, present
from chsink.recovery.landed_rows import also_from, views_of, wait_for_any_insert
from chsink.recovery.letters import Delivered
from chsink.recovery.whole_pieces import cut_before
from chsink.statemachine import writes
from chsink.statemachine.chunks import chunk_count
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Phase, StateKey, StateRecord

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Doubt:
    """A rebuilt range that is to be probed: cut into chunks of this length.  ``missing`` are the offsets without a row
    that nothing explains.
    """

    range: OffsetRange
    chunk_offsets: int
    missing: tuple[OffsetRange, ...]

    @property
    def records(self) -> int:
        """How many are missing."""
        return sum(r.length for r in self.missing)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was found for one topic-partition: the range its rows prove, or why they prove nothing.

    ``replaced`` is the record whose place the rebuilt one takes, None where nothing is recorded.  ``kept``: it stays as
    it is, but for its tokens (see :func:`_may_have_lost_rows`).  ``doubt``: of the end of ``landed``, rows are missing.
    ``delivered``: below this offset, no dead letter has to be delivered to a topic again.
    """

    key: StateKey
    replaced: StateRecord | None
    landed: OffsetRange
    topic_id: str | None
    refusal: ChsinkError | None = None
    kept: bool = False
    doubt: Doubt | None = None
    delivered: int = 0


def survey(
    clickhouse: Cluster, store: StateStore, kafka: KafkaAdmin, say: Say, accepted: Accepted, *, replace: bool = False
) -> list[Recovered]:
    """Look at every topic-partition without state; with ``replace`` also at those whose table holds rows beyond the
    recorded end, as after an old backup was restored; all others then get new tokens.  Changes nothing.

    Raises PreflightError CHS-330 for tables that cannot tell, with all refusals of theirs: a person decides once.
    """
    stored = read_records(store, clickhouse.config.sink.name)
    known = {key: record for key, record in stored.items() if record.phase is not Phase.EMPTY}
    found: list[Recovered] = []
    refused: list[ChsinkError] = []
    reader = open_exact_reader(clickhouse.config, lambda tp: kafka.log_starts([tp])[tp])
    with closing(reader):
        look = _Look(clickhouse, kafka, say, reader, Delivered(letters_topic(clickhouse.config)), known)
        for target in clickhouse.targets.values():
            of_table, of_keys = look.survey(target, accepted, replace=replace)
            refused += of_table
            found += of_keys
    if refused:
        raise several([*refused, *(one.refusal for one in found if one.refusal is not None)])
    return found


@dataclass(frozen=True, slots=True)
class _Look:
    """What one survey reads with; ``known`` is what the store holds of the sink."""

    clickhouse: Cluster
    kafka: KafkaAdmin
    say: Say
    reader: ExactReader
    delivered: Delivered
    known: Mapping[StateKey, StateRecord]

    def survey(
        self, target: RoutedTable, accepted: Accepted, *, replace: bool
    ) -> tuple[list[ChsinkError], list[Recovered]]:
        """Why the table proves nothing, and what was found for each of its topic-partitions."""
        clickhouse, sink = self.clickhouse, self.clickhouse.config.sink.name
        keys = [StateKey(sink, tp.topic, tp.partition, target.name) for tp in self.kafka.partitions([target.topic])]
        recorded = {k: self.known[k] for k in keys if k in self.known}
        stale = _stale(clickhouse, target, recorded, accepted) if replace else set()
        todo = [k for k in keys if k not in recorded or k in stale]
        others = {k: r for k, r in recorded.items() if replace and k not in todo}
        kept = {k: r for k, r in others.items() if _may_have_lost_rows(target, r, accepted)}
        if todo or kept:
            wait_for_any_insert(clickhouse, sink, target.topic, target.shards)
        refused: list[ChsinkError] = []
        found: list[Recovered] = []
        if todo:
            with asking_target():
                refused += _refusals(clickhouse, target, accepted)
        means = self._means(target)
        for key in todo:
            with asking_target():
                mine = changed(means, letters=self.delivered.of(key))
                found += _Partition(self, target, key, mine, share=len(todo)).survey(accepted)
        if found:
            _say_views(target, self.say)
        return refused, [*found, *(self._kept(key, record, means) for key, record in kept.items())]

    def _means(self, target: RoutedTable) -> Means:
        route = self.clickhouse.routes[target.topic, target.name]
        prepare = preparing(self.clickhouse, target)
        return Means(prepare, fates_of(self.clickhouse.config.errors), route.choice is not None)

    def _kept(self, key: StateKey, record: StateRecord, means: Means) -> Recovered:
        means = changed(means, letters=self.delivered.of(key))
        delivered = self.delivered_until(key, record.done, means)
        return Recovered(key, record, record.range, record.life.topic_id, kept=True, delivered=delivered)

    def delivered_until(self, key: StateKey, start: int, means: Means) -> int:
        """Below which offset nothing that is sent from ``start`` on has to be delivered as a dead letter again."""
        last = int(means.letters[-1]) + 1 if len(means.letters) else 0
        return first_halting(self.reader, key.topic_partition, OffsetRange(start, max(start, last)), means)

    def siblings(self, key: StateKey) -> list[RoutedTable]:
        """The other tables among which ``table_by`` spreads the records of the topic-partition, if none of them all has
        state.  If one has, it says where the others begin (:func:`chsink.statemachine.choices.joining`).
        """
        cluster = self.clickhouse
        sharing = [leads for leads, r in cluster.routes.items() if leads[0] == key.topic and r.choice is not None]
        told = any(k.topic_partition == key.topic_partition and k.topic_table in sharing for k in self.known)
        others = [] if told or key.topic_table not in sharing else [leads for leads in sharing if leads[1] != key.table]
        return [cluster.targets[leads] for leads in others if cluster.targets[leads].table.shows_places]


def preparing(clickhouse: Cluster, target: RoutedTable) -> Prepare | None:
    """What a job without a transform makes of the records; None where their format does not fit the table."""
    cluster, leads = clickhouse, (target.topic, target.name)
    try:
        decodes = decoder(cluster, leads, Untouched(clickhouse.config.kafka.isolation_level))
    except ChsinkError:
        return None
    layout = cluster.layout(cluster.routes[leads]).to_json()
    return lambda records: by_shard(records, decodes.decode(records), layout, target.table)


def _say_views(target: RoutedTable, say: Say) -> None:
    """Rows show what the table received, not what its views did: the last insert may have failed between the two."""
    with asking_target():
        views = views_of(target.shards)
    if views:
        say(
            f"{target.name}: these dependent views may lack rows that the table holds; compare them with the table "
            f"before you start the job: {', '.join(views)}"
        )


def _stale(
    clickhouse: Cluster, target: RoutedTable, recorded: Mapping[StateKey, StateRecord], accepted: Accepted
) -> set[StateKey]:
    """Those whose table holds rows beyond the recorded end, where it can tell.  Earlier incarnations may have reached
    further: rows that they left there are rows of these offsets, too.

    Where rows were removed, also a range in doubt: its tokens may be remembered for rows that are not there any more.
    """
    if not (recorded and target.table.shows_places):
        return set()
    with asking_target():
        tables = _tables(clickhouse, target)
        seen = {key: extent([*tables, *_letters(clickhouse, key)], key.topic_partition) for key in recorded}
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


def write(clickhouse: Cluster, store: StateStore, found: list[Recovered]) -> dict[StateKey, StateRecord]:
    """Claim the sink and write the records, in one compare-and-set.  Raises the first refusal before that, CHS-323 when
    a record is not the one that was found.
    """
    for one in found:
        if one.refusal is not None:
            raise one.refusal
    ledger = claim(clickhouse, store, "recover", [one.key for one in found])
    attempt, now = ledger.attempt(), clickhouse.clock.now_ms()
    changes: dict[StateKey, StateRecord] = {}
    for one in found:
        record = ledger.records[one.key]
        if one.replaced is None and record.phase is not Phase.EMPTY:
            raise halts.RECORDED_MEANWHILE(key=one.key)
        if one.replaced is not None:
            check_unchanged(one.key, one.replaced, record)
        if one.kept:
            changes[one.key] = writes.with_new_tokens(record, epoch=ledger.epoch, attempt=attempt)
            continue
        if one.replaced is not None:
            record = writes.reset(record, epoch=ledger.epoch, attempt=attempt)
        changes[one.key] = writes.recovered(
            record,
            one.landed,
            _said(clickhouse, one, now),
            incarnation=max(now // 1000, record.life.incarnation + 1),
            epoch=ledger.epoch,
            attempt=attempt,
            doubtful=None if one.doubt is None else one.doubt.range,
        )
    delivered = Delivered(letters_topic(clickhouse.config))
    for one in found:  # first: a record without its group would deliver dead letters again
        delivered.move_on(one.key, changes[one.key], one.delivered)
    ledger.write(changes)
    return changes


def _said(clickhouse: Cluster, one: Recovered, now: int) -> writes.Announcement:
    """Rows do not tell which pipeline made them.  But tables that share a topic-partition are compared by it."""
    cluster, leads = clickhouse, one.key.topic_table
    route = cluster.routes[leads]
    shape = Untouched(clickhouse.config.kafka.isolation_level)
    pipeline = present_fingerprint(cluster, leads, shape) if route.choice is not None else ""
    chunk_offsets = clickhouse.config.clickhouse.chunk_offsets if one.doubt is None else one.doubt.chunk_offsets
    return writes.Announcement(
        one.topic_id, Sending(chunk_offsets, cluster.layout(route).fingerprint(), pipeline), Seen(now)
    )


def _refusals(clickhouse: Cluster, target: RoutedTable, accepted: Accepted) -> Iterator[ChsinkError]:
    """Why rows of the table may be gone, unless that is accepted.  Raises where rows cannot be looked for at all."""
    for shard in target.shards:
        missing = set(PROBE_COLUMNS) - {c.name for c in shard.table.columns}
        if missing:
            raise _cannot(
                target, shard.url, f"it has no column {', '.join(sorted(missing))}", "restore the state from a backup"
            )
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
    return f"{deletes} mutations removed rows" if deletes else None


def _tables(clickhouse: Cluster, target: RoutedTable) -> list[Place]:
    """The table on each shard, as a current replica holds it."""
    return [(s.reader(clickhouse.clock, copies=TWICE), quote_table(s.table.canonical)) for s in target.shards]


def _letters(clickhouse: Cluster, key: StateKey) -> list[Place]:
    """The dead letters of a topic-partition, where a table holds them."""
    letters = clickhouse.letters
    if letters is None:
        return []
    name = quote_table(letters.table.canonical)
    mine = f"SELECT {', '.join(PROBE_COLUMNS)} FROM {name} WHERE true {only_of(key)}"
    return [(letters.reader(clickhouse.clock, copies=TWICE), f"({mine})")]


class _Partition:
    """The survey of one topic-partition.  ``share``: so many may be in doubt for the table at once."""

    def __init__(self, look: _Look, target: RoutedTable, key: StateKey, means: Means, *, share: int) -> None:
        self._look, self._clickhouse, self._kafka, self._say = look, look.clickhouse, look.kafka, look.say
        self._target, self._key, self._means, self._share = target, key, means, share
        self._replaced = look.known.get(key)
        self._tp = key.topic_partition
        self._tables = _tables(self._clickhouse, target)
        self._places = [*self._tables, *_letters(self._clickhouse, key)]
        for other in look.siblings(key):
            self._places += _tables(self._clickhouse, other)
            self._places += _letters(self._clickhouse, changed(key, table=other.name))

    def survey(self, accepted: Accepted) -> Iterator[Recovered]:
        """One finding, or none where the table has no row of it."""
        topic_id = self._kafka.topic_ids([self._tp.topic])[self._tp.topic]  # first: it may be recreated
        seen = self._seen()
        if seen is None:
            self._say(f"{self._tp}: no rows in {self._target.name}; start the job with a new checkpoint to read it")
            return
        found = self._of_another_topic(topic_id) or self._log_ends_before(seen) or self._judged(seen, accepted)
        if isinstance(found, OffsetRange):
            yield from self._cropped(found, topic_id)
            return
        refusal = found if isinstance(found, ChsinkError) else None
        self._say(f"{self._tp}: {seen.rows} rows over {seen.range}" + (f": refused, {refusal.id}" if refusal else ""))
        if refusal is not None:
            yield Recovered(self._key, self._replaced, seen.range, topic_id, refusal)
            return
        doubt = found if isinstance(found, Doubt) else None
        end = self._next_record(seen.range.end) if doubt is None else doubt.range.end
        start = seen.range.start if doubt is None else min(seen.range.start, doubt.range.start)
        delivered = self._look.delivered_until(self._key, end if doubt is None else doubt.range.start, self._means)
        yield Recovered(self._key, self._replaced, OffsetRange(start, end), topic_id, doubt=doubt, delivered=delivered)

    def _cropped(self, landed: OffsetRange, topic_id: str | None) -> Iterator[Recovered]:
        """Nothing but dead letters of a topic follows: what lies behind is read again."""
        self._say(
            f"{self._tp}: only dead letters follow from offset {landed.end} on; the next start reads on from there, "
            "and delivers again those of them that the dead letters' consumer group no longer knows"
        )
        if not landed.is_empty:
            delivered = self._look.delivered_until(self._key, landed.end, self._means)
            yield Recovered(self._key, self._replaced, landed, topic_id, delivered=delivered)

    def _seen(self) -> Extent | None:
        """How far rows and dead letters reach."""
        seen, letters = extent(self._places, self._tp), self._means.letters
        if not len(letters):
            return seen
        kept = OffsetRange(int(letters[0]), int(letters[-1]) + 1)
        if seen is None:
            return Extent(kept, 0)
        return Extent(OffsetRange(min(seen.range.start, kept.start), max(seen.range.end, kept.end)), seen.rows)

    def _judged(self, seen: Extent, accepted: Accepted) -> ChsinkError | Doubt | OffsetRange | None:
        """Why nothing can be rebuilt, what is in doubt, or what alone landed; None if all of it did."""
        several = None if accepted.several else self._several()
        if several is not None:
            return several
        log_start = self._log_start()
        missing = accepted.without(self._key, self._missing(seen, log_start))
        gone = [OffsetRange(h.start, min(h.end, log_start)) for h in missing if h.start < log_start]
        if gone:
            return self._refused(
                f"offsets without a row that Kafka no longer holds (its log starts at {log_start}): {in_words(gone)}, "
                f"{_count(gone)} in all",
                "nothing can land them any more; to continue without them (they may be compacted records, markers of "
                "transactions, or records that a filter left out), add "
                f"`{option_for(self._key, gone)}` to this command",
            )
        told = self._told(missing, seen)
        if told.unread is not None:
            return self._refused(
                f"Kafka does not give what it holds from offset {told.unread} on, for example because a transaction is "
                "open",
                "wait until the transaction has ended, then run this command again",
            )
        if told.explained:
            self._say(f"{self._tp}: records without a row in {self._target.name} on purpose: {told.explained}")
        return self._in_doubt(seen, told, log_start) if len(told.unexplained) else None

    def _missing(self, seen: Extent, log_start: int) -> list[OffsetRange]:
        """Ranges without a row that the record, if there is one, does not account for."""
        missing = list(holes(self._places, self._tp, seen.range, self._progress(seen)))
        if self._replaced is not None:
            return self._unaccounted(self._replaced, seen, missing)
        if self._clickhouse.config.kafka.starting_offsets == "earliest" and log_start < seen.range.start:
            missing.insert(0, OffsetRange(log_start, seen.range.start))  # it was to be read too
        return missing

    def _several(self) -> ChsinkError | None:
        seen = extent(self._tables, self._tp)
        if seen is None:
            return None
        offsets = seen.range.length - _count(holes(self._tables, self._tp, seen.range, lambda _: None))
        if seen.rows <= offsets:
            return None
        return self._refused(
            f"some offsets have several rows ({seen.rows} rows, {offsets} offsets)",
            "remove duplicates; or, if the transform makes several rows of one record, add `--accept-several` to this "
            "command",
        )

    def _unaccounted(self, record: StateRecord, seen: Extent, missing: list[OffsetRange]) -> list[OffsetRange]:
        """Holes beyond what the record says is done: up to there it tells what landed and what was left out."""
        done = record.done
        beyond = [OffsetRange(max(h.start, done), h.end) for h in missing if h.end > done]
        return [OffsetRange(done, seen.range.start), *beyond] if done < seen.range.start else beyond

    def _told(self, missing: list[OffsetRange], seen: Extent) -> Told:
        if not missing:
            return Told(NONE)
        return explain(self._look.reader, self._tp, missing, self._tables, end=seen.range.end, means=self._means)

    def _in_doubt(self, seen: Extent, told: Told, log_start: int) -> Doubt | OffsetRange | ChsinkError:
        """What the next start is to look for and to complete, if it can tell whole pieces from parts of them."""
        lost = tuple(runs_of(told.unexplained.tolist()))
        lowest = log_start if self._replaced is None else max(log_start, self._replaced.done)
        cut = self._cut(OffsetRange(lost[0].start, seen.range.end), told, lowest)
        if not isinstance(cut, str):
            return Doubt(*cut, lost)
        rows = extent(self._tables, self._tp)
        if rows is None or rows.range.end <= lost[0].start:  # nobody deletes dead letters from a topic
            return OffsetRange(min(seen.range.start, lost[0].start), lost[0].start)
        return self._refused(
            f"records that Kafka holds have no row, and nothing explains it: offsets {in_words(lost)}, {_count(lost)} "
            f"in all; rows follow up to {seen.range.end - 1}; the next start cannot insert only what is missing: {cut}",
            f"{self._delete_from(lost[0].start)}; then add `--accept-removed` to this command: the next start inserts "
            "these records, and all behind them; only if a filter of your program leaves out each of these records, "
            f"{_count(lost)} in all, add `{option_for(self._key, lost)}` instead",
        )

    def _cut(self, span: OffsetRange, told: Told, lowest: int) -> tuple[OffsetRange, int] | str:
        """The range in doubt and the length of its chunks; or why its pieces would not be whole."""
        cluster, chunk_offsets = self._clickhouse, self._clickhouse.config.clickhouse.chunk_offsets
        window = cluster.window()
        if not all(place.table.can_probe for place in window.places(self._target.name, None)):
            return "chsink cannot look for single rows of this table"
        most = window.limit(self._target.name).chunks // self._share
        around = OffsetRange(max(lowest, span.start - chunk_offsets), span.end)
        if around.length > SLICE:
            return f"they are spread over {around.length} offsets"
        of_record, misplaced = shards_of(self._look.reader, self._tp, around, self._tables, self._means.prepare)
        if misplaced is not None and misplaced >= span.start:
            return f"the row of offset {misplaced} is on another shard than the one for its record"
        if span.length <= most:
            return span, 1  # a record is a whole piece, wherever the lost range was cut
        there = [np.flatnonzero(present([table], self._tp, around)) + around.start for table in self._tables]
        of_lost = of_record[told.unexplained - around.start]
        shards = [(rows, told.unexplained[of_lost == number]) for number, rows in enumerate(there)]
        start = cut_before(span.start, shards, chunk_offsets)
        if start is None or start < lowest:
            return "some chunk holds rows and lacks others"
        whole = OffsetRange(start, span.end)
        if chunk_count(whole, chunk_offsets) > most:
            return f"it would have more than {most} chunks"
        return whole, chunk_offsets

    def _next_record(self, after: int) -> int:
        """Where the first record lies that has not landed: markers before it were read over, and a checkpoint knows.

        An open transaction is not passed over: its records may be committed later.  Nor is what Kafka has dropped: the
        next start reports it as a gap.
        """
        rest = OffsetRange(after, max(after, self._log_end()))
        for part in self._look.reader.read(self._tp, rest):
            if part.gone:
                return part.range.start
            if part.records.num_rows:
                return int(part.records.column("offset")[0].as_py())
        return rest.end

    def _log_start(self) -> int:
        return self._kafka.log_starts([self._tp])[self._tp]

    def _log_end(self) -> int:
        return self._kafka.log_ends([self._tp])[self._tp]

    def _progress(self, seen: Extent) -> Callable[[int], None]:
        def progress(reached: int) -> None:
            if reached < seen.range.end:
                self._say(f"{self._tp}: {reached - seen.range.start} of {seen.range.length} offsets checked")

        return progress

    def _of_another_topic(self, topic_id: str | None) -> ChsinkError | None:
        if self._replaced is None or self._replaced.may_belong_to(topic_id):
            return None
        return self._refused(
            f"the state was recorded for the topic with id {self._replaced.life.topic_id}, which was deleted: rows do "
            "not show whether they belong to the topic that has its name now",
            "chsink cannot recover a recreated topic: land it with a new sink in a new table",
        )

    def _log_ends_before(self, seen: Extent) -> ChsinkError | None:
        end = self._log_end()
        if end >= seen.range.end:
            return None
        return self._refused(
            f"the table has rows up to offset {seen.range.end - 1}, but Kafka's log ends at {end}: "
            "the topic was recreated",
            "chsink cannot recover a recreated topic: land it with a new sink in a new table",
        )

    def _refused(self, why: str, fix: str) -> ChsinkError:
        return halts.ROWS_PROVE_NOTHING(tp=self._tp, table=self._target.name, reason=why, fix=fix)

    def _delete_from(self, offset: int) -> str:
        """What removes the rows from there on, and their dead letters."""
        which = (
            f"WHERE _kafka_topic = {quote_string(self._tp.topic)} AND _kafka_partition = {self._tp.partition} "
            f"AND _kafka_offset >= {offset}"
        )
        views = also_from(views_of(self._target.shards))
        rows = (
            f"delete the rows from there on, on each shard: DELETE FROM {quote_table(self._target.name)} {which}{views}"
        )
        letters = self._clickhouse.letters
        if letters is None:
            return rows
        name = quote_table(letters.table.canonical)
        return f"{rows}; and their dead letters, on {letters.url}: DELETE FROM {name} {which} {only_of(self._key)}"


def _count(ranges: Iterable[OffsetRange]) -> int:
    return sum(r.length for r in ranges)
