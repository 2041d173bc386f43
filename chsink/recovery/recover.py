"""``recover``: rebuild a lost state store from the target tables' ``_kafka_…`` columns.

The sink landed ranges in order, and finished each one before the next began.  So the rows of a topic-partition cover
everything up to the last finished range without an unexplained hole; only an unfinished range may have left some of its
rows.  A state record is rebuilt if the table proves that: each offset from the first row to the last has a row, or
Kafka has no record there.  The rebuilt range ends at the first record that has not landed.  Anything else is refused,
and the first missing offset is named: to continue after the last row would lose that record, and to continue at it
would land the rows behind it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from chsink.batch.halts import asking_target
from chsink.batch.ledger import read_records
from chsink.clickhouse.mutations import check_none_deleting, mutations
from chsink.clickhouse.probe import only_of
from chsink.clickhouse.replicas import TWICE
from chsink.clickhouse.shards import RoutedTable
from chsink.clickhouse.table import KEEPING, TargetTable
from chsink.connect import Services
from chsink.errors import ChsinkError, halts
from chsink.errors.several import several
from chsink.notation.metadata_columns import PROBE_COLUMNS
from chsink.notation.sql import quote_string, quote_table
from chsink.ports import Queries
from chsink.recovery.change import check_unchanged, claim
from chsink.recovery.landed import Extent, Place, extent, holes
from chsink.recovery.landed_rows import also_from, views_of, wait_for_any_insert
from chsink.recovery.unread import first_unread
from chsink.statemachine import writes
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Phase, StateKey, StateRecord

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a person vouches for.  ``removed``: rows that were removed beyond the last remaining one may be inserted
    again.  ``holes``: that every offset without a row, or with several, is as it should be.
    """

    removed: bool = False
    holes: bool = False


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was found for one topic-partition: the range its rows prove, or why they prove nothing.

    ``replaced`` is the record whose place the rebuilt one takes, None where nothing is recorded.  ``kept``: it stays as
    it is, but for its tokens (see :func:`_may_have_lost_rows`).
    """

    key: StateKey
    replaced: StateRecord | None
    landed: OffsetRange
    topic_id: str | None
    refusal: ChsinkError | None = None
    kept: bool = False


def survey(services: Services, say: Say, accepted: Accepted, *, replace: bool = False) -> list[Recovered]:
    """Look at every topic-partition without state; with ``replace`` also at those whose table holds rows beyond the
    recorded end, as after an old backup was restored; all others then get new tokens.  Changes nothing.

    Raises PreflightError CHS-330 for tables that cannot tell, with all refusals of theirs: a person decides once.
    """
    if services.config.topic_pattern:
        services.take_up_topics()  # of the brokers: nothing recorded is trusted here
    stored = read_records(services.store, services.config.sink.name)
    found: list[Recovered] = []
    refused: list[ChsinkError] = []
    for target in services.clickhouse.targets.values():
        partitions = services.kafka.partitions([target.topic])
        keys = [StateKey(services.config.sink.name, tp.topic, tp.partition, target.name) for tp in partitions]
        recorded = {k: stored[k] for k in keys if k in stored and stored[k].phase is not Phase.EMPTY}
        stale = _stale(services, target, recorded, accepted) if replace else set()
        todo = [k for k in keys if k not in recorded or k in stale]
        others = {k: r for k, r in recorded.items() if replace and k not in todo}
        kept = [k for k, r in others.items() if _may_have_lost_rows(target, r, accepted)]
        if todo or kept:
            wait_for_any_insert(services, services.config.sink.name, target.topic, target.shards)
        if todo:
            with asking_target():
                refused += _refusals(services, target, accepted)
                held = _held(services, target)
        rebuilt: list[Recovered] = []
        for key in todo:
            with asking_target():
                rebuilt += _Partition(services, target, key, recorded.get(key), held(key), say=say).survey(accepted)
        if rebuilt:
            _say_views(target, say)
        found += rebuilt
        found += [Recovered(k, others[k], others[k].range, others[k].topic_id, kept=True) for k in kept]
    if refused:
        raise several([*refused, *(one.refusal for one in found if one.refusal is not None)])
    return found


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
    services: Services, target: RoutedTable, recorded: Mapping[StateKey, StateRecord], accepted: Accepted
) -> set[StateKey]:
    """Those whose table holds rows beyond the recorded end, where it can tell.  Earlier incarnations may have reached
    further: rows that they left there are rows of these offsets, too.

    Where rows were removed, also a range in doubt: its tokens may be remembered for rows that are not there any more.
    """
    if not (recorded and _can_tell(target)):
        return set()
    with asking_target():
        held = _held(services, target)
        seen = {key: extent(held(key), key.topic_partition) for key in recorded}
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
    return _can_tell(target) and (accepted.removed or not record.in_doubt)


def _can_tell(target: RoutedTable) -> bool:
    return {c.name for c in target.table.columns}.issuperset(PROBE_COLUMNS)


def write(services: Services, found: list[Recovered]) -> dict[StateKey, StateRecord]:
    """Claim the sink and write the records, in one compare-and-set.  Raises the first refusal before that, CHS-323 when
    a record is not the one that was found.
    """
    for one in found:
        if one.refusal is not None:
            raise one.refusal
    ledger = claim(services, "recover", [one.key for one in found])
    attempt, now = ledger.attempt(), services.clock.now_ms()
    changes: dict[StateKey, StateRecord] = {}
    for one in found:
        layout = services.clickhouse.layout(services.clickhouse.routes[one.key.topic_table]).fingerprint()
        said = writes.Announcement(one.topic_id, services.config.clickhouse.chunk_offsets, layout, "", now)
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
        incarnation = max(now // 1000, record.incarnation + 1)
        changes[one.key] = writes.recovered(
            record, one.landed, said, incarnation=incarnation, epoch=ledger.epoch, attempt=attempt
        )
    ledger.write(changes)
    return changes


def _refusals(services: Services, target: RoutedTable, accepted: Accepted) -> Iterator[ChsinkError]:
    """Why rows of the table may be gone, unless that is accepted.  Raises where rows cannot be looked for at all."""
    for shard in target.shards:
        missing = set(PROBE_COLUMNS) - {c.name for c in shard.table.columns}
        if missing:
            raise _cannot(
                target, shard.url, f"it has no column {', '.join(sorted(missing))}", "restore the state from a backup"
            )
        reader = shard.reader(services.clock)
        check_none_deleting(reader, shard.table)
        why = _losing(reader, shard.table)
        if why is not None and not accepted.removed:
            fix = "add --accept-removed if rows that were removed beyond the last remaining row may be inserted again"
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


def _held(services: Services, target: RoutedTable) -> Callable[[StateKey], list[Place]]:
    """Where a record of a topic-partition is that was read: the table on each shard, and the dead letters, as current
    replicas hold them.
    """
    letters, clock = services.clickhouse.letters, services.clock
    tables = [(s.reader(clock, copies=TWICE), quote_table(s.table.canonical)) for s in target.shards]
    if letters is None:
        return lambda _: list(tables)
    kept, name = letters.reader(clock, copies=TWICE), quote_table(letters.table.canonical)

    def held(key: StateKey) -> list[Place]:
        mine = f"SELECT {', '.join(PROBE_COLUMNS)} FROM {name} WHERE true {only_of(key)}"
        return [*tables, (kept, f"({mine})")]

    return held


class _Partition:
    """The survey of one topic-partition."""

    def __init__(
        self,
        services: Services,
        target: RoutedTable,
        key: StateKey,
        replaced: StateRecord | None,
        held: Sequence[Place],
        *,
        say: Say,
    ) -> None:
        self._services = services
        self._target = target
        self._key = key
        self._replaced = replaced
        self._tp = key.topic_partition
        self._places = held
        self._say = say

    def survey(self, accepted: Accepted) -> Iterator[Recovered]:
        """One finding, or none where the table has no row of it."""
        topic_id = self._services.kafka.topic_ids([self._tp.topic])[self._tp.topic]  # first: it may be recreated
        seen = extent(self._places, self._tp)
        if seen is None:
            self._say(f"{self._tp}: no rows in {self._target.name}; start the job with a new checkpoint to read it")
            return
        other = self._of_another_topic(topic_id)
        refusal = other or self._log_ends_before(seen) or (None if accepted.holes else self._doubt(seen))
        self._say(f"{self._tp}: {seen.rows} rows over {seen.range}" + (f": refused, {refusal.id}" if refusal else ""))
        landed = seen.range if refusal is not None else OffsetRange(seen.range.start, self._next_record(seen.range.end))
        yield Recovered(self._key, self._replaced, landed, topic_id, refusal)

    def _doubt(self, seen: Extent) -> ChsinkError | None:
        log_start = self._log_start()
        missing = list(holes(self._places, self._tp, seen.range, self._progress(seen)))
        offsets = seen.range.length - sum(h.length for h in missing)
        if seen.rows > offsets:
            return self._refused(
                f"some offsets have several rows ({seen.rows} rows, {offsets} offsets)",
                "remove duplicates; or, if the transform makes several rows of one record, add --accept-holes",
            )
        if self._replaced is not None:
            missing = self._unaccounted(self._replaced, seen, missing)
        elif self._services.config.kafka.starting_offsets == "earliest" and log_start < seen.range.start:
            missing.insert(0, OffsetRange(log_start, seen.range.start))  # it was to be read too
        gone = [h for h in missing if h.start < log_start]
        if gone:
            return self._refused(
                f"offset {gone[0].start} has no row, and Kafka no longer holds it (its log starts at {log_start})",
                "if no record was lost there (compaction, a transaction marker, a filter), add --accept-holes",
            )
        lost = self._first_unread(missing)
        if lost is None:
            return None
        return self._refused(
            f"offset {lost} has no row, although Kafka holds a record there (or an open transaction); rows follow "
            f"up to {seen.range.end - 1}",
            self._fix(lost),
        )

    def _unaccounted(self, record: StateRecord, seen: Extent, missing: list[OffsetRange]) -> list[OffsetRange]:
        """Holes beyond what the record says is done: up to there it tells what landed and what was left out."""
        done = record.start if record.in_doubt else record.end
        beyond = [OffsetRange(max(h.start, done), h.end) for h in missing if h.end > done]
        return [OffsetRange(done, seen.range.start), *beyond] if done < seen.range.start else beyond

    def _fix(self, lost: int) -> str:
        """The record itself decides.  What removes no row comes first."""
        views = views_of(self._target.shards)
        delete = f"on each shard: {self._delete_from(lost)}{also_from(views)}, and add --accept-removed"
        errors = self._services.config.errors
        skips = "skip" in (errors.on_bad_value, errors.on_tombstone)
        chooses = self._services.clickhouse.routes[self._key.topic_table].choice is not None
        others = ["errors.on_bad_value", "errors.on_tombstone"] if skips else []
        others += ["table_by"] if chooses else []
        left_out = f"{', '.join(others)} or a filter" if others else "a filter"
        dead = ""
        if self._services.config.dead_letters.topic is not None:
            dead = f", or it is a dead letter (`chsink dlq show {self._tp.topic} {self._tp.partition} {lost}`)"
        return (
            "look at the record at this offset. If "
            f"{left_out} leaves it out{dead}, add --accept-holes; if it should have a row, delete the rows from there "
            f"on, {delete}"
        )

    def _next_record(self, after: int) -> int:
        """Where the first record lies that has not landed: markers before it were read over, and a checkpoint knows.

        An open transaction is not passed over: its records may be committed later.  Nor is what Kafka has dropped: the
        next start reports it as a gap.
        """
        if self._log_start() > after:
            return after
        rest = OffsetRange(after, max(after, self._log_end()))
        unread = None if rest.is_empty else self._first_unread([rest])
        return rest.end if unread is None else unread

    def _first_unread(self, ranges: list[OffsetRange]) -> int | None:
        kafka = self._services.config.kafka
        return first_unread(kafka.client_options(), kafka.isolation_level, self._tp, ranges)

    def _log_start(self) -> int:
        return self._services.kafka.log_starts([self._tp])[self._tp]

    def _log_end(self) -> int:
        return self._services.kafka.log_ends([self._tp])[self._tp]

    def _progress(self, seen: Extent) -> Callable[[int], None]:
        def progress(reached: int) -> None:
            if reached < seen.range.end:
                self._say(f"{self._tp}: {reached - seen.range.start} of {seen.range.length} offsets checked")

        return progress

    def _of_another_topic(self, topic_id: str | None) -> ChsinkError | None:
        if self._replaced is None or self._replaced.may_belong_to(topic_id):
            return None
        return self._refused(
            f"the state was recorded for the topic with id {self._replaced.topic_id}, which was deleted: rows do not "
            "show whether they belong to the topic that has its name now",
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
        which = (
            f"WHERE _kafka_topic = {quote_string(self._tp.topic)} AND _kafka_partition = {self._tp.partition} "
            f"AND _kafka_offset >= {offset}"
        )
        letters = self._services.clickhouse.letters
        kept = ""
        if letters is not None:
            name = quote_table(letters.table.canonical)
            kept = f", and its dead letters: DELETE FROM {name} {which} {only_of(self._key)}"
        return f"DELETE FROM {quote_table(self._target.name)} {which}{kept}"
