"""What the ``_kafka_…`` columns of its tables prove for one topic-partition, so that ``recover`` can rebuild its state.

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
from dataclasses import dataclass
from dataclasses import replace as changed
from functools import cached_property

import numpy as np

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.landing import decoder, fates_of
from chsink.clickhouse.pieces import by_shard
from chsink.clickhouse.replicas import TWICE
from chsink.clickhouse.shards import RoutedTable
from chsink.errors import ChsinkError, halts
from chsink.errors.steps import NEW_CHECKPOINT
from chsink.formats.pipeline import Untouched
from chsink.kafka.admin import KafkaAdmin
from chsink.kafka.exact import ExactReader
from chsink.kafka.same_records import unlike
from chsink.notation.sql import quote_string, quote_table
from chsink.recovery.accepted import REMOVED_SHARDS, Accepted, in_words, option_for, runs_of
from chsink.recovery.explained import I64, NONE, Means, Prepare, Told, explain, first_halting, shards_of
from chsink.recovery.landed import SLICE, Extent, QueriedTable, extent, have_timestamps, holes, present, timestamps
from chsink.recovery.landed_rows import also_from, letters_of, views_of
from chsink.recovery.letters import SinkLetters
from chsink.recovery.recovered import Doubt, Recovered
from chsink.recovery.whole_pieces import cut_before
from chsink.statemachine.chunks import chunk_count
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey, StateRecord

Say = Callable[[str], None]
_NEW_TABLE = (
    "chsink cannot recover a recreated topic; land it in another table: create the table, name it in the topic's "
    '[[route]], set kafka.starting_offsets = "earliest" and ' + NEW_CHECKPOINT
)


@dataclass(frozen=True, slots=True)
class SurveyReads:
    """What one survey reads with; ``known`` is what the store holds of the sink."""

    clickhouse: Cluster
    kafka: KafkaAdmin
    say: Say
    reader: ExactReader
    letters: SinkLetters
    known: Mapping[StateKey, StateRecord]

    def means(self, target: RoutedTable) -> Means:
        """How the records of the table are explained."""
        route = self.clickhouse.routes[target.topic, target.name]
        prepare = preparing(self.clickhouse, target)
        return Means(prepare, fates_of(self.clickhouse.config.errors), route.choice is not None)

    def delivered_until(self, key: StateKey, start: int, means: Means) -> int:
        """Below which offset nothing that is sent from ``start`` on has to be delivered to a topic again."""
        if self.letters.topic is None:
            return start
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


def tables_of(clickhouse: Cluster, target: RoutedTable) -> list[QueriedTable]:
    """The table on each shard, as a current replica holds it."""
    return [(s.reader(clickhouse.clock, copies=TWICE), quote_table(s.table.canonical)) for s in target.shards]


def reached(rows: Extent | None, letters: I64) -> Extent | None:
    """How far rows and dead letters reach."""
    if not len(letters):
        return rows
    first, end = int(letters[0]), int(letters[-1]) + 1
    if rows is None:
        return Extent(OffsetRange(first, end), 0)
    return Extent(OffsetRange(min(rows.range.start, first), max(rows.range.end, end)), rows.rows)


class PartitionSurvey:
    """The survey of one topic-partition.  ``share``: so many may be in doubt for the table at once."""

    def __init__(self, reads: SurveyReads, target: RoutedTable, key: StateKey, means: Means, *, share: int) -> None:
        self._reads, self._clickhouse, self._kafka, self._say = reads, reads.clickhouse, reads.kafka, reads.say
        self._target, self._key, self._means, self._share = target, key, means, share
        self._replaced = reads.known.get(key)
        self._tp = key.topic_partition
        self._tables = tables_of(self._clickhouse, target)
        self._places, self._letters = list(self._tables), reads.letters.of(key)
        self._counted = self._letters.counted
        for other in reads.siblings(key):
            self._places += tables_of(self._clickhouse, other)
            self._counted = np.union1d(self._counted, reads.letters.of(changed(key, table=other.name)).counted)

    def survey(self, accepted: Accepted) -> Iterator[Recovered]:
        """One finding, or none where the table has no row of it."""
        topic_id = self._kafka.topic_ids([self._tp.topic])[self._tp.topic]  # first: it may be recreated
        seen = reached(extent(self._places, self._tp), self._counted)
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
        delivered = self._reads.delivered_until(self._key, end if doubt is None else doubt.range.start, self._means)
        yield Recovered(self._key, self._replaced, OffsetRange(start, end), topic_id, doubt=doubt, delivered=delivered)

    def _cropped(self, landed: OffsetRange, topic_id: str | None) -> Iterator[Recovered]:
        """Nothing but dead letters of a topic follows: what lies behind is read again."""
        self._say(
            f"{self._tp}: only dead letters follow from offset {landed.end} on; the next start reads on from there, "
            "and delivers again those of them that the dead letters' consumer group no longer knows"
        )
        if not landed.is_empty:
            delivered = self._reads.delivered_until(self._key, landed.end, self._means)
            yield Recovered(self._key, self._replaced, landed, topic_id, delivered=delivered)

    @cached_property
    def _rows(self) -> Extent | None:
        """How far the rows of the table itself reach."""
        return extent(self._tables, self._tp)

    def _judged(self, seen: Extent, accepted: Accepted) -> ChsinkError | Doubt | OffsetRange | None:
        """Why nothing can be rebuilt, what is in doubt, or what alone landed; None if all of it did."""
        log_start = self._log_start()
        refused = None if accepted.timestamps else self._of_other_records(log_start)
        refused = refused or (None if accepted.several else self._several())
        if refused is not None:
            return refused
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
        if len(self._letters.untold):
            offsets = in_words(list(runs_of(self._letters.untold.tolist())))
            self._say(
                f"{self._tp}: Kafka no longer holds the records of the dead letters at offsets {offsets}; if the topic "
                "was deleted and created again, they may be of the earlier one, and prove nothing"
            )
        lost = tuple(runs_of(told.unexplained.tolist()))
        in_the_way = self._foreign_letters(lost[0].start if lost else seen.range.end)
        return in_the_way or (self._in_doubt(seen, told, lost, log_start) if lost else None)

    def _foreign_letters(self, start: int) -> ChsinkError | None:
        """Dead letters in a table where the job goes on: it would take them for those of the records there."""
        kept, foreign = self._clickhouse.letters, self._letters.foreign
        foreign = foreign[foreign >= start]
        if kept is None or not len(foreign):
            return None
        offsets = in_words(list(runs_of(foreign.tolist())))
        return self._refused(
            f"the dead letters at offsets {offsets}, {len(foreign)} in all, hold other records than Kafka holds there, "
            "such as those of an earlier topic of this name; the next start would take them for those of these records",
            "copy them to another table first, because Kafka no longer holds their records; then delete "
            f"{self._letters_from(start)}; then run this command again",
        )

    def _missing(self, seen: Extent, log_start: int) -> list[OffsetRange]:
        """Ranges without a row that the record, if there is one, does not account for."""
        missing = list(holes(self._places, self._tp, seen.range, self._progress(seen), self._counted))
        if self._replaced is not None:
            return self._unaccounted(self._replaced, seen, missing)
        before = OffsetRange(log_start, max(log_start, seen.range.start))
        if not before.is_empty and self._clickhouse.config.kafka.starting_offsets == "earliest":
            missing.insert(0, before)  # it was to be read too
        elif not before.is_empty:
            self._say(
                f"{self._tp}: records before the first row, {before}, count as older than the first start, because "
                'kafka.starting_offsets is "latest"; if some of them may be lost, answer no, and add '
                "`--set kafka.starting_offsets=earliest` to this command"
            )
        return missing

    def _of_other_records(self, log_start: int) -> ChsinkError | None:
        rows = self._rows
        if rows is None or not have_timestamps(self._target.table) or rows.range.end <= log_start:
            return None
        span = OffsetRange(max(rows.range.start, log_start), rows.range.end)
        offsets = unlike(self._reads.reader, self._tp, span, lambda part: timestamps(self._tables, self._tp, part))
        if not len(offsets):
            return None
        named = f"{in_words(list(runs_of(offsets.tolist())))}, {len(offsets)} in all"
        return self._refused(
            f"rows have another _kafka_timestamp than Kafka's records at their offsets ({named}): the topic was "
            "deleted and created again since they landed, or its log lost records",
            f"{_NEW_TABLE}; only if your program's transform sets the timestamp, add `--accept-timestamps` to this "
            "command",
        )

    def _several(self) -> ChsinkError | None:
        seen = self._rows
        if seen is None:
            return None
        offsets = seen.range.length - _count(holes(self._tables, self._tp, seen.range, lambda _: None, NONE))
        if seen.rows <= offsets:
            return None
        return self._refused(
            f"some offsets have several rows ({seen.rows} rows, {offsets} offsets)",
            "if your program's transform makes several rows of one record, add `--accept-several` to this command and "
            "remove nothing; otherwise remove the duplicates, then run it again",
        )

    def _unaccounted(self, record: StateRecord, seen: Extent, missing: list[OffsetRange]) -> list[OffsetRange]:
        """Holes beyond what the record says is done: up to there it tells what landed and what was left out."""
        done = record.done
        beyond = [OffsetRange(max(h.start, done), h.end) for h in missing if h.end > done]
        return [OffsetRange(done, seen.range.start), *beyond] if done < seen.range.start else beyond

    def _told(self, missing: list[OffsetRange], seen: Extent) -> Told:
        if not missing:
            return Told(NONE)
        return explain(self._reads.reader, self._tp, missing, self._tables, end=seen.range.end, means=self._means)

    def _in_doubt(
        self, seen: Extent, told: Told, lost: tuple[OffsetRange, ...], log_start: int
    ) -> Doubt | OffsetRange | ChsinkError:
        """What the next start is to look for and to complete, if it can tell whole pieces from parts of them."""
        lowest = log_start if self._replaced is None else max(log_start, self._replaced.done)
        cut = self._cut(OffsetRange(lost[0].start, seen.range.end), told, lowest)
        if not isinstance(cut, str):
            return Doubt(*cut, lost)
        rows = self._rows
        in_topic = self._clickhouse.letters is None  # nobody deletes dead letters from there
        if in_topic and (rows is None or rows.range.end <= lost[0].start):
            return OffsetRange(min(seen.range.start, lost[0].start), lost[0].start)
        return self._refused(
            f"records that Kafka holds have no row, and nothing explains it: offsets {in_words(lost)}, {_count(lost)} "
            f"in all; rows follow up to {seen.range.end - 1}; the next start cannot insert exactly what is "
            f"missing: {cut}",
            f"{REMOVED_SHARDS}; otherwise {self._delete_from(lost[0].start)}; then add `--accept-removed` to this "
            "command: the next start inserts these records, and all after them (then insert the copied ones that are "
            "missing); only if a filter of your program "
            f"leaves out each of these records, {_count(lost)} in all, delete nothing and add "
            f"`{option_for(self._key, lost)}` instead",
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
        of_record, misplaced = shards_of(self._reads.reader, self._tp, around, self._tables, self._means.prepare)
        if misplaced is not None and misplaced >= span.start:
            return f"the row of offset {misplaced} is on another shard than the one for its record"
        if span.length <= most:
            return span, 1  # a record is a whole piece, wherever the lost range was cut
        there = [np.flatnonzero(present([table], self._tp, around)) + around.start for table in self._tables]
        of_lost = of_record[told.unexplained - around.start]
        shards = [(rows, told.unexplained[of_lost == number]) for number, rows in enumerate(there)]
        start = cut_before(span.start, shards, chunk_offsets)
        if start is None or start < lowest:
            return "a chunk holds only some of its rows"
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
        for part in self._reads.reader.read(self._tp, rest):
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
            _NEW_TABLE,
        )

    def _log_ends_before(self, seen: Extent) -> ChsinkError | None:
        end = self._log_end()
        if end >= seen.range.end:
            return None
        return self._refused(
            f"the table has rows up to offset {seen.range.end - 1}, but Kafka's log ends at {end}: "
            "the topic was recreated",
            _NEW_TABLE,
        )

    def _refused(self, why: str, fix: str) -> ChsinkError:
        return halts.ROWS_PROVE_NOTHING(tp=self._tp, table=self._target.name, reason=why, fix=fix)

    def _delete_from(self, offset: int) -> str:
        """What removes the rows from there on, and their dead letters."""
        views = also_from(views_of(self._target.shards))
        delete = f"{self._target.table.deleting(self._which(offset))}{views}"
        letters = "" if self._clickhouse.letters is None else f"; and {self._letters_from(offset)}"
        return (
            f"delete the rows from offset {offset} on (in a compacted topic, first copy these rows and dead letters to "
            f"other tables: Kafka may no longer hold all of their records), on each shard: {delete}{letters}"
        )

    def _letters_from(self, offset: int) -> str:
        """The same of dead letters alone, where a table holds them."""
        kept = self._clickhouse.letters
        assert kept is not None
        delete = kept.table.deleting(f"{self._which(offset)} AND {letters_of(self._key)}")
        return f"the dead letters from offset {offset} on, on {kept.url}: {delete}"

    def _which(self, offset: int) -> str:
        return (
            f"_kafka_topic = {quote_string(self._tp.topic)} AND _kafka_partition = {self._tp.partition} "
            f"AND _kafka_offset >= {offset}"
        )


def _count(ranges: Iterable[OffsetRange]) -> int:
    return sum(r.length for r in ranges)
