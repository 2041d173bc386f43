"""The columns of a range in doubt, found again among those of a table that gained some."""

from __future__ import annotations

import pytest

from chsink.decode.columns import Column
from chsink.formats.announced_columns import as_announced, reads_format, with_columns
from chsink.formats.columns import ColumnRecords
from chsink.formats.metadata import Columns
from chsink.formats.pipeline import Untouched, fingerprint
from chsink.formats.records import Records
from chsink.formats.settings import JSON
from chsink.formats.table_by import Choice
from chsink.formats.table_by_decoder import ChosenRecords
from chsink.ports import Decoder

A, B, C = (Column(name, "Int64") for name in "abc")
OFFSET = Column("_kafka_offset", "UInt64")


def json(*columns: Column, offset: bool = True) -> Decoder:
    return Records(JSON, Columns(columns, (OFFSET,) if offset else (), "UTC"))


def printed(decoder: Decoder) -> str:
    return fingerprint(decoder, Untouched("read_committed"), ["table"])


@pytest.mark.parametrize("now", [(A, B), (A, B, C), (A, B, C, Column("d", "String"))])
def test_columns_behind_the_announced_ones_are_left_out(now: tuple[Column, ...]) -> None:
    recorded = printed(json(A, B))
    found = as_announced(json(*now), recorded)
    assert found.filled == {"a", "b", "_kafka_offset"}
    assert printed(found) == recorded


@pytest.mark.parametrize("now", [(C, A, B), (A, C, B), (A,), (B, A, C), (Column("a", "Int32"), B, C)])
def test_any_other_change_is_left_as_it_is(now: tuple[Column, ...]) -> None:
    decoder = json(*now)
    assert as_announced(decoder, printed(json(A, B))) is decoder


def test_a_column_for_kafkas_own_field_is_not_left_out() -> None:
    """Rows that landed before it was added have no offset, so a probe would not find them."""
    decoder = json(A, B, offset=True)
    assert as_announced(decoder, printed(json(A, B, offset=False))) is decoder


def test_further_columns_behind_the_announced_ones() -> None:
    choice = Choice("header", "kind", ("a",))
    chosen = ChosenRecords(choice, json(A))
    for decoder in (json(A), chosen):
        assert with_columns(decoder, (C,)).filled == {"a", "c", "_kafka_offset"}
        assert with_columns(decoder, ()) is decoder
        assert reads_format(decoder)
    assert not reads_format(ColumnRecords(Columns((A,), (), "UTC")))
    assert as_announced(ChosenRecords(choice, json(A, B)), printed(chosen)).filled == {"a", "_kafka_offset"}


def test_columns_of_a_transform() -> None:
    decoder = ColumnRecords(Columns((A, B, C), (), "UTC"))
    recorded = printed(ColumnRecords(Columns((A, B), (), "UTC")))
    assert printed(as_announced(decoder, recorded)) == recorded
    assert as_announced(decoder, "") is decoder
