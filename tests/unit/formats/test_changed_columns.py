"""What was altered since a range was announced is found by undoing it; what cannot be known is not claimed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chsink.decode.columns import Column
from chsink.formats.changed_columns import _TYPES, column_change
from chsink.formats.columns import ColumnRecords
from chsink.formats.metadata import Columns
from chsink.formats.pipeline import Untouched, fingerprint
from chsink.formats.records import Records
from chsink.formats.settings import JSON
from chsink.formats.table_by import Choice
from chsink.formats.table_by_decoder import ChosenRecords
from chsink.ports import Decoder

A, B, C = Column("a", "Int64"), Column("b", "Nullable(Int32)"), Column("c", "String", "DEFAULT", "'x'")
OFFSET, KEY = Column("_kafka_offset", "UInt64"), Column("_kafka_key", "Nullable(String)")
TABLE = Columns((A, B, C), (OFFSET,), "UTC")


def printed(decoder: Decoder) -> str:
    return fingerprint(decoder, Untouched("read_committed"), ["table"])


def changed(now: Columns, was: Columns) -> str:
    """Every kind of decoder says the same."""
    said = {column_change(kind(now), printed(kind(was))) for kind in (_json, ColumnRecords, _chosen)}
    [words] = said
    return words


def _json(table: Columns) -> Decoder:
    return Records(JSON, table)


def _chosen(table: Columns) -> Decoder:
    return ChosenRecords(Choice("header", "kind", ("a",)), _json(table))


@pytest.mark.parametrize(
    ("was", "words"),
    [
        (replace(TABLE, payload=(B, C)), "column a is new"),
        (replace(TABLE, payload=(A, C)), "column b is new"),
        (replace(TABLE, payload=(C,)), "columns a and b are new"),
        (replace(TABLE, metadata=()), "column _kafka_offset is new"),
        (replace(TABLE, payload=(replace(A, type="Int32"), B, C)), "column a is Int64 now, and was Int32"),
        (
            replace(TABLE, payload=(A, replace(B, type="Int32"), C)),
            "column b is Nullable(Int32) now, and was Int32",
        ),
        (
            replace(TABLE, payload=(A, B, Column("c", "String"))),
            "column c is String DEFAULT 'x' now, and was String",
        ),
        (
            replace(TABLE, payload=(A, B, Column("c", "LowCardinality(String)"))),
            "column c is String DEFAULT 'x' now, and was LowCardinality(String)",
        ),
        (replace(TABLE, payload=(B, A, C)), "column a was moved"),
        (replace(TABLE, timezone="Europe/Berlin"), "the server's time zone is UTC now, and was Europe/Berlin"),
    ],
)
def test_a_change_is_found(was: Columns, words: str) -> None:
    assert changed(TABLE, was) == words


@pytest.mark.parametrize(
    "was",
    [
        TABLE,
        replace(TABLE, payload=(A, B)),  # columns behind the announced ones: the range is sent without them
        replace(TABLE, payload=(A, B, C, Column("gone", "Int8"))),
        replace(TABLE, payload=(replace(A, name="old"), B, C)),
        replace(TABLE, payload=(replace(A, type="Enum8('x' = 1)"), B, C)),
        replace(TABLE, payload=(replace(A, type="Int8"), replace(B, type="Int8"), C)),
    ],
)
def test_what_does_not_matter_or_cannot_be_known_is_not_claimed(was: Columns) -> None:
    assert changed(TABLE, was) == ""


@given(st.lists(st.sampled_from(_TYPES), min_size=1, max_size=6), st.data())
def test_any_other_type_of_one_column_is_found(types: list[str], data: st.DataObject) -> None:
    payload = [Column(f"c{at}", kind) for at, kind in enumerate(types)]
    at = data.draw(st.integers(0, len(types) - 1))
    old = data.draw(st.sampled_from([kind for kind in _TYPES if kind != types[at]]))
    was = [*payload[:at], replace(payload[at], type=old), *payload[at + 1 :]]
    now = Columns(tuple(payload), (OFFSET, KEY), "UTC")
    said = column_change(ColumnRecords(now), printed(ColumnRecords(replace(now, payload=tuple(was)))))
    assert said == f"column c{at} is {types[at]} now, and was {old}"
