"""An offset is chosen from once: all tables that share the records of a topic-partition pass it under one choice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chsink.statemachine import writes
from chsink.statemachine.choices import Mixed, joining, mixed_choices
from chsink.statemachine.parts import Seen, Sending, TableChoice, TopicLife
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Phase, StateKey, StateRecord
from tests.support.examples import examples

TABLES = ("a", "b", "c")
OLD = "decoder=1,table_by={}old"
NEW = "decoder=1,table_by={}new"


def landed(start: int, end: int, pipeline: str = OLD, since: int = 0) -> StateRecord:
    return StateRecord(
        Phase.AFTER,
        1,
        "x",
        start,
        end,
        life=TopicLife("id"),
        sent=Sending(pipeline=pipeline),
        table_by=TableChoice(since=since),
    )


NEVER = writes.empty(1, "x")
AT_20, AT_10 = landed(10, 20), landed(0, 10)
BOTH_NEW = {"a": NEW, "b": NEW}


@pytest.mark.parametrize(
    ("records", "now", "offsets"),
    [
        ({"a": AT_20, "b": AT_20}, BOTH_NEW, None),
        ({"a": AT_20, "b": AT_10}, {"a": OLD, "b": OLD}, None),
        ({"a": AT_20, "b": AT_10}, BOTH_NEW, (10, 20)),
        ({"a": AT_10, "b": AT_20}, BOTH_NEW, (10, 20)),
        ({"a": AT_20, "b": AT_10}, {"a": NEW, "b": OLD}, (10, 20)),  # b's choice may be of before the batch, too
        ({"a": AT_20, "b": AT_10}, {"a": OLD, "b": NEW}, None),  # only a choice that nobody has used yet has changed
        ({"a": landed(15, 20), "b": AT_10}, BOTH_NEW, (10, 20)),  # in rounds
        ({"a": landed(10, 20, NEW, 15), "b": AT_10}, BOTH_NEW, (10, 15)),  # changed back: one round each
        ({"a": landed(10, 20, NEW, 10), "b": AT_10}, BOTH_NEW, None),
        ({"a": AT_10, "b": NEVER}, BOTH_NEW, (0, 10)),
        ({"a": AT_20, "b": replace(AT_20, phase=Phase.BEFORE)}, {"a": NEW, "b": OLD}, (10, 20)),
        ({"a": AT_20, "b": AT_10}, {"a": NEW}, (10, 20)),
        ({"a": AT_20, "b": NEVER}, {"a": NEW}, (0, 20)),
        ({"a": AT_20, "b": writes.left(AT_10, epoch=1, attempt="x")}, {"a": NEW}, None),
        ({"a": AT_20, "b": AT_10}, {"a": NEW, "b": "decoder=1"}, (10, 20)),
        ({"a": AT_20, "b": landed(0, 10, "decoder=1")}, {"a": NEW, "b": "decoder=1"}, None),  # it takes all records
        ({"a": landed(20, 30, NEW, 20), "b": landed(0, 10, "decoder=1")}, BOTH_NEW, (10, 20)),  # until now
        ({"a": AT_20, "b": writes.left(AT_10, epoch=1, attempt="x")}, {"a": NEW, "b": "decoder=1"}, None),
        ({"a": AT_20, "b": writes.reset(AT_20, epoch=1, attempt="x")}, BOTH_NEW, None),  # a person's word
        (
            dict.fromkeys("ab", replace(AT_10, life=replace(AT_10.life, older_end=90)))
            | {"b": replace(NEVER, life=replace(NEVER.life, older_end=90))},
            BOTH_NEW,
            (0, 10),
        ),
        (
            {"a": AT_20, "b": AT_10, "c": writes.joined(AT_20, epoch=1, attempt="x")},
            dict.fromkeys("abc", NEW),
            (10, 20),
        ),
        ({"a": AT_20, "b": AT_10, "c": writes.joined(AT_20, epoch=1, attempt="x")}, {"a": OLD, "b": OLD}, None),
    ],
)
def test_what_was_chosen_otherwise_is_left_to_nobody(
    records: dict[str, StateRecord], now: dict[str, str], offsets: tuple[int, int] | None
) -> None:
    mixed = mixed_choices(records, now)
    assert (mixed and mixed.offsets) == (offsets and OffsetRange(*offsets))


def test_a_table_that_joins_takes_nothing_that_another_one_lacks() -> None:
    """⚑ It begins where the first of its siblings is; what moved to it from one that is behind would be nowhere."""
    joined = writes.joined(AT_20, epoch=1, attempt="x")
    found = mixed_choices({"a": AT_20, "b": AT_10, "c": joined}, {"a": OLD, "b": NEW, "c": NEW})
    assert found == Mixed(OffsetRange(19, 20), "c", "b")


def test_where_a_table_begins() -> None:
    """Where its siblings are: those that records name now, and those that they named when a batch last landed."""
    left = writes.left(AT_10, epoch=1, attempt="x")
    keys = {table: StateKey("s", "t", 0, table) for table in "abcd"}
    records = {
        keys["a"]: AT_20,
        keys["b"]: left,
        keys["d"]: replace(AT_20, end=30, sent=replace(AT_20.sent, pipeline="decoder=1")),
    }
    named = {("t", "a"), ("t", "b"), ("t", "c")}
    found = joining(records, keys.values(), named)
    assert found == {keys["b"]: AT_20, keys["c"]: AT_20}
    assert joining(records, keys.values(), {("t", "c")}) == {keys["c"]: AT_20}
    assert joining(records, keys.values(), {("t", "c"), ("t", "d")})[keys["c"]].end == 30
    assert not joining({keys["b"]: left}, [keys["b"]], named)
    last = writes.left(AT_20, epoch=1, attempt="x")
    found = joining({keys["a"]: left, keys["b"]: last}, keys.values(), named)
    assert found == {keys["a"]: last, keys["c"]: last}, "all were left: they begin where the last of them is"
    again = writes.joined(AT_20, left, epoch=1, attempt="y")
    assert (again.end, again.life.incarnation, again.life.older_end, again.life.nonce) == (20, 1, 10, "y")
    assert not again.table_by.left


# --- any history ------------------------------------------------------------------------------------------------------


@dataclass
class Job:
    """The tables of one topic-partition through batches, rounds, crashes and an operator who edits ``table_by``.

    A choice gives each table a set of records; here it is a number for each table, as a table's part may stay the same
    while another one's changes.  ``passed`` says by which choice of all tables an offset went to a table.
    """

    records: dict[str, StateRecord] = field(default_factory=dict)
    passed: dict[tuple[str, int], tuple[tuple[str, int], ...]] = field(default_factory=dict)
    halts: int = 0

    def start(self, choice: dict[str, int]) -> None:
        keys = {table: StateKey("s", "t", 0, table) for table in TABLES}
        rows = {keys[table]: record for table, record in self.records.items()}
        joins = joining(rows, [keys[table] for table in choice], {("t", table) for table in choice})
        for key, sibling in joins.items():
            self.records[key.table] = writes.joined(sibling, rows.get(key), epoch=1, attempt="j")
        for table in choice:
            record = self.records.get(table, NEVER)
            self.records[table] = writes.adopt(record, epoch=1, attempt="x", routed=True)

    def batch(self, planned: OffsetRange, choice: dict[str, int], chunks: list[int], crash: int) -> bool:
        """Land one batch in rounds, lane by lane.  Returns whether it is done; ``crash`` counts the rounds before one."""
        self.start(choice)
        now = {table: f"table_by={which}" for table, which in choice.items()}
        if mixed_choices(self.records, now) is not None:
            self.halts += 1
            return False
        for table in choice:
            while (at := max(self.records[table].end, planned.start)) < planned.end:
                if not crash:
                    return False
                crash -= 1
                end = min(planned.end, at + chunks[crash % len(chunks)])
                record = self.records[table]
                said = writes.Announcement("id", Sending(9, "L", now[table]), Seen(0))
                fresh = record.phase is Phase.EMPTY
                going = writes.before(record, OffsetRange(at, end), said, epoch=1, attempt="b", fresh=fresh)
                self.records[table] = writes.after(going, epoch=1, attempt="b")
                self.passed |= {(table, offset): tuple(sorted(choice.items())) for offset in range(at, end)}
        for table, record in self.records.items():
            if table not in choice and not record.table_by.left:
                self.records[table] = writes.left(record, epoch=1, attempt="l")
        return True


choices = st.dictionaries(st.sampled_from(TABLES), st.integers(1, 2), min_size=1).map(lambda c: dict(sorted(c.items())))
runs = st.lists(
    st.tuples(choices, st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 6)), min_size=2, max_size=8
)


@settings(max_examples=examples(300))
@given(runs, st.integers(1, 8))
def test_each_offset_goes_to_all_its_tables_under_one_choice(
    history: list[tuple[dict[str, int], list[int], int]], length: int
) -> None:
    """⚑ Whatever an operator changes and whenever the job ends.  And undoing the change always helps."""
    job, at, last = Job(), 0, history[0][0]
    used: list[dict[str, int]] = []
    for choice, chunks, crash in history:
        halted, planned = job.halts, OffsetRange(at, at + length)
        done = job.batch(planned, choice, chunks, crash)
        if job.halts > halted:
            assert job.batch(planned, last, chunks, 99), "the change was undone, and the job halts still"
            at += length
            assert job.batch(OffsetRange(at, at + length), choice, chunks, 99), "nothing was behind any more"
            done = True
        at += length * done
        last = choice
        used.append(choice)
        for offset in range(at):
            went = {(table, dict(said)[table]) for (table, o), said in job.passed.items() if o == offset}
            assert any(went == set(said.items()) for said in used), (offset, went)
