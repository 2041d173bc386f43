"""Which columns an insert has: those of now, or those that a range in doubt was announced with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chsink.clickhouse.pipelines import Pipelines
from chsink.clickhouse.shards import ShardTable
from chsink.decode.columns import Column
from chsink.formats.metadata import Columns
from chsink.formats.pipeline import Untouched, grows
from chsink.formats.records import Records
from chsink.formats.settings import JSON
from chsink.statemachine.table import forbidden_changes
from tests.unit.clickhouse.server import Server, StoppedClock, table

LEADS = ("topic", "db.t")
A, B = Column("a", "Int64"), Column("b", "Nullable(Int64)")


def pipelines(*columns: Column, growing: bool) -> Pipelines:
    shard = ShardTable(Server(StoppedClock()), replace(table(), columns=columns))
    decoder = Records(JSON, Columns(columns, (), "UTC"))
    return Pipelines(
        {LEADS: decoder}, Untouched("read_committed"), lambda *_: [shard], None, {LEADS} if growing else set()
    )


def test_a_range_that_grows_may_fill_the_new_columns() -> None:
    recorded = pipelines(A, growing=True).fingerprint(LEADS, "l")
    assert grows(recorded)
    now = pipelines(A, B, growing=True)
    grown = now.fingerprint(LEADS, "l", recorded)
    assert grown.startswith(f"{recorded},added_columns=") and forbidden_changes(recorded, grown) == []
    assert now.fingerprint(LEADS, "l", grown) == grown
    assert now.decoder(LEADS, recorded).filled == {"a"}, "each chunk adds those of its own fields"
    assert [c.name for c in now.tables(LEADS, "l", recorded)[0].columns] == ["a", "b"]


@pytest.mark.parametrize("later", [(A,), (A, replace(B, type="String")), (A, replace(B, default_kind="DEFAULT"))])
def test_a_column_that_a_range_may_have_filled_stays_as_it_was(later: tuple[Column, ...]) -> None:
    """⚑ CHS-309: a chunk under the same token, and its dead letters, would be others with another type."""
    recorded = pipelines(A, growing=True).fingerprint(LEADS, "l")
    grown = pipelines(A, B, growing=True).fingerprint(LEADS, "l", recorded)
    more = pipelines(A, Column("before", "Int8"), B, growing=True).fingerprint(LEADS, "l", grown)
    assert forbidden_changes(grown, more) == []
    now = pipelines(*later, growing=True).fingerprint(LEADS, "l", grown)
    assert forbidden_changes(grown, now) == ["added_columns"]


def test_a_range_that_grows_is_not_sent_by_a_job_that_adds_no_columns() -> None:
    """CHS-309: fields of it could be ignored in a chunk that has columns for them already."""
    recorded = pipelines(A, growing=True).fingerprint(LEADS, "l")
    now = pipelines(A, B, growing=False).fingerprint(LEADS, "l", recorded)
    assert forbidden_changes(recorded, now) == ["evolution"]


@pytest.mark.parametrize("later", [False, True])
def test_any_other_range_keeps_its_columns(later: bool) -> None:
    """⚑ Also once columns are added for fields: its pieces were sent without a look at their fields."""
    recorded = pipelines(A, growing=False).fingerprint(LEADS, "l")
    assert not grows(recorded)
    now = pipelines(A, B, growing=later)
    assert now.fingerprint(LEADS, "l", recorded) == recorded
    assert now.decoder(LEADS, recorded).filled == {"a"}
    assert [c.name for c in now.tables(LEADS, "l", recorded)[0].columns] == ["a"]


@pytest.mark.parametrize("columns", [(B, A), (B,), (Column("a", "Int32"), B)])
def test_other_changes_are_changes_for_both(columns: tuple[Column, ...]) -> None:
    for growing in (False, True):
        recorded = pipelines(A, growing=growing).fingerprint(LEADS, "l")
        now = pipelines(*columns, growing=growing).fingerprint(LEADS, "l", recorded)
        assert forbidden_changes(recorded, now) == ["columns"]


def test_new_ranges_say_whether_they_grow() -> None:
    assert pipelines(A, growing=True).fingerprint(LEADS, "l").endswith(",evolution=add_columns")
    assert "evolution" not in pipelines(A, growing=False).fingerprint(LEADS, "l")
