"""The driver's hold on the state: claim the epoch, then compare-and-set from what this driver wrote last.

Rules:
- Every write names, per key, the attempt it replaces, and carries a new attempt.  A retry of the same write keeps its
  attempt, so however many copies of it are in flight, at most one can match.
- *Applied* means that every key reads back with our attempt.  Anything else is resolved by loading the rows again.
- The claim rewrites every row of the sink under the new epoch, so no write of an older driver can match afterwards.
  Rows that the old driver creates in the meantime are taken over in the next round.
- Reads in steady state come from the cache: while this driver owns the sink, no other process can change a row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from chsink.errors import ChsinkError, fencing, halts, services
from chsink.ports import Clock, StateStore, StoredRow, StoreUnavailable, Swap
from chsink.sharding import Layout
from chsink.statemachine import owner as owners
from chsink.statemachine import writes
from chsink.statemachine.choices import joining
from chsink.statemachine.codec import CodecError, decode, encode
from chsink.statemachine.owner import Owner
from chsink.statemachine.parts import TopicLife
from chsink.statemachine.records import StateKey, StateRecord, TopicTable

CLAIM_ROUNDS = 50
PAUSE_S = 0.1
T = TypeVar("T")


def parse_key(text: str) -> StateKey:
    """The inverse of ``str(StateKey)``."""
    sink, topic, partition, table = text.split("/", 3)
    return StateKey(sink, topic, int(partition), table)


@dataclass(slots=True)
class Patience:
    """For how long something is tried again."""

    clock: Clock
    limit_ms: int
    _until_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self._until_ms = self.clock.steady_ms() + self.limit_ms

    @property
    def ended(self) -> bool:
        """Whether that is over."""
        return self.clock.steady_ms() >= self._until_ms


@dataclass(slots=True)
class Ledger:
    """State rows of one sink.  ``new_attempt`` returns unique ids; ``driver`` names this process in messages.

    ``matched`` are the topics that a pattern matches, ``chosen`` the tables that the records of a topic name.
    ``resets``: see :class:`chsink.statemachine.owner.Owner`.
    """

    store: StateStore
    sink: str
    driver: str
    clock: Clock
    new_attempt: Callable[[], str]
    retry_for_ms: int = 30_000
    matched: Collection[str] = ()
    chosen: Collection[TopicTable] = ()
    resets: bool = False
    records: dict[StateKey, StateRecord] = field(default_factory=dict)
    _owner: Owner | None = None

    @property
    def owner(self) -> Owner:
        """Our claim.  Asserts that there is one."""
        assert self._owner is not None
        return self._owner

    @property
    def epoch(self) -> int:
        """Our epoch."""
        return self.owner.epoch

    def layout(self, fingerprint: str) -> str | None:
        """The shard layout with this fingerprint, as our claim keeps it, or None."""
        return self.owner.layout(fingerprint)

    # --- claiming -------------------------------------------------------------------------------------------------

    def claim(self, keys: Iterable[StateKey], layouts: Mapping[str, str]) -> None:
        """Claim the sink: raise the epoch, take over every row, create an EMPTY row for every key that has none.

        ``layouts`` (fingerprint → JSON) are those of this configuration; layouts that records name are kept,
        those of ranges in doubt with the replicas that a shard no longer has.
        Raises FencedError if a newer driver claims in the meantime, UnavailableError if the store does not respond.
        """
        self._claim_owner()
        known: frozenset[TopicTable] | None = None
        for _ in range(CLAIM_ROUNDS):
            rows = self._load_owned()
            known = _topic_tables(rows) if known is None else known  # as it was before this claim made rows
            if not self._take_over(rows, keys, known):
                break
            self.clock.sleep(PAUSE_S)
        else:
            raise services.CLAIM_DISTURBED(sink=self.sink)
        self._keep_layouts(layouts)

    def _claim_owner(self) -> None:
        attempt = replaced = ""
        patience = Patience(self.clock, self.retry_for_ms)
        while True:
            rows = self._load()
            row = rows.pop(self.sink, None)
            current = None if row is None else _read(owners.decode_owner, row)
            if current is not None and current.attempt == attempt:
                self._owner = current
                return
            found = "no row" if row is None else row.attempt
            if found != replaced:  # replacing another row is another write, so its attempt must be new, too
                attempt, replaced = self.new_attempt(), found
            now, above = self.clock.now_ms(), max((_read(decode, r).epoch for r in rows.values()), default=0)
            claimed = owners.claim(
                current,
                sink=self.sink,
                attempt=attempt,
                driver=self.driver,
                now_ms=now,
                above=above,
                resets=self.resets,
            )
            new = StoredRow(self.sink, attempt, owners.encode_owner(claimed))
            if self.store.create([new]) if row is None else self.store.swap([Swap(row.attempt, new)]):
                self._owner = claimed
                return
            self._wait(patience, "claim the sink")

    def _load_owned(self) -> dict[StateKey, StateRecord]:
        """All partition rows, after checking that the sink's row is still ours.

        A load is not a snapshot: it may return rows of a newer claim with an owner's row that was read before it.
        """
        rows = self._load_as_owner()
        records = {parse_key(k): _read(decode, r) for k, r in rows.items() if k != self.sink}
        for key, record in records.items():
            if record.epoch > self.epoch:
                raise _changed(key)
        return records

    def _take_over(
        self, rows: dict[StateKey, StateRecord], keys: Iterable[StateKey], known: Collection[TopicTable]
    ) -> bool:
        """Rewrite older rows under our epoch and create missing ones.  False if there was nothing to do.

        A partition of a topic and table in ``known`` came late: the sink ran before it was there.  So did a topic that
        a pattern matches, if the sink knew others.  A new checkpoint then begins at its first record, also if none of
        it landed before.  A table that records name only now, or again, begins where its siblings are: one of ``keys``,
        because a command that is about other tables must leave this one as it is.
        """
        routed = dict.fromkeys(keys)
        older = {k: r for k, r in rows.items() if r.epoch < self.epoch}
        missing = [k for k in routed if k not in rows]
        if not older and not missing:
            self.records = rows
            return False
        attempt = self.new_attempt()
        joined = {
            k: writes.joined(sibling, rows.get(k), epoch=self.epoch, attempt=attempt)
            for k, sibling in joining(rows, [k for k in routed if k in older or k not in rows], self.chosen).items()
        }
        if older:
            taken = {
                k: joined.get(k) or writes.adopt(r, epoch=self.epoch, attempt=attempt, routed=k in routed)
                for k, r in older.items()
            }
            self.store.swap([_swap(k, older[k], r) for k, r in taken.items()])
        if missing:
            topics = {topic for topic, _ in known}
            new = {k.topic for k in missing if topics and k.topic in self.matched} - topics
            late = {k for k in missing if k.topic in new or k.topic_table in known}
            made = {k: joined.get(k) or writes.empty(self.epoch, attempt, TopicLife(late=k in late)) for k in missing}
            self.store.create([_row(k, r) for k, r in made.items()])
        return True

    def _keep_layouts(self, layouts: Mapping[str, str]) -> None:
        named = {r.sent.layout for r in self.records.values()}
        in_doubt = {r.sent.layout for r in self.records.values() if r.in_doubt}
        kept = {f: text for f, text in self.owner.layouts if f in named}
        for f, text in layouts.items():
            other = f in in_doubt and kept.get(f, text) != text
            kept[f] = Layout.from_json(text).with_former(kept[f]).to_json() if other else text
        if tuple(sorted(kept.items())) == self.owner.layouts:
            return
        new = owners.with_layouts(self.owner, self.new_attempt(), kept)
        patience = Patience(self.clock, self.retry_for_ms)
        swap = Swap(self.owner.attempt, StoredRow(self.sink, new.attempt, owners.encode_owner(new)))
        while not self.store.swap([swap]):
            if self._load_as_owner()[self.sink].attempt == new.attempt:
                break
            self._wait(patience, "store the shard layout")
        self._owner = new

    # --- steady state ---------------------------------------------------------------------------------------------

    def ensure(self, keys: Iterable[StateKey]) -> None:
        """Create rows for topic-partitions that appeared since the claim.  What is cached is what we wrote last."""
        missing = [k for k in keys if k not in self.records]
        for _ in range(CLAIM_ROUNDS):
            if not missing or not self._take_over(
                self._load_owned() | self.records, missing, _topic_tables(self.records)
            ):
                return
        raise services.ROWS_NOT_CREATED(sink=self.sink)

    def write(self, changes: Mapping[StateKey, StateRecord]) -> None:
        """Replace the cached record of every key by the given one, in one compare-and-set.

        All records carry one attempt.  Returns once every key reads back with it.  Raises FencedError if a row is no
        longer ours, UnavailableError if that cannot be known in time; then nothing may be assumed and nothing inserted.
        """
        assert all(r.epoch == self.epoch for r in changes.values())
        pending = dict(changes)
        patience = Patience(self.clock, self.retry_for_ms)
        while pending:
            if self.store.swap([_swap(k, self.records[k], r) for k, r in pending.items()]):
                break
            pending = self._unapplied(pending, patience)
            if pending:
                self._wait(patience, "write state")
        self.records.update(changes)

    def check_owned(self) -> None:
        """FencedError if a newer driver owns the sink: the cached records are then stale."""
        self._load_as_owner()

    def attempt(self) -> str:
        """A new attempt id."""
        return self.new_attempt()

    def _unapplied(self, pending: Mapping[StateKey, StateRecord], patience: Patience) -> dict[StateKey, StateRecord]:
        """Which of the changes are not known to be stored.  Raises FencedError when a row was changed by somebody else.

        Only we may write a row of our epoch: one that is neither what we replace nor what we write was probably read
        from a replica that lags.  Such a row is asked for again until patience ends.
        """
        rows = self._load_as_owner()
        left: dict[StateKey, StateRecord] = {}
        for key, record in pending.items():
            row = rows.get(str(key))
            if row is not None and row.attempt == record.attempt:
                continue
            stale = row is None or row.attempt != self.records[key].attempt
            newer = row is not None and _read(decode, row).epoch > self.epoch
            if newer or (stale and patience.ended):
                raise _changed(key)
            left[key] = record
        return left

    def _load_as_owner(self) -> dict[str, StoredRow]:
        """The sink's rows, while it is ours.  Raises FencedError when a newer driver owns it, or when its row is gone.

        A store may answer from a replica that lags.  An older owner than ourselves proves that, so it is asked again.
        """
        patience = Patience(self.clock, self.retry_for_ms)
        while True:
            rows = self._load()
            row = rows.get(self.sink)
            current = None if row is None else _read(owners.decode_owner, row)
            if current is not None and current.epoch >= self.epoch:
                if (current.epoch, current.driver) != (self.epoch, self.driver):
                    raise self._fenced(f"{current.driver}, epoch {current.epoch}, since {_when(current.claimed_at)}")
                return rows
            if current is None and patience.ended:
                raise self._fenced("no one: its row is gone")
            self._wait(patience, "read its own claim")

    def _fenced(self, owner: str) -> ChsinkError:
        return fencing.OWNED_BY_ANOTHER(sink=self.sink, owner=owner, driver=self.driver, epoch=self.epoch)

    # --- reading --------------------------------------------------------------------------------------------------

    def _load(self) -> dict[str, StoredRow]:
        patience = Patience(self.clock, self.retry_for_ms)
        while True:
            try:
                return self.store.load(self.sink)
            except StoreUnavailable as error:
                self._wait(patience, "read state", error)

    def _wait(self, patience: Patience, what: str, cause: Exception | None = None) -> None:
        if patience.ended:
            raise services.STATE_NOT_REACHED(
                sink=self.sink,
                what=what,
                store=self.store.name,
                seconds=self.retry_for_ms // 1000,
                cause=f": {cause}" if cause else "",
            ) from cause
        self.clock.sleep(PAUSE_S)


def _topic_tables(keys: Iterable[StateKey]) -> frozenset[TopicTable]:
    return frozenset(k.topic_table for k in keys)


def read_sink(store: StateStore, sink: str) -> tuple[Owner | None, dict[StateKey, StateRecord]]:
    """:func:`read_owner` and :func:`read_records` of one load."""
    rows = _load_rows(store, sink)
    return _owner_of(rows, sink), _records_of(rows, sink)


def catch_up(store: StateStore, sink: str) -> None:
    """What is read next is as new as this: nobody is to delete the rows of a range that has landed since."""
    if row := _load_rows(store, sink).get(sink):
        with _unread(store, sink):
            store.catch_up(row)


def read_records(store: StateStore, sink: str) -> dict[StateKey, StateRecord]:
    """The sink's records as they are stored, without claiming anything."""
    return _records_of(_load_rows(store, sink), sink)


def read_owner(store: StateStore, sink: str) -> Owner | None:
    """Who owns the sink; None if it was never claimed."""
    return _owner_of(_load_rows(store, sink), sink)


def _records_of(rows: Mapping[str, StoredRow], sink: str) -> dict[StateKey, StateRecord]:
    return {parse_key(k): _read(decode, r) for k, r in rows.items() if k != sink}


def _owner_of(rows: Mapping[str, StoredRow], sink: str) -> Owner | None:
    return None if sink not in rows else _read(owners.decode_owner, rows[sink])


def _load_rows(store: StateStore, sink: str) -> dict[str, StoredRow]:
    with _unread(store, sink):
        return store.load(sink)


@contextmanager
def _unread(store: StateStore, sink: str) -> Iterator[None]:
    try:
        yield
    except StoreUnavailable as error:
        raise services.STATE_NOT_READ(sink=sink, store=store.name, error=error) from error


def _changed(key: StateKey) -> ChsinkError:
    return fencing.STATE_CHANGED(key=key)


def _row(key: StateKey, record: StateRecord) -> StoredRow:
    return StoredRow(str(key), record.attempt, encode(record))


def _swap(key: StateKey, old: StateRecord, new: StateRecord) -> Swap:
    return Swap(old.attempt, _row(key, new))


def _read(decoder: Callable[[str], T], row: StoredRow) -> T:
    try:
        return decoder(row.body)
    except CodecError as error:
        raise halts.STATE_UNREADABLE(row=row.key, error=error) from error


def _when(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
