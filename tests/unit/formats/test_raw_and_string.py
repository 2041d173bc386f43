"""``raw`` and ``string``: the whole value goes to one column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from chsink.decode.columns import Column
from chsink.errors import PreflightError
from chsink.formats.decoders import decoder_of
from chsink.formats.pipeline import Untouched
from chsink.formats.settings import FormatSettings, Raw, String
from tests.support.examples import examples

RAW, STRING = Raw(type="raw"), String(type="string")


def rows(settings: FormatSettings, column: Column, values: list[bytes | None]) -> dict[int, Any]:
    """By record: its value in the column, or the reason why it has no row."""
    decoder = decoder_of("d.t", (column,), "UTC", Untouched("read_committed"), settings)
    decoded = decoder.decode(pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())}))
    origin = range(len(values)) if decoded.rows is None else decoded.rows.to_pylist()
    found: dict[int, Any] = dict(zip(origin, decoded.batch.column(column.name).to_pylist(), strict=True))
    return found | {bad.row: bad.reason for bad in decoded.bad}


def test_raw_keeps_every_byte() -> None:
    values = [b"", b"\x00", b"\xff\xfe", "\ufeffé\r\n".encode(), b'{"a": 1}', None]

    assert rows(RAW, Column("v", "String"), values) == {
        **dict(enumerate(values[:-1])),
        5: "value is null (a tombstone)",
    }


def test_raw_fits_text_columns_only() -> None:
    assert rows(RAW, Column("v", "Int32"), [b"7"]) == {0: "a binary string in Int32"}
    assert rows(RAW, Column("v", "FixedString(2)"), [b"ab", b"abc"]) == {0: b"ab", 1: "longer than FixedString(2)"}


def test_string_is_the_same_text_in_json() -> None:
    assert rows(STRING, Column("v", "Int8"), [b"7", b"128", b"x", None, b"\xff"]) == {
        0: 7,
        1: "out of range for Int8",
        2: "a string that is not a number in Int8",
        3: "value is null (a tombstone)",
        4: "not valid UTF-8 at byte 0",
    }


@hypothesis(max_examples=examples(60), deadline=None)
@given(st.lists(st.one_of(st.none(), st.binary(max_size=4), st.text(max_size=4).map(str.encode))))
@pytest.mark.parametrize("settings", [RAW, STRING])
def test_a_batch_is_its_records(settings: FormatSettings, values: list[bytes | None]) -> None:
    column = Column("v", "Nullable(String)")

    assert rows(settings, column, values) == {at: rows(settings, column, [value])[0] for at, value in enumerate(values)}


TWO = (Column("id", "UInt32"), Column("v", "String"))


@pytest.mark.parametrize(
    ("settings", "columns", "id"),
    [
        (RAW, TWO, "CHS-213"),
        (Raw(type="raw", column="x"), TWO, "CHS-212"),
        (Raw(type="raw", column="v"), TWO, "CHS-213"),
    ],
)
def test_a_table_that_the_format_cannot_fill_is_refused(
    settings: FormatSettings, columns: tuple[Column, ...], id: str
) -> None:
    with pytest.raises(PreflightError) as caught:
        decoder_of("d.t", columns, "UTC", Untouched("read_committed"), settings)
    assert caught.value.id == id


def test_other_columns_take_their_default() -> None:
    columns = (Column("id", "UInt32", "DEFAULT", "7"), Column("v", "String"))
    decoder = decoder_of("d.t", columns, "UTC", Untouched("read_committed"), Raw(type="raw", column="v"))
    decoded = decoder.decode(pa.RecordBatch.from_pydict({"value": pa.array([b"x"], pa.binary())}))

    assert decoded.batch.to_pylist() == [{"id": None, "v": b"x"}]
