"""The invariants after every step, and at the end.  It knows the truth and imports no code that decides.

Invariants, by name:

==================  ==================================================================================
at_most_once        no (topic id, partition, offset) is in a target table twice
announced_first     a row lands only after a BEFORE that covers its offset was stored
token_is_content    an insert that is dropped as a duplicate holds no row that the first one did not, unless compacted
right_shard         a row lands on the shard that the recorded layout gives it
after_means_landed  when AFTER is stored, every record that its range held is in the table, or compacted
state_forward       epochs, incarnations and ranges of a stored row never move backwards
one_slot            BEFORE is never stored over a range in doubt
halt_justified      production code halts only where the world gave it a reason
no_defect           production code raises nothing but errors it declares
one_fate            a record is in its table, or a dead letter, or neither; never what it should not be
complete_at_rest    when all is quiet, every record is in the table, or skipped and counted, or lost by Kafka
progress            a calm world comes to rest
==================  ==================================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from chsink.ports import StoredRow
from chsink.statemachine.codec import decode
from chsink.statemachine.owner import decode_owner
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord
from tests.sim.hub import Violation
from tests.sim.kafka import PARTITION, SERIAL, Kafka, id_of, serial_of, uid_of

LISTS = "db.dead lists"
"""Dead letters that list offsets which Kafka deleted, apart from the others: each as the uid of its first offset."""
INVARIANTS = (
    "at_most_once", "announced_first", "token_is_content", "right_shard", "after_means_landed", "state_forward",
    "one_slot", "halt_justified", "one_fate", "no_defect", "complete_at_rest", "progress",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Announced:
    """A BEFORE that was stored."""

    topic_id: str | None
    range: OffsetRange
    shards: int


@dataclass(frozen=True, slots=True)
class Consent:
    """What a person's command may do, and to which keys."""

    keys: frozenset[str] = frozenset()
    given_up: bool = False
    letters_again: bool = True


class Oracle:
    """Watches the target, the store and the halts of one world.  ``accepts``: whether a record has a row at all.
    ``shards_of``: how many shards the layout with a fingerprint has.
    """

    def __init__(
        self, kafka: Kafka, accepts: Callable[[int], bool], shards_of: Callable[[str], int], counts: Counter[str]
    ) -> None:
        self.kafka = kafka
        self.shards_of = shards_of
        self.accepts = accepts
        self.counts = counts
        self.landed: set[tuple[str, int]] = set()
        self.may_be_twice: set[tuple[str, int]] = set()  # since a person attached their parts again
        self.twice: set[tuple[str, int]] = set()
        self.sharing: tuple[str, ...] = ()  # tables of which each record is in one
        self.takes: Callable[[str, int, str], bool] = lambda *_: True  # whether a pipeline gives a table the record
        self.viewed: set[tuple[str, int]] = set()
        self.view_may_lack: set[tuple[str, int]] = set()
        self.with_views: set[str] = set()
        self.letters: str | None = None
        self.letters_stay = False  # in a topic, from which nobody deletes
        self.lists = False  # whether what Kafka deleted of a range in doubt is listed
        self.announced: dict[tuple[str, int], list[Announced]] = {}
        self.epochs: dict[str, int] = {}
        self.first_sent: dict[tuple[str, OffsetRange, str], int] = {}  # when a range was announced under its tokens
        self.given_up: list[tuple[TopicPartition, str | None, OffsetRange]] = []
        self.consented = Consent()

    # --- people ---------------------------------------------------------------------------------------------------

    @contextmanager
    def consent(
        self, keys: Iterable[StateKey], *, given_up: bool = False, letters_again: bool = True
    ) -> Iterator[None]:
        """A person's command changes these records.  ``given_up``: it gives up the missing rows of a range in doubt.

        ``letters_again``: dead letters of what is read again are delivered to a topic again.
        """
        with self.under(Consent(frozenset(map(str, keys)), given_up, letters_again)):
            yield

    @contextmanager
    def under(self, consent: Consent) -> Iterator[None]:
        """Inside the block, what is stored is a person's; also a write that arrives after the command has ended."""
        before, self.consented = self.consented, consent
        try:
            yield
        finally:
            self.consented = before

    def letters_again(self, tp: TopicPartition, offsets: OffsetRange) -> None:
        """Dead letters of these offsets are delivered to the topic once more."""
        for place, uid in list(self.landed) if self.letters_stay else ():
            if place == self.letters and self._is_of(uid, tp) and offsets.start <= uid % PARTITION < offsets.end:
                self.landed.remove((place, uid))

    def has(self, table: str, uid: int) -> bool:
        """Whether the table has the record."""
        return (table, uid) in self.landed

    # --- the target -----------------------------------------------------------------------------------------------

    def inserted(self, table: str, topic: str, uids: Iterable[int], shard: int) -> None:
        """Rows were stored in the table, on this shard."""
        landed = self.landed
        for uid in uids:
            name = (table, uid)
            if name in landed and name in self.may_be_twice:
                self.twice.add(name)
                continue
            if name in landed:
                raise Violation("at_most_once", f"{_say(uid)} is in {table} twice")
            others = (t for t in self.sharing if t != table and table in self.sharing and (t, uid) in landed)
            if other := next(others, None):
                raise Violation("at_most_once", f"{_say(uid)} is in {table} and in {other}")
            landed.add(name)
            if table.startswith(LISTS):
                continue
            if self.accepts(uid) == (table == self.letters):
                raise Violation("one_fate", f"{_say(uid)} is in {table}")
            self._check_announced(topic, uid, uid if table == self.letters else shard)

    def deduplicated(self, stored: frozenset[int], dropped: Iterable[int], token: str) -> None:
        """An insert was dropped because its token was known."""
        lost = [u for u in dropped if u not in stored and self.kafka.kept(u)]
        if lost:
            raise Violation("token_is_content", f"{_say(lost[0])} was dropped: token {token} had named other rows")

    def asked_for(self, topic: str, uid: int) -> bool:
        """Whether the record was ever announced, and not given up since."""
        offset, partition = uid % PARTITION, uid % SERIAL // PARTITION
        said = self.announced.get((topic, partition), ())
        return any(a.range.start <= offset < a.range.end for a in said) and not self._gave_up(
            TopicPartition(topic, partition), uid
        )

    def deleted(self, table: str, uids: Iterable[int]) -> None:
        """A person removed rows."""
        for seen in (self.landed, self.may_be_twice, self.twice):
            seen.difference_update((table, uid) for uid in uids)

    def attached_again(self, table: str, uids: Iterable[int]) -> None:
        """The table has forgotten the tokens of these rows.  They may land twice, but not unnoticed."""
        self.may_be_twice.update((table, uid) for uid in uids)

    def there_twice(
        self, tp: TopicPartition, offsets: OffsetRange, meant: Callable[[str, int], bool] = lambda *_: True
    ) -> list[int]:
        """Records of these offsets that are somewhere twice, where that place is ``meant``.  Nobody can look for one that
        was compacted since.
        """
        of = [(p, u) for p, u in self.twice if offsets.start <= u % PARTITION < offsets.end and self.kafka.kept(u)]
        return [u for place, u in of if self._is_of(u, tp) and meant(place, u)]

    def _is_for(self, table: str, pipeline: str, place: str, uid: int) -> bool:
        """Whether what lies there of the record is the table's: its own row, or its dead letter."""
        return place in {table, lists_of(table)} or (place == self.letters and self.takes(table, uid, pipeline))

    def _is_of(self, uid: int, tp: TopicPartition) -> bool:
        """Whether it is a record of the topic-partition, in whatever life of the topic."""
        return (self.kafka.names[serial_of(uid)], uid % SERIAL // PARTITION) == (tp.topic, tp.partition)

    def fed(self, table: str, uids: Iterable[int]) -> None:
        """The table's dependent view took rows."""
        for uid in uids:
            if (table, uid) in self.viewed:
                raise Violation("at_most_once", f"{_say(uid)} is in the view of {table} twice")
            self.viewed.add((table, uid))

    def deleted_from_view(self, table: str, uids: Iterable[int]) -> None:
        """A person removed rows of the view's target, which remembers their tokens until they are sent under new ones."""
        removed = {(table, uid) for uid in uids}
        self.viewed -= removed
        self.view_may_lack |= removed

    def _check_announced(self, topic: str, uid: int, shard: int) -> None:
        offset, partition = uid % PARTITION, uid % SERIAL // PARTITION
        said = [a for a in self.announced.get((topic, partition), ()) if a.range.start <= offset < a.range.end]
        if not said:
            raise Violation("announced_first", f"{_say(uid)} landed, and no stored BEFORE covers it")
        if all(uid % a.shards != shard % a.shards for a in said):
            raise Violation("right_shard", f"{_say(uid)} is on shard {shard}, announced for {said[-1].shards} shards")
        if all(a.topic_id not in (None, id_of(serial_of(uid))) for a in said):
            raise Violation("announced_first", f"{_say(uid)} landed under the range of topic {said[-1].topic_id}")

    # --- the store ------------------------------------------------------------------------------------------------

    def forget_state(self) -> None:
        """The world emptied the store: epochs may start again."""
        self.epochs.clear()

    def start_over(self) -> None:
        """Rows and state were removed."""
        for seen in (
            self.landed,
            self.may_be_twice,
            self.twice,
            self.viewed,
            self.view_may_lack,
            self.announced,
            self.epochs,
            self.given_up,
        ):
            seen.clear()

    def stored(self, old: StoredRow | None, new: StoredRow) -> None:
        """A row was stored."""
        if "/" not in new.key:
            self._owner_stored(new)
            return
        record, before = decode(new.body), None if old is None else decode(old.body)
        if record.in_doubt:
            read = [mark.at_s * 1000 for mark in record.seen.marks]  # before the record was written, and not at once
            first = min([self.kafka.hub.now, *read])
            self.first_sent.setdefault((new.key, record.range, record.life.nonce), first)
        by_person = new.key in self.consented.keys
        if before is not None:
            check_forward(before, record, new.key, by_person=by_person)
        _, topic, partition, table = new.key.split("/", 3)
        tp = TopicPartition(topic, int(partition))
        new_tokens = before is not None and _tokens_of(before) != _tokens_of(record)
        if by_person and new_tokens:
            self.view_may_lack = {of for of in self.view_may_lack if of[0] != table or not self._is_of(of[1], tp)}
        if by_person and self.letters_stay and self.consented.letters_again and before is not None:
            self._letters_again(tp, before, record)
        if record.phase is Phase.BEFORE:
            said = Announced(record.life.topic_id, record.range, self.shards_of(record.sent.layout))
            self.announced.setdefault((topic, tp.partition), []).append(said)
        elif record.phase is Phase.AFTER and not _same_range(before, record):
            if by_person and self.consented.given_up and before is not None:
                self.given_up.append((tp, record.life.topic_id, before.range))
                return
            rebuilt = by_person and _is_rebuilt(before, record)
            self._check_landed(tp, table, record, rebuilt=rebuilt)
            if before is not None and before.in_doubt and not rebuilt:
                if not by_person:  # a person who says that it landed has checked the table
                    self._check_within_log(tp, record)
                self._check_given_up(tp, before, record)
                self._check_listed(tp, lists_of(table), before)

    def _letters_again(self, tp: TopicPartition, old: StateRecord, new: StateRecord) -> None:
        """A person has a range sent again, or all of the log read again: with the dead letters that are in the topic."""
        if new.life.incarnation > old.life.incarnation:
            again = OffsetRange(0, old.end)
        elif new.life.nonce != old.life.nonce:
            again = old.range
        else:
            return
        self.letters_again(tp, again)

    def _check_given_up(self, tp: TopicPartition, old: StateRecord, new: StateRecord) -> None:
        """Check each new gap in a range that landed: a person gave it up, and Kafka does not hold it."""
        for gap in set(new.gaps) - set(old.gaps):
            if self.lists and (gap.end,) != old.deleted[-1:]:
                raise Violation("one_fate", f"AFTER {new.range} of {tp} gives up {gap}, listed are {old.deleted_runs}")
            if not old.doubt.expired or gap.end > max(self.kafka.log_of(tp, new.life.topic_id).start, gap.start):
                raise Violation("after_means_landed", f"AFTER {new.range} of {tp} gives up {gap}")

    def _check_listed(self, tp: TopicPartition, lists: str, old: StateRecord) -> None:
        """Check that dead letters list each run of offsets that Kafka deleted."""
        serials = [serial for serial, name in enumerate(self.kafka.names) if name == tp.topic]
        for run in old.deleted_runs:
            if not any((lists, uid_of(serial, tp.partition, run.start)) in self.landed for serial in serials):
                raise Violation("one_fate", f"{run} of {tp} is given up, and no dead letter lists it")

    def _check_within_log(self, tp: TopicPartition, record: StateRecord) -> None:
        end = self.kafka.log(tp).end
        if tp in self.kafka.shrunk and record.end > end:
            what = f"AFTER {record.range} of {tp} is stored, and its log had shrunk to {end} before it was read"
            raise Violation("after_means_landed", what)

    def _owner_stored(self, new: StoredRow) -> None:
        epoch = decode_owner(new.body).epoch
        before = self.epochs.get(new.key, 0)
        if epoch < before:
            raise Violation("state_forward", f"the epoch of {new.key} went from {before} back to {epoch}")
        self.epochs[new.key] = epoch

    def _check_landed(self, tp: TopicPartition, table: str, record: StateRecord, *, rebuilt: bool) -> None:
        """Check that the range landed.  If it was ``rebuilt`` or partly given up, only records still in Kafka count."""
        if "log shrank" in self.kafka.reasons:
            return
        if twice := self.there_twice(tp, record.range, partial(self._is_for, table, record.sent.pipeline)):
            raise Violation("at_most_once", f"AFTER {record.range} of {tp} is stored, with {_say(twice[0])} twice")
        if rebuilt and record.life.topic_id not in (None, self.kafka.topics[tp.topic].id):
            return  # recreated while it was rebuilt: the record names the topic before, so the new one is read whole
        held = (
            self.kafka.alive(tp, record.range) if rebuilt else self.kafka.held(tp, record.life.topic_id, record.range)
        )
        for uid in held:
            given_up = any(gap.start <= uid % PARTITION < gap.end for gap in record.gaps)
            if not self.takes(table, uid, record.sent.pipeline):
                continue
            if self.misses(table, uid) and not given_up:
                raise Violation("after_means_landed", f"AFTER {record.range} of {tp} is stored without {_say(uid)}")

    # --- at rest --------------------------------------------------------------------------------------------------

    def at_rest(
        self, table_of: dict[str, str], records: dict[TopicPartition, StateRecord], forgiven: set[TopicPartition]
    ) -> None:
        """Check, at rest, that every record in Kafka has its fate, unless an operator forgave its loss."""
        for tp in self.kafka.all():
            log = self.kafka.log(tp)
            if tp in forgiven or log.end == 0:
                continue
            if twice := self.there_twice(tp, OffsetRange(0, log.end)):
                raise Violation("at_most_once", f"{_say(twice[0])} is there twice")
            record = records.get(tp)
            if record is None or record.end != log.end or record.phase is not Phase.AFTER:
                raise Violation("complete_at_rest", f"{tp} is recorded as {record}, its log ends at {log.end}")
            table = table_of[tp.topic]
            for uid in self.kafka.alive(tp, OffsetRange(log.start, log.end)):
                if self._gave_up(tp, uid):
                    continue
                if self.misses(table, uid):
                    raise Violation("complete_at_rest", f"{_say(uid)} is nowhere")
                viewed = (table, uid) in self.viewed or (table, uid) in self.view_may_lack
                if table in self.with_views and (table, uid) in self.landed and not viewed:
                    raise Violation("complete_at_rest", f"{_say(uid)} is in {table}, and not in its view")

    def misses(self, table: str, uid: int) -> bool:
        """Whether the record is missing from the place where it belongs."""
        place = table if self.accepts(uid) else self.letters
        places = self.sharing if place in self.sharing else (place,)
        return place is not None and not any((one, uid) in self.landed for one in places)

    def _gave_up(self, tp: TopicPartition, uid: int) -> bool:
        """Whether a person gave the record up."""
        life, offset = id_of(serial_of(uid)), uid % PARTITION
        return any(tp == of and i in (None, life) and r.start <= offset < r.end for of, i, r in self.given_up)


def lists_of(table: str) -> str:
    """The place of the dead letters that list deleted offsets of a table's ranges in doubt."""
    return f"{LISTS} of {table}"


def _tokens_of(record: StateRecord) -> tuple[str, int]:
    return record.life.nonce, record.life.incarnation


def _is_rebuilt(old: StateRecord | None, new: StateRecord) -> bool:
    """Whether a person rebuilt the record from the table's rows, or gave up the expired offsets."""
    return old is None or old.doubt.expired is not None or new.life.incarnation > old.life.incarnation


def _same_range(old: StateRecord | None, new: StateRecord) -> bool:
    """Whether only the owner of an AFTER record changed."""
    same_life = old is not None and old.life.incarnation == new.life.incarnation
    return old is not None and same_life and (old.phase, old.range) == (new.phase, new.range)


def check_forward(old: StateRecord, new: StateRecord, key: str, *, by_person: bool = False) -> None:
    """Check that a stored row does not move backwards, nor announces over a range in doubt, unless a person reset or
    rebuilt it.
    """
    what = f"{key}: {old.phase} {old.range} epoch {old.epoch} became {new.phase} {new.range} epoch {new.epoch}"
    was, now = old.life.incarnation, new.life.incarnation
    if new.epoch < old.epoch or now < was:
        raise Violation("state_forward", what)
    if by_person and now > was:
        return
    if by_person and old.in_doubt and new.in_doubt and (new.start, now) == (old.start, was):
        if new.end > old.end:
            raise Violation("one_slot", what)
        return  # sent again, and perhaps only the first part of it
    if old.in_doubt and (new.range != old.range or now != was):
        raise Violation("one_slot", what)
    if now > was or old.phase is Phase.EMPTY:
        return
    if new.phase is Phase.EMPTY or (new.life.first, new.start, new.end) < (old.life.first, old.start, old.end):
        raise Violation("state_forward", what)
    if old.phase is Phase.AFTER and new.range != old.range and (new.in_doubt is False or new.start < old.end):
        raise Violation("state_forward", what)
    if old.phase is Phase.AFTER and new.range == old.range and new.in_doubt:
        raise Violation("state_forward", what)


def _say(uid: int) -> str:
    return f"offset {uid % PARTITION} of partition {uid % SERIAL // PARTITION} of topic {id_of(serial_of(uid))}"
