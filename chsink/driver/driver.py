"""One micro-batch on the driver: decide, settle, announce, land the pieces, confirm.

Order, per topic-partition, and why:
1. *decide* for all, purely, from records (cached), planned ranges and facts.
2. *settle* ranges in doubt that the batch does not contain completely, by an exact Kafka read; AFTER.
   Only then may newer data be announced.
3. *re-insert* ranges in doubt that the batch contains, under the recorded range; AFTER.
4. BEFORE for all new ranges in one compare-and-set; insert; AFTER in one compare-and-set.

A batch that is too large for one announcement is landed in *rounds* (``statemachine.rounds``).  A round is all of the
above over the heads of the ranges that remain, read from Kafka exactly, as the frame would bring all of them at once.

AFTER is written only when the acknowledgements tile every announced range by offset.  A crash anywhere leaves each
range unannounced, in doubt, or done: the next start decides from that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from chsink import failpoints
from chsink.batch.confirm import confirm
from chsink.batch.model import Ack, PlannedBatch, left_out_of
from chsink.batch.roles import ExactReads
from chsink.driver.deleted_offsets import ListDeleted, announce_deleted, listed
from chsink.driver.halts import Halts
from chsink.driver.ledger import Ledger
from chsink.driver.pace import Pace
from chsink.driver.recheck import check_readable, check_same_topics, check_still_held
from chsink.driver.roles import Assignment, Observer, PieceRunner, Window
from chsink.driver.round_plan import RoundPlan
from chsink.driver.take_up import TakeUp
from chsink.errors import HaltError, PreflightError, halts
from chsink.ports import Clock, KafkaCluster
from chsink.refusals import asking_target
from chsink.statemachine import rounds, writes
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey, StateRecord, TopicTable
from chsink.statemachine.table import (
    Facts,
    Policy,
    Step,
    StepKind,
    Worklist,
    decide,
    settle,
)
from chsink.statemachine.tally import Tally


@dataclass(frozen=True, slots=True)
class Destination:
    """Where one topic lands: its table, and what a retry must repeat."""

    topic: str
    table: str
    chunk_offsets: int
    layout: str
    pipeline: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where the records of a landing come from: the batch at hand, or an ``exact`` read of Kafka."""

    run: Callable[[Sequence[Assignment]], Sequence[Ack]]
    exact: bool = False


@dataclass(slots=True)
class Driver:
    """Drives one lane of a sink (:mod:`chsink.driver.lanes`).  ``routes`` is by topic.

    ``pipeline_of(topic, layout, recorded)`` is the fingerprint of an insert made now under that shard layout, for a
    range that was announced under ``recorded``.  ``answers_for`` says of which tables of which topics this driver
    settles what is in doubt.

    Not thread-safe: Spark runs one batch at a time.
    """

    ledger: Ledger
    routes: Mapping[str, Destination]
    kafka: KafkaCluster
    window: Window
    clock: Clock
    policy: Policy
    observer: Observer
    pipeline_of: Callable[[str, str, str], str]
    pace: Pace = field(default_factory=Pace)
    answers_for: Callable[[TopicTable], bool] = lambda _: True
    list_deleted: ListDeleted = lambda _: None

    # --- start ----------------------------------------------------------------------------------------------------

    def keys_of(self, partitions: Iterable[TopicPartition]) -> list[StateKey]:
        """The keys of those partitions that are of this driver's topics."""
        return [self._key(tp) for tp in partitions if tp.topic in self.routes]

    def check_claimed(self, keys: Iterable[StateKey]) -> None:
        """Called once the ledger has claimed the sink with these keys.

        PreflightError when a table has rows of a partition of which nothing was ever announced: the state was lost.
        """
        with self._halting_as_owner():
            self._check_nothing_landed(keys)

    def _check_nothing_landed(self, keys: Iterable[StateKey]) -> None:
        """Asked once the sink is ours: from here on only we announce, and a lost state would cost us the claim."""
        unknown: dict[str, list[int]] = {}
        for key in keys:
            if self.ledger.records[key].known_end == 0:
                unknown.setdefault(key.topic, []).append(key.partition)
        with asking_target():
            for topic, numbers in unknown.items():
                self.window.check_nothing_landed(topic, self.routes[topic].table, numbers)

    def in_doubt(self) -> dict[StateKey, StateRecord]:
        """Ranges that were announced and not confirmed."""
        return {k: r for k, r in self.ledger.records.items() if r.in_doubt and self.answers_for(k.topic_table)}

    def settle_all(self, runner: ExactReads[Assignment], except_for: Iterable[StateKey] = ()) -> None:
        """Settle every range in doubt of the sink by exact reads.  Raises all halts as one, when others are settled."""
        halted = Halts()
        with self._halting_as_owner():
            self._settle_all(runner, set(except_for), halted)
            halted.raise_all()

    def _settle_all(self, runner: ExactReads[Assignment], skipped: set[StateKey], halted: Halts) -> None:
        doubtful = {k: r for k, r in self.in_doubt().items() if k not in skipped}
        if not doubtful:
            return
        for key, record in doubtful.items():
            with halted.of(key):
                self._check_placed(key, record)
        placed = {k: r for k, r in doubtful.items() if k not in halted}
        facts = self._facts(placed) if placed else {}
        halted.decided({k: settle(r, facts[k.topic_partition], self.policy) for k, r in placed.items()})
        settling = [k for k in placed if k not in halted]
        if settling:
            self.observer.settling(placed[k] for k in settling)
            # if the log start passed a range in the meantime, records may be missing: asked after the read
            self._land_recorded(settling, _exact(runner), halted)

    def _check_placed(self, key: StateKey, record: StateRecord) -> None:
        """HaltError where nobody knows any more which table or shards the range is for."""
        route = self.routes.get(key.topic)
        if route is None or route.table != key.table:
            raise halts.NOT_ROUTED(tp=key.topic_partition, table=key.table)
        self._layout(key, record)

    # --- one batch ------------------------------------------------------------------------------------------------

    def process(
        self,
        batch: PlannedBatch,
        runner: PieceRunner,
        *,
        framed: bool = True,
    ) -> None:
        """Land the batch.  Idempotent: the same batch again changes nothing that landed.

        Not ``framed``: the frame holds records of other topics, too, so the batch is read from Kafka exactly.
        """
        with self._halting_as_owner():
            self._process(batch, runner, framed=framed)

    def _process(self, batch: PlannedBatch, runner: PieceRunner, *, framed: bool) -> None:
        rest = self._round(batch, runner, first=True, framed=framed)
        while any(not r.is_empty for r in rest.ranges.values()):
            rest = self._round(rest, runner, first=False, framed=False)

    def _round(self, batch: PlannedBatch, runner: PieceRunner, *, first: bool, framed: bool) -> PlannedBatch:
        """Decide the batch, and land what one round may hold of it.  Returns what remains, for the next round."""
        with self.observer.phase("plan"):
            self._check_unchanged(batch)
            plan = self._plan(batch)
            if first:
                self.observer.decided(batch, plan.by_key())
        at_hand = Source(partial(runner.from_batch, batch)) if framed and plan.is_whole else _exact(runner)
        todo = plan.steps()
        self._pass_over(todo, plan)
        self._settle_first(todo, plan, at_hand, runner)
        self._pass_over(todo, plan)
        self._land_new(todo, plan, at_hand)
        todo.check_done()
        self.observer.state(self.ledger.records)
        return replace(batch, ranges=plan.rest())

    def _plan(self, batch: PlannedBatch) -> RoundPlan:
        keys = {tp: self._key(tp) for tp in batch.ranges}
        self.ledger.ensure(keys.values())
        facts = self._batch_facts(batch, keys)
        decisions = {
            tp: decide(self.ledger.records[keys[tp]], planned, facts[tp], self.policy)
            for tp, planned in batch.ranges.items()
        }
        writing, targets = rounds.writes_of(decisions), {tp: self.routes[tp.topic] for tp in keys}
        limit, seconds = self._limit({key.table for key in keys.values()})
        taken = rounds.next_round(writing, targets, limit)
        return RoundPlan(batch.ranges, keys, facts, decisions, writing, taken, targets, limit, seconds)

    def _limit(self, tables: Iterable[str]) -> tuple[rounds.Limit, float]:
        """What one round of these tables may hold, and the seconds that its sends have."""
        with asking_target():
            limits = {table: self.window.limit(table) for table in sorted(tables)}
        seconds = min((limit.seconds for limit in limits.values()), default=0.0)
        return rounds.Limit({t: limit.chunks for t, limit in limits.items()}, self.pace.most(seconds)), seconds

    def _pass_over(self, todo: Worklist, plan: RoundPlan) -> None:
        """Skip what is done with, as the record now says."""
        for tp, step in todo.take(StepKind.SKIP).items():
            record = self.ledger.records[plan.keys[tp]]
            log_start = plan.facts[tp].log_start or 0
            assert plan.facts[tp].others or record.done_with(step.range, log_start), (tp, step, record)

    def _settle_first(self, todo: Worklist, plan: RoundPlan, at_hand: Source, runner: PieceRunner) -> None:
        """Settle all that is in doubt: what the batch contains ``at_hand``, everything else by exact reads.  Raises
        the halts of these and of the plan as one.
        """
        settling = [plan.keys[tp] for tp in todo.take(StepKind.SETTLE)]
        again = [plan.keys[tp] for tp in todo.take(StepKind.REINSERT)]
        halted = Halts()
        self._settle_all(runner, set(again), halted)
        halted.decided(plan.by_key())
        if again:
            self._land_recorded(again, at_hand, halted)
        halted.raise_all()
        assert not any(self.ledger.records[k].in_doubt for k in (*again, *settling))

    def _check_unchanged(self, batch: PlannedBatch) -> None:
        with asking_target():
            self.window.check_unchanged(sorted({self.routes[tp.topic].table for tp in batch.ranges}))

    def _land_new(self, todo: Worklist, plan: RoundPlan, source: Source) -> None:
        """BEFORE, insert, AFTER for every write step of the round; gaps are recorded in BEFORE."""
        gaps = {plan.keys[tp]: step.range for tp, step in todo.take(StepKind.RECORD_GAP).items()}
        writing = {plan.keys[tp]: step for tp, step in todo.take(StepKind.WRITE).items()}
        if not writing:
            return
        began = self.clock.steady_ms()
        check_readable(self.kafka, {key.topic_partition: step.range for key, step in writing.items()})
        failpoints.reach("driver.before_before")
        with self.observer.phase("before"):
            self._announce(writing, gaps, plan.facts)
        failpoints.reach("driver.after_before")
        halted = Halts()
        self._land_recorded(list(writing), source, halted, fresh=True)
        halted.raise_all()
        offsets = sum(step.range.length for step in writing.values())
        self.pace.took(offsets, (self.clock.steady_ms() - began) / 1000, plan.seconds)

    def _announce(
        self,
        writing: Mapping[StateKey, Step],
        gaps: Mapping[StateKey, OffsetRange],
        facts: Mapping[TopicPartition, Facts],
    ) -> None:
        attempt, now = self.ledger.attempt(), self.clock.now_ms()
        with asking_target():
            marks = self.window.marks(sorted({key.table for key in writing}))
        changes = {}
        for key, step in writing.items():
            route, topic_id = self.routes[key.topic], facts[key.topic_partition].topic_id
            said = writes.Announcement(
                topic_id, Sending(route.chunk_offsets, route.layout, route.pipeline), Seen(now, marks[key.table])
            )
            changes[key] = writes.before(
                self.ledger.records[key],
                step.range,
                said,
                epoch=self.ledger.epoch,
                attempt=attempt,
                fresh=step.fresh,
                gap=gaps.get(key),
            )
        self.ledger.write(changes)
        self.observer.state(self.ledger.records)

    def _land_recorded(
        self,
        keys: Sequence[StateKey],
        source: Source,
        halted: Halts,
        *,
        fresh: bool = False,
    ) -> None:
        """Land the announced ranges, then write AFTER in one compare-and-set for all that did not halt."""
        if not fresh:
            keys = TakeUp(self.ledger, self.window, self.clock, self._pipeline)(keys, halted)
        gives_up = self.policy.in_doubt == "dead_letter"
        given_up = [
            k.topic_partition for k in keys if source.exact and (gives_up or self.ledger.records[k].doubt.expired)
        ]
        starts = self.kafka.log_starts(given_up) if given_up else {}
        assigned = [self._assign(k, starts.get(k.topic_partition, 0), again=not fresh) for k in keys]
        assignments = [a for a in assigned if not a.held.is_empty]
        with self.observer.phase("insert" if fresh else "settle"):
            acks = source.run(assignments) if assignments else []
        unproven = confirm(acks, assignments)
        for key in keys:
            if key.topic_partition in unproven:
                halted.add(key, unproven[key.topic_partition])
        keys = [k for k in keys if k not in halted]
        if not keys:
            return
        landed = {k: self.ledger.records[k] for k in keys}
        if source.exact:
            starts = check_still_held(self.kafka, landed, gives_up=gives_up)
        check_same_topics(self.kafka, landed)  # last: what Kafka said of its log was said of this topic
        if source.exact and gives_up:
            acks = [*acks, *self._list_deleted(landed, starts, halted)]
            keys = [k for k in keys if k not in halted]
        left_out = left_out_of(acks)
        failpoints.reach("driver.before_after" if fresh else "driver.after_settle_inserts")
        with self.observer.phase("after"):
            attempt, epoch = self.ledger.attempt(), self.ledger.epoch
            self.ledger.write({k: self._done(k, starts, left_out, epoch, attempt) for k in keys})
        failpoints.reach("driver.after_after")
        self.observer.landed(self._by_table(acks, unproven))

    def _list_deleted(
        self, landed: Mapping[StateKey, StateRecord], starts: Mapping[TopicPartition, int], halted: Halts
    ) -> list[Ack]:
        """List the offsets of these ranges in doubt that Kafka deleted, before AFTER gives them up."""
        acks = []
        for key in announce_deleted(self.ledger, landed, starts):
            with halted.of(key):
                assigned = self._assign(key, 0, again=True)
                self.list_deleted(assigned)
                acks.append(listed(assigned))
        return acks

    def _by_table(self, acks: Sequence[Ack], unproven: Collection[TopicPartition | None]) -> dict[str, list[Ack]]:
        """The acks of what landed."""
        tables: dict[str, list[Ack]] = {}
        for ack in acks:
            if ack.topic is not None and ack.topic_partition not in unproven:
                tables.setdefault(self.routes[ack.topic].table, []).append(ack)
        return tables

    def _done(
        self,
        key: StateKey,
        starts: Mapping[TopicPartition, int],
        left_out: Mapping[TopicPartition, Tally],
        epoch: int,
        attempt: str,
    ) -> StateRecord:
        record, tp = self.ledger.records[key], key.topic_partition
        log_start, tally = starts.get(tp, 0), left_out.get(tp, Tally())
        return writes.after(record, epoch=epoch, attempt=attempt, log_start=log_start, left_out=tally)

    def _assign(self, key: StateKey, log_start: int, *, again: bool) -> Assignment:
        record = self.ledger.records[key]
        layout = self._layout(key, record)
        deadline_ms = self.window.deadline_ms()
        return Assignment(key, record, layout, deadline_ms, log_start, again, self.window.is_alone(record))

    def _layout(self, key: StateKey, record: StateRecord) -> str:
        """The recorded layout.  HaltError CHS-312 when it is not stored."""
        layout = self.ledger.layout(record.sent.layout)
        if layout is None:
            raise halts.LAYOUT_LOST(tp=key.topic_partition, table=key.table, layout=record.sent.layout)
        return layout

    # --- facts ----------------------------------------------------------------------------------------------------

    def _key(self, tp: TopicPartition) -> StateKey:
        return StateKey(self.ledger.sink, tp.topic, tp.partition, self.routes[tp.topic].table)

    def _batch_facts(self, batch: PlannedBatch, keys: Mapping[TopicPartition, StateKey]) -> dict[TopicPartition, Facts]:
        """Facts of the batch's partitions.  Kafka's log bounds are read only if the plan does not simply continue, or
        if the recorded topic has no id.
        """
        records = {k: self.ledger.records[k] for k in keys.values()}
        odd = [
            tp
            for tp, planned in batch.ranges.items()
            if planned.start != records[keys[tp]].end or not records[keys[tp]].life.topic_id
        ]
        facts = self._facts(records, ends_of=odd, history=batch.history)
        return {tp: replace(fact, others=batch.others.get(tp, ())) for tp, fact in facts.items()}

    def _facts(
        self,
        records: Mapping[StateKey, StateRecord],
        *,
        ends_of: Sequence[TopicPartition] | None = None,
        history: frozenset[TopicPartition] = frozenset(),
    ) -> dict[TopicPartition, Facts]:
        partitions = [k.topic_partition for k in records]
        ids = self.kafka.topic_ids({tp.topic for tp in partitions})
        asked = partitions if ends_of is None else ends_of
        ends = self.kafka.log_ends(asked) if asked else {}
        starting = sorted({*(k.topic_partition for k, r in records.items() if r.in_doubt), *(ends_of or ())})
        starts = self.kafka.log_starts(starting) if starting else {}
        return {
            k.topic_partition: Facts(
                ids[k.topic],
                starts.get(k.topic_partition),
                ends.get(k.topic_partition),
                k.topic_partition in history,
                self._pipeline(k, r),
            )
            for k, r in records.items()
        }

    def _pipeline(self, key: StateKey, record: StateRecord) -> str:
        """The fingerprint of an insert made now: under the recorded layout if the range is in doubt."""
        with asking_target():
            if record.in_doubt:
                return self.pipeline_of(key.topic, record.sent.layout, record.sent.pipeline)
            return self.routes[key.topic].pipeline

    @contextmanager
    def _halting_as_owner(self) -> Iterator[None]:
        """A driver that was fenced without noticing knows old records, and would halt on stale state."""
        try:
            yield
        except (HaltError, PreflightError):
            self.ledger.check_owned()
            raise


def _exact(runner: ExactReads[Assignment]) -> Source:
    return Source(runner.from_kafka, exact=True)
