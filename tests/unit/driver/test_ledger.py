"""The ledger against a store that loses answers, delivers late and twice, and is changed by others in between.

The store contract itself is tested against the real stores; ``Store`` here adds the orders that a real one shows
once a year.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from chsink.driver.ledger import Ledger, catch_up, parse_key, read_sink
from chsink.errors import FencedError, HaltError, UnavailableError
from chsink.ports import StoredRow, StoreUnavailable, Swap
from chsink.statemachine import owner as owners
from chsink.statemachine import writes
from chsink.statemachine.codec import decode, encode
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Phase, StateKey, StateRecord

K0, K1, K2 = (StateKey("sink", "t", p, "db.t") for p in range(3))
SAID = writes.Announcement("id", Sending(4, "L", "P"), Seen(0))


@dataclass
class Clock:
    ms: int = 1_700_000_000_000
    set_by: int = 0

    def now_ms(self) -> int:
        return self.ms + self.set_by

    def steady_ms(self) -> int:
        return self.ms

    def sleep(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


@dataclass
class Store:
    """``script`` holds one word per coming write: *lost* (applied, no answer), *dropped* (not applied, no answer),
    *late* (no answer, delivered by ``deliver``), *twice* (applied, and delivered again by ``deliver``), *half*
    (a statement with the first row alone, then no answer).
    """

    name: str = "scripted"
    durable: bool = False
    rows: dict[str, StoredRow] = field(default_factory=dict)
    script: deque[str] = field(default_factory=deque)
    under_way: list[Callable[[], bool]] = field(default_factory=list)
    down_reads: int = 0
    behind: bool = False
    before_load: deque[Callable[[], None]] = field(default_factory=deque)
    writes: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    loads: int = 0

    def prepare(self) -> None:
        pass

    def load(self, sink: str) -> dict[str, StoredRow]:
        self.loads += 1
        if self.before_load:
            self.before_load.popleft()()
        if self.down_reads:
            self.down_reads -= 1
            raise StoreUnavailable("no session")
        return {k: r for k, r in self.rows.items() if k == sink or k.startswith(sink + "/")}

    def catch_up(self, row: StoredRow) -> None:
        assert self.rows[row.key] == row
        if self.behind:
            raise StoreUnavailable("no answer")

    def create(self, rows: Sequence[StoredRow]) -> bool:
        self.writes.append(("create", tuple(r.attempt for r in rows)))
        return self._scripted(lambda part: self._create(rows[:part]))

    def swap(self, swaps: Sequence[Swap]) -> bool:
        self.writes.append(("swap", tuple(s.row.attempt for s in swaps)))
        return self._scripted(lambda part: self._swap(swaps[:part]))

    def close(self) -> None:
        pass

    def deliver(self) -> list[bool]:
        todo, self.under_way = self.under_way, []
        return [write() for write in todo]

    def _scripted(self, write: Callable[[int | None], bool]) -> bool:
        word = self.script.popleft() if self.script else ""
        if word in ("late", "twice"):
            self.under_way.append(lambda: write(None))
        if word in ("late", "dropped"):
            return False
        applied = write(1 if word == "half" else None)
        return applied and word not in ("lost", "half")

    def _create(self, rows: Sequence[StoredRow]) -> bool:
        if any(r.key in self.rows for r in rows):
            return False
        self.rows |= {r.key: r for r in rows}
        return True

    def _swap(self, swaps: Sequence[Swap]) -> bool:
        if any(s.row.key not in self.rows or self.rows[s.row.key].attempt != s.expected for s in swaps):
            return False
        self.rows |= {s.row.key: s.row for s in swaps}
        return True

    def record(self, key: StateKey) -> StateRecord:
        return decode(self.rows[str(key)].body)

    def owner(self) -> owners.Owner:
        return owners.decode_owner(self.rows["sink"].body)


IDS = itertools.count()


def ledger(store: Store, driver: str = "one", clock: Clock | None = None) -> Ledger:
    return Ledger(store, "sink", driver, clock or Clock(), lambda: f"{driver}-{next(IDS)}", retry_for_ms=2_000)


def claimed(store: Store, driver: str = "one", keys: Sequence[StateKey] = (K0, K1)) -> Ledger:
    made = ledger(store, driver)
    made.claim(keys, {"L": "{}"})
    return made


def announce(of: Ledger, key: StateKey = K0, start: int = 0, end: int = 10) -> dict[StateKey, StateRecord]:
    record = of.records[key]
    fresh = record.phase is Phase.EMPTY
    asked = OffsetRange(start, end)
    return {key: writes.before(record, asked, SAID, epoch=of.epoch, attempt=of.attempt(), fresh=fresh)}


def confirm(of: Ledger, key: StateKey = K0) -> dict[StateKey, StateRecord]:
    return {key: writes.after(of.records[key], epoch=of.epoch, attempt=of.attempt())}


# --- reading without a claim ---------------------------------------------------------------------------------------


def test_owner_and_records_are_of_one_load() -> None:
    store = Store()
    assert read_sink(store, "sink") == (None, {})
    one = claimed(store)
    loads = store.loads
    assert read_sink(store, "sink") == (one.owner, one.records)
    assert store.loads == loads + 1


def test_a_state_that_may_be_over_is_not_read() -> None:
    """⚑ A command would name rows to delete of a range that has landed since."""
    store = Store(behind=True)
    catch_up(store, "sink")
    claimed(store)
    with pytest.raises(UnavailableError, match="CHS-701.*no answer"):
        catch_up(store, "sink")
    store.behind = False
    catch_up(store, "sink")


# --- claiming ------------------------------------------------------------------------------------------------------


def test_first_claim_makes_inert_rows() -> None:
    store = Store()
    one = claimed(store)
    assert (one.epoch, one.owner.driver, one.owner.layout("L")) == (1, "one", "{}")
    assert {k: r.phase for k, r in one.records.items()} == {K0: Phase.EMPTY, K1: Phase.EMPTY}
    assert store.owner() == one.owner


def test_second_claim_takes_every_row_over() -> None:
    store = Store()
    one = claimed(store)
    one.write(announce(one))
    two = claimed(store, "two")
    assert (two.epoch, store.record(K0).epoch, store.record(K1).epoch) == (2, 2, 2)
    assert (two.records[K0].range, two.records[K0].phase) == (OffsetRange(0, 10), Phase.BEFORE)


def test_case_h_the_old_driver_is_refused_and_told_by_whom() -> None:
    store = Store()
    one = claimed(store)
    one.write(announce(one))
    claimed(store, "two")
    with pytest.raises(FencedError, match=r"now owned by two, epoch 2, since 2023-11-14 .*; this driver .one, epoch 1"):
        one.write(confirm(one))
    assert (store.record(K0).phase, store.record(K0).epoch) == (Phase.BEFORE, 2)


@pytest.mark.parametrize("word", ["lost", "dropped", "late", "twice", "half"])
@pytest.mark.parametrize("nth", range(4))
def test_a_claim_whatever_becomes_of_its_writes(word: str, nth: int) -> None:
    """Writes of a claim over a used sink with a new partition: owner, adopt, create, layouts."""
    store = Store()
    one = claimed(store)
    one.write(announce(one))
    store.script.extend([""] * nth + [word])
    two = ledger(store, "two")
    two.claim([K0, K1, K2], {"M": "{}"})
    store.deliver()
    assert store.owner() == two.owner
    assert {k: store.record(k) for k in (K0, K1, K2)} == two.records
    assert {r.epoch for r in two.records.values()} == {2}
    assert two.owner.layout("M") == "{}" and two.owner.layout("L") == "{}"
    two.write(confirm(two))
    assert store.record(K0).phase is Phase.AFTER


@pytest.mark.parametrize("at", range(6))
def test_the_old_driver_writes_while_it_is_being_replaced(at: int) -> None:
    """Whenever its BEFORE arrives, the new driver has it or the old one is refused."""
    store = Store()
    one = claimed(store)

    def old_writes() -> None:
        with contextlib.suppress(FencedError):
            one.write(announce(one))

    store.before_load.extend([lambda: None] * at + [old_writes])
    two = claimed(store, "two")
    assert store.record(K0) == two.records[K0]
    assert two.records[K0].epoch == 2


def test_a_claim_where_the_owners_row_is_gone_goes_on_from_the_rows() -> None:
    """Somebody deleted it: the epoch must not start from 1 below rows of an older owner."""
    store = Store()
    for _ in range(3):
        claimed(store)
    del store.rows["sink"]
    assert claimed(store, "two").epoch == 4
    assert {store.record(k).epoch for k in (K0, K1)} == {4}


def test_two_claims_at_once_leave_one_owner() -> None:
    store = Store()
    claimed(store)
    two, three = ledger(store, "two"), ledger(store, "three")
    store.before_load.extend([lambda: None, lambda: three.claim([K0, K1], {"L": "{}"})])
    with pytest.raises(FencedError, match="owned by three"):
        two.claim([K0, K1], {"L": "{}"})
    assert store.owner() == three.owner
    three.write(announce(three))


def test_a_late_copy_of_an_older_claim_cannot_bring_its_epoch_back() -> None:
    """One claims (answer lost), two claims over it (delivered twice), one claims again: two's copy must not match."""
    store = Store()
    claimed(store, "zero")
    two = ledger(store, "two")

    def two_claims() -> None:
        store.script.append("twice")
        two.claim([K0, K1], {"L": "{}"})

    one = ledger(store, "one")
    store.script.append("lost")
    store.before_load.extend([lambda: None, two_claims])
    one.claim([K0, K1], {"L": "{}"})
    store.deliver()
    assert store.owner() == one.owner
    assert store.owner().epoch == 4


def test_a_table_that_records_name_only_now_begins_where_its_siblings_are() -> None:
    """⚑ Not at the first record: each one before has landed in a table, or was kept, under the earlier ``table_by``."""
    store = Store()
    one = claimed(store)
    one.write(announce(one))
    new, other = replace(K0, table="d.new"), replace(K1, table="d.new")
    two = ledger(store, "two")
    two.chosen = {new.topic_table, K0.topic_table}
    two.claim([K0, K1, new, other], {"L": "{}"})
    record = two.records[new]
    assert (record.phase, record.start, record.end, record.in_doubt) == (Phase.AFTER, 9, 10, False)
    assert two.records[K0].in_doubt
    assert two.records[other].phase is Phase.EMPTY


def test_a_table_that_records_name_again_begins_where_its_siblings_are() -> None:
    """⚑ In the meantime its records had another fate: it must not take what it lacks from Kafka."""
    store, again = Store(), replace(K0, table="d.again")
    one = ledger(store)
    one.claim([K0, again], {"L": "{}"})
    going = announce(one)[K0]
    here = replace(going, start=1, end=4, table_by=replace(going.table_by, since=0))
    one.write({K0: going, again: writes.left(writes.after(here, epoch=1, attempt="b"), epoch=1, attempt="b")})
    two = ledger(store, "two")
    two.chosen = {again.topic_table, K0.topic_table}
    two.claim([K0, again], {"L": "{}"})
    record = two.records[again]
    assert (record.end, record.life.incarnation, record.life.older_end, record.table_by.left) == (10, 1, 4, False)


def test_an_old_drivers_create_after_the_claim_is_taken_over() -> None:
    store = Store()
    one, two = claimed(store), claimed(store, "two")
    store._create([StoredRow(str(K2), "one-late", encode(writes.empty(1, "one-late")))])
    two.ensure([K0, K2])
    assert (two.records[K2].epoch, store.record(K2).epoch) == (2, 2)
    with pytest.raises(FencedError):
        one.ensure([K2])


def test_a_row_announced_by_the_old_driver_after_the_claim_is_taken_over_in_doubt() -> None:
    store = Store()
    claimed(store)
    two = claimed(store, "two")
    late = writes.before(writes.empty(1, "o"), OffsetRange(0, 5), SAID, epoch=1, attempt="late", fresh=True)
    store._create([StoredRow(str(K2), "late", encode(late))])
    two.ensure([K2])
    assert two.records[K2].in_doubt and two.records[K2].range == OffsetRange(0, 5)


def test_rows_of_a_newer_owner_are_never_taken_for_ours() -> None:
    """A load is not a snapshot: the owner's row may be read before a newer claim, and the other rows after it."""
    store = Store()
    one = claimed(store)
    newer = replace(store.record(K1), epoch=2, attempt="two-1")
    store.rows[str(K1)] = StoredRow(str(K1), "two-1", encode(newer))
    with pytest.raises(FencedError):
        one.ensure([K2])


def test_a_row_of_a_newer_owner_is_no_read_that_lags() -> None:
    """It is not waited for: the owner's row may still be read as it was before the newer claim."""
    store, clock = Store(), Clock()
    one = ledger(store, clock=clock)
    one.claim([K0, K1], {"L": "{}"})
    newer = replace(store.record(K0), epoch=2, attempt="two-1")
    store.rows[str(K0)] = StoredRow(str(K0), "two-1", encode(newer))
    began, writes_before = clock.ms, len(store.writes)
    with pytest.raises(FencedError, match="CHS-802"):
        one.write(announce(one))
    assert (clock.ms, len(store.writes)) == (began, writes_before + 1)


def test_rows_that_a_claim_made_itself_do_not_make_the_others_late() -> None:
    """⚑ Half of its first write was applied.  A late partition is read from its first record, whatever the job file says."""
    store = Store(script=deque(["", "half"]))
    claimed(store)
    assert [store.record(key).life.late for key in (K0, K1)] == [False, False]
    claimed(store, "two", [K0, K1, K2])
    assert [store.record(key).life.late for key in (K0, K1, K2)] == [False, False, True]


def test_ensure_asks_the_store_only_for_new_partitions() -> None:
    store = Store()
    one = claimed(store)
    loads = store.loads
    one.ensure([K0, K1])
    assert store.loads == loads
    one.ensure([K0, K2])
    assert one.records[K2].phase is Phase.EMPTY


def test_layouts_are_kept_while_a_record_names_them() -> None:
    store = Store()
    one = claimed(store)
    one.write(announce(one))
    two = ledger(store, "two")
    two.claim([K0, K1], {"M": "{}"})
    assert dict(two.owner.layouts) == {"L": "{}", "M": "{}"}
    two.write(confirm(two))
    said = replace(SAID, sent=replace(SAID.sent, layout="M"))
    for key in (K0, K1):
        record, asked = two.records[key], OffsetRange(10, 20)
        fresh = record.phase is Phase.EMPTY
        two.write({key: writes.before(record, asked, said, epoch=2, attempt=two.attempt(), fresh=fresh)})
        two.write(confirm(two, key))
    three = ledger(store, "three")
    three.claim([K0, K1], {"M": "{}"})
    assert dict(three.owner.layouts) == {"M": "{}"}


def test_case_i_two_sinks_in_one_store_do_not_see_each_other() -> None:
    store = Store()
    one = claimed(store)
    other = Ledger(store, "sink2", "two", Clock(), lambda: f"two-{next(IDS)}")
    other.claim([replace(K0, sink="sink2")], {})
    assert (other.epoch, list(other.records)) == (1, [replace(K0, sink="sink2")])
    one.write(announce(one))
    assert other.records[replace(K0, sink="sink2")].phase is Phase.EMPTY


# --- steady state --------------------------------------------------------------------------------------------------


def test_a_write_is_one_request_when_all_is_well() -> None:
    store = Store()
    one = claimed(store)
    store.writes.clear()
    loads = store.loads
    attempt = one.attempt()
    one.write({
        k: writes.before(one.records[k], OffsetRange(0, 9), SAID, epoch=1, attempt=attempt, fresh=True)
        for k in (K0, K1)
    })  # fmt: skip
    assert store.writes == [("swap", (attempt, attempt))]
    assert store.loads == loads


@pytest.mark.parametrize(("word", "sends"), [("lost", 1), ("dropped", 2), ("late", 2), ("twice", 1)])
def test_a_write_keeps_its_attempt_whatever_the_answer(word: str, sends: int) -> None:
    store = Store()
    one = claimed(store)
    store.writes.clear()
    store.script.append(word)
    one.write(announce(one))
    assert len(store.writes) == sends
    assert len({attempts for _, attempts in store.writes}) == 1
    assert store.record(K0) == one.records[K0]
    one.write(confirm(one))
    assert store.deliver() in ([], [False])
    assert store.record(K0).phase is Phase.AFTER


def test_a_write_of_which_half_was_applied_sends_the_rest() -> None:
    store = Store()
    one = claimed(store)
    attempt = one.attempt()
    store.script.append("half")
    changes = {
        k: writes.before(one.records[k], OffsetRange(0, 9), SAID, epoch=1, attempt=attempt, fresh=True)
        for k in (K0, K1)
    }  # fmt: skip
    one.write(changes)
    assert {k: store.record(k) for k in (K0, K1)} == changes
    assert store.writes[-1] == ("swap", (attempt,))


def test_one_foreign_row_refuses_the_whole_write() -> None:
    store = Store()
    one = claimed(store)
    foreign = replace(store.record(K1), attempt="who")
    store.rows[str(K1)] = StoredRow(str(K1), "who", encode(foreign))
    attempt = one.attempt()
    with pytest.raises(FencedError, match=r"sink/t/1/db\.t was changed by another process"):
        one.write({
            k: writes.before(one.records[k], OffsetRange(0, 9), SAID, epoch=1, attempt=attempt, fresh=True)
            for k in (K0, K1)
        })  # fmt: skip
    assert store.record(K0).phase is Phase.EMPTY


def lagging(store: Store, behind: dict[str, StoredRow], loads: int) -> None:
    """The next loads are answered by a replica that is behind."""
    now = store.load

    def load(sink: str) -> dict[str, StoredRow]:
        nonlocal loads
        loads -= 1
        return dict(behind) if loads >= 0 else now(sink)

    store.load = load  # type: ignore[method-assign]


def test_an_older_owner_in_a_read_that_lags_fences_nobody() -> None:
    store = Store()
    claimed(store, "old")
    behind = dict(store.rows)
    one = claimed(store, "new")
    lagging(store, behind, 3)
    one.check_owned()
    store.script.append("lost")
    lagging(store, behind, 3)
    one.write(announce(one))
    assert store.record(K0).phase is Phase.BEFORE


def test_an_owner_that_a_lagging_read_does_not_show_yet_is_not_gone() -> None:
    store = Store()
    one = claimed(store)
    lagging(store, {}, 3)
    one.check_owned()


def test_older_rows_of_ours_in_a_read_that_lags_fence_nobody() -> None:
    store = Store()
    one = claimed(store)
    behind = dict(store.rows)
    one.write(announce(one))
    one.write(confirm(one))
    store.script.append("lost")
    lagging(store, behind, 3)
    one.write(announce(one, start=10, end=20))
    assert store.record(K0).range == OffsetRange(10, 20)


def test_new_partitions_do_not_bring_older_rows_back() -> None:
    store = Store()
    one = claimed(store)
    behind = dict(store.rows)
    one.write(announce(one))
    store._create([StoredRow(str(K2), "made", encode(writes.empty(1, "made")))])
    lagging(store, behind | {str(K2): store.rows[str(K2)]}, 2)
    one.ensure([K2])
    assert one.records[K0].in_doubt and K2 in one.records
    one.write(confirm(one))


def test_a_store_that_lags_for_ever_is_unavailable() -> None:
    store = Store()
    claimed(store, "old")
    behind = dict(store.rows)
    one = claimed(store, "new")
    lagging(store, behind, 10_000)
    with pytest.raises(UnavailableError, match="read its own claim"):
        one.check_owned()


def test_a_row_that_vanished_is_not_written_again() -> None:
    store = Store()
    one = claimed(store)
    del store.rows[str(K0)]
    with pytest.raises(FencedError):
        one.write(announce(one))
    assert str(K0) not in store.rows


def test_an_owners_row_that_vanished_stops_the_driver() -> None:
    store = Store()
    one = claimed(store)
    del store.rows["sink"]
    store.script.append("dropped")
    with pytest.raises(FencedError, match="no one: its row is gone"):
        one.write(announce(one))


def test_a_store_that_is_down_stops_the_driver_within_its_bound() -> None:
    store, clock = Store(), Clock()
    one = ledger(store, clock=clock)
    one.claim([K0], {})
    changes, began = announce(one), clock.ms
    store.script.append("dropped")
    store.down_reads = 10_000
    with pytest.raises(UnavailableError, match="within 2 s: no session") as caught:
        one.write(changes)
    assert caught.value.id == "CHS-701"
    assert 2_000 <= clock.ms - began <= 2_200
    assert one.records[K0].phase is Phase.EMPTY


def test_a_store_that_never_applies_stops_the_driver_within_its_bound() -> None:
    store, clock = Store(), Clock()
    one = ledger(store, clock=clock)
    one.claim([K0], {})
    store.script.extend(["dropped"] * 1000)
    began = clock.ms
    with pytest.raises(UnavailableError):
        one.write(announce(one))
    assert clock.ms - began <= 2_200


@pytest.mark.parametrize("set_by", [-7_200_000, 7_200_000])
def test_a_clock_that_somebody_sets_does_not_change_the_bound(set_by: int) -> None:
    store, clock = Store(), Clock()
    one = ledger(store, clock=clock)
    one.claim([K0], {})
    del store.rows["sink"]
    store.script.append("dropped")
    began = clock.ms
    store.before_load.extend([lambda: None, lambda: setattr(clock, "set_by", set_by)])
    with pytest.raises(FencedError, match="no one: its row is gone"):
        one.write(announce(one))
    assert 1_900 <= clock.ms - began <= 2_200


def test_a_short_outage_is_survived() -> None:
    store = Store(down_reads=3)
    one = claimed(store)
    assert one.epoch == 1


def test_a_forgotten_write_that_arrives_after_a_takeover_is_refused() -> None:
    store = Store()
    one = claimed(store)
    store.script.extend(["late"] * 1000)
    with pytest.raises(UnavailableError):
        one.write(announce(one))
    store.script.clear()
    two = claimed(store, "two")
    assert set(store.deliver()) == {False}
    assert store.record(K0) == two.records[K0]


def test_a_forgotten_write_that_arrives_during_a_takeover_is_seen() -> None:
    store = Store()
    one = claimed(store)
    store.script.extend(["late"] * 1000)
    with pytest.raises(UnavailableError):
        one.write(announce(one))
    store.script.clear()

    def arrives() -> None:
        store.deliver()

    store.before_load.extend([lambda: None, lambda: None, arrives])
    two = claimed(store, "two")
    assert store.record(K0) == two.records[K0]


def test_a_damaged_row_halts() -> None:
    store = Store()
    claimed(store)
    store.rows[str(K0)] = StoredRow(str(K0), "a", "{}")
    with pytest.raises(HaltError, match=r"'sink/t/0/db\.t' cannot be read") as caught:
        claimed(store, "two")
    assert caught.value.id == "CHS-311"


@pytest.mark.parametrize("key", [K0, StateKey("s", "a.b", 12, "db/with/slash.t")])
def test_keys_are_read_back(key: StateKey) -> None:
    assert parse_key(str(key)) == key
