"""Rounds of a replay, what is confirmed, and when a replica is believed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chsink.clickhouse.definition import Ttl
from chsink.clickhouse.shards import RoutedTable, ShardTable
from chsink.clickhouse.table import TargetTable
from chsink.decode import Column
from chsink.dlq.kept import KeptLetters
from chsink.dlq.place import LetterPlace
from chsink.formats.metadata import Columns
from chsink.formats.records import Records
from chsink.formats.settings import JSON
from chsink.formats.table_by import Choice
from chsink.formats.table_by_decoder import ChosenRecords
from chsink.replay.choose import is_confirmed
from chsink.replay.cutting import PARTITIONS_AT_ONCE, rounds_of
from chsink.replay.report import MOST_NAMED, KeepReason, Left, ReplayReport
from chsink.replay.routes import LetterRoutes, records_of
from chsink.replay.source import ROUND_BYTES, bounded
from chsink.sharding import Layout, Shard
from chsink.statemachine import writes
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey

SIZES = st.dictionaries(st.integers(0, 5), st.integers(1, 250), max_size=6)


@given(SIZES, st.integers(1, 300), st.booleans())
def test_rounds_hold_all_in_order_and_no_more_than_is_remembered(
    sizes: dict[int, int], limit: int, partitioned: bool
) -> None:
    chosen = {StateKey("s~replay", "t", p, "d.t"): tuple(range(n)) for p, n in sizes.items()}
    rounds = list(rounds_of(chosen, limit, {"d.t": partitioned}))
    for key, offsets in chosen.items():
        assert sum((one.get(key, ()) for one in rounds), ()) == offsets
    for one in rounds:
        blocks = [len(offsets) if partitioned else 1 for offsets in one.values()]
        assert sum(blocks) <= limit
        assert max(blocks) <= PARTITIONS_AT_ONCE


def test_only_what_the_job_confirmed() -> None:
    said = writes.Announcement("id", Sending(4, "L", "P"), Seen(1))
    empty = writes.empty(1, "a")
    doubtful = writes.before(empty, OffsetRange(5, 9), said, epoch=1, attempt="b", fresh=True)
    after = writes.after(doubtful, epoch=1, attempt="c")
    assert [is_confirmed(r, o) for r, o in ((empty, 0), (doubtful, 4), (doubtful, 5), (after, 8), (after, 9))] == [
        False,
        True,
        False,
        True,
        False,
    ]


def test_a_page_has_at_least_one_and_not_too_many_bytes() -> None:
    places = [LetterPlace("t", 0, n, "d.t") for n in range(3)]
    assert bounded([]) == []
    assert bounded([(places[0], 2 * ROUND_BYTES), (places[1], 1)]) == places[:1]
    assert bounded([(place, ROUND_BYTES // 2) for place in places]) == places[:2]


def test_a_report_names_the_first_and_counts_all() -> None:
    report = ReplayReport("s")
    for n in range(MOST_NAMED + 1):
        report.leave(Left(LetterPlace("t", 0, n, "d.t"), KeepReason.BAD, "c", "r"))
    assert (len(report.named), report.as_dict()["left"]["bad"]) == (MOST_NAMED, MOST_NAMED + 1)


def test_a_record_of_another_table_has_no_row_in_this_one() -> None:
    """``table_by`` may give it another table by now: it is neither a row here nor bad, and must not count as replayed."""
    table = TargetTable("d", "t", "i", "MergeTree", (Column("n", "UInt8"),), "", Ttl(), {}, "UTC")
    choice = Choice("field", "$.kind", ("mine",), ("mine", "other"))
    columns = Columns(table.columns, (), "UTC")
    pipelines: Any = SimpleNamespace(
        decoder=lambda *_: ChosenRecords(choice, Records(JSON, columns)), tables=lambda *_: (table,)
    )
    letters = [
        KeptLetters("t", 0, n, "d.t", "", "", "", 0, 0, False, None, value, ())
        for n, value in enumerate([b'{"n":1,"kind":"other"}', b'{"n":2,"kind":"mine"}', b'{"n":"x","kind":"mine"}'])
    ]
    unused: Any = None
    layout = "f", Layout((Shard(("http://h:1",)),)).to_json()
    prepared, with_row = LetterRoutes(unused, pipelines).prepare(("t", "d.t"), records_of(letters), layout, "p")
    assert (with_row, [bad.row for bad in prepared.rejected], prepared.others) == (frozenset({1}), [2], 1)


def test_a_field_without_a_column_is_not_dropped_where_columns_are_added() -> None:
    """⚑ The job would add the column before it sends the record."""
    table = TargetTable("d", "t", "i", "MergeTree", (Column("n", "UInt8"),), "", Ttl(), {}, "UTC")
    values = [b'{"n":1}', b'{"n":2,"new":3}', b'{"n":3,"new":null}', b"broken"]
    records = records_of(
        [KeptLetters("t", 0, n, "d.t", "", "", "", 0, 0, False, None, v, ()) for n, v in enumerate(values)]
    )
    found = []
    for adds in (True, False):
        route = SimpleNamespace(format=JSON, key_columns=())
        cluster: Any = SimpleNamespace(
            routes={("t", "d.t"): route},
            targets={("t", "d.t"): RoutedTable("t", "d.t", (ShardTable(SimpleNamespace(), table),))},
            config=SimpleNamespace(adds_columns=lambda _, adds=adds: adds),
        )
        pipelines: Any = None
        found.append(LetterRoutes(cluster, pipelines).lacking(("t", "d.t"), records))
    assert found == [{1: "new"}, {}]
