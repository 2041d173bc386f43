"""Every type: exact, or a bad value; written to Parquet and read back by pyiceberg."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import (
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimestamptzType,
    UnknownType,
)

from chsink.mirror.files import DataFiles, data_file, entry_of
from chsink.mirror.types import TableColumns, unsupported
from tests.support.examples import examples
from tests.support.iceberg_cases import CASES, NESTED, Case, same

PAGE = (Path(__file__).parents[3] / "docs" / "types.md").read_text(encoding="utf-8")

EVERY = [*CASES, *NESTED]


def columns(kind: IcebergType, *, required: bool = False) -> TableColumns:
    return TableColumns(Schema(NestedField(1, "c", kind, required=required)))


def records(*texts: str | bytes | None, **more: Any) -> pa.RecordBatch:
    values = pa.array([t.encode() if isinstance(t, str) else t for t in texts], pa.binary())
    return pa.RecordBatch.from_pydict({"value": values, **more})


def of_column(texts: Sequence[str]) -> pa.RecordBatch:
    return records(*(f'{{"c": {text}}}' for text in texts))


def read_back(catalog: Catalog, name: str, rows: pa.Table) -> list[Any]:
    """What pyiceberg reads of the column after the rows went through a file."""
    table = catalog.load_table(name)
    files = DataFiles(table.metadata, table.io, uuid4())
    files.write(rows)
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in files.close():
            append.append_data_file(data_file(entry_of(file, 0)))
    found: list[Any] = table.refresh().scan().to_arrow().column("c").to_pylist()
    return found


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_a_value_lands_exactly(case: Case, open_catalog: Callable[[], Catalog]) -> None:
    """W-4.  All in one batch, then each beside a record that does not fit, which leads them another way."""
    table = open_catalog().create_table("shop.t", columns(case.kind).schema)
    decoder = TableColumns(table.schema())
    decoded = decoder.decode(records(*(f'{{"c": {text}}}' for text, _ in case.fits), "{}", '{"c": null}'))
    assert decoded.bad == []
    expected = [*(value for _, value in case.fits), None, None]
    found = read_back(open_catalog(), "shop.t", decoded.batch)
    assert all(same(*pair) for pair in zip(found, expected, strict=True)), found
    for text, value in case.fits:
        alone = decoder.decode(of_column([case.bad[0], text]))
        assert [bad.row for bad in alone.bad] == [0]
        assert same(alone.batch.column("c")[0].as_py(), value)


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_a_value_that_does_not_fit_is_bad(case: Case) -> None:
    decoded = columns(case.kind).decode(of_column([*case.bad, "null"]))
    assert [(bad.row, bad.column) for bad in decoded.bad] == [(at, "c") for at in range(len(case.bad))]
    assert decoded.batch.num_rows == 1 and decoded.rows.to_pylist() == [len(case.bad)]
    for bad, text in zip(decoded.bad, case.bad, strict=True):
        assert len(text) < 4 or json.loads(text) not in bad.reason.split(), "a reason names no value"


@pytest.mark.parametrize("case", [case for case in EVERY if case.row], ids=str)
def test_the_page_says_what_the_tests_send(case: Case) -> None:
    """Each example of the table is one that is sent here."""
    row = re.search(rf"^\| `{re.escape(case.row)}` \|([^|]*)\|([^|]*)\|$", PAGE, re.MULTILINE)
    assert row is not None, case.row
    accepts, rejects = (set(re.findall("`([^`]*)`", cell)) - {str(case.kind)} for cell in row.groups())
    assert accepts and accepts <= {text for text, _ in case.fits}
    assert rejects and rejects <= set(case.bad)


# --- random values against an independent reading of their text --------------------------------------------------------

TEXTS = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda d: f"{d:f}"),
    st.sampled_from([text for case in CASES for text in (*(t for t, _ in case.fits), *case.bad)]),
    st.text(max_size=8).map(json.dumps),
    st.dates().map(lambda d: f'"{d}"'),
    st.times().map(lambda t: f'"{t}"'),
    st.datetimes().map(lambda d: f'"{d.isoformat()}Z"'),
    st.uuids().map(lambda u: f'"{u}"'),
)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
FIRST_TICK = (datetime(1, 1, 1) - EPOCH) // timedelta(microseconds=1)  # noqa: DTZ001
LAST_TICK = (datetime(9999, 12, 31) - EPOCH + timedelta(days=1)) // timedelta(microseconds=1) - 1  # noqa: DTZ001


def whole(text: str, bits: int) -> int | None:
    """The integer that a JSON number or a quoted one is."""
    try:
        number = Decimal(json.loads(text) if text.startswith('"') else text)
        found = int(number)
    except (ArithmeticError, ValueError, TypeError):
        return None
    return found if number == found and -(2 ** (bits - 1)) <= found < 2 ** (bits - 1) else None


def cents(text: str) -> Decimal | None:
    """The number with two decimal places."""
    try:
        number = Decimal(json.loads(text) if text.startswith('"') else text)
        found = number.quantize(Decimal("0.01"))
    except (ArithmeticError, ValueError, TypeError):
        return None
    return found if found == number and abs(found) < 10**7 else None


def parsed(parse: Callable[[str], Any], shape: str) -> Callable[[str], Any]:
    """What ``parse`` makes of a quoted text of this shape."""

    def read(text: str) -> Any:
        try:
            value = json.loads(text)
            if not isinstance(value, str) or not re.fullmatch(shape, value, re.ASCII):
                return None
            return parse(re.sub(r"(\.\d*?)0+$", r"\1", value).rstrip("."))
        except (ValueError, OverflowError):
            return None

    return read


ORACLES: dict[str, Callable[[str], Any]] = {
    "int": lambda text: whole(text, 32),
    "long": lambda text: whole(text, 64),
    "decimal(9, 2)": cents,
    "date": parsed(date.fromisoformat, r"\d{4}-\d\d-\d\d"),
    "time": parsed(time.fromisoformat, r"\d\d:\d\d(:\d\d(\.\d{1,6}0*)?)?"),
    "uuid": parsed(UUID, r"[\da-fA-F]{32}|[\da-fA-F]{8}(-[\da-fA-F]{4}){3}-[\da-fA-F]{12}"),
}
PLAIN_NUMBER = re.compile(r'"?-?\d+(\.\d+)?([eE]-?\d+)?"?')


@pytest.mark.parametrize("case", [c for c in CASES if str(c.kind) in ORACLES], ids=str)
@settings(deadline=None, max_examples=examples(60))
@given(texts=st.lists(TEXTS, min_size=1, max_size=8))
def test_what_is_decoded_is_what_the_text_says(case: Case, texts: list[str]) -> None:
    """Exactly the value, or bad: decided by reading the text once more, apart from the decoder."""
    read = ORACLES[str(case.kind)]
    if case.row in ("int", "long", "decimal(P, S)"):
        texts = [text for text in texts if PLAIN_NUMBER.fullmatch(text)]
    expected = {at: value for at, value in enumerate(map(read, texts)) if value is not None}
    decoded = columns(case.kind).decode(of_column(texts))
    assert decoded.rows.to_pylist() == list(expected)
    found = decoded.batch.column("c").to_pylist()
    assert all(same(*pair) for pair in zip(found, expected.values(), strict=True)), found


@settings(deadline=None, max_examples=examples(25))
@given(
    moments=st.lists(st.datetimes(), min_size=1, max_size=8),
    ahead=st.integers(-23 * 60 - 59, 23 * 60 + 59),
    precise=st.booleans(),
)
def test_instants_of_all_years(moments: list[datetime], ahead: int, precise: bool) -> None:
    """With an offset: the instant; beyond the years 1 to 9999: bad."""
    sign, apart = "-" if ahead < 0 else "+", divmod(abs(ahead), 60)
    moments = [moment if precise else moment.replace(microsecond=0) for moment in moments]
    texts = [f'"{moment.isoformat()}{sign}{apart[0]:02}:{apart[1]:02}"' for moment in moments]
    ticks = [(moment - EPOCH) // timedelta(microseconds=1) - ahead * 60_000_000 for moment in moments]
    low, high = FIRST_TICK, LAST_TICK
    decoded = columns(TimestamptzType()).decode(of_column(texts))
    assert decoded.rows.to_pylist() == [at for at, tick in enumerate(ticks) if low <= tick <= high]
    found = decoded.batch.column("c").combine_chunks().view(pa.int64()).to_pylist()
    assert found == [tick for tick in ticks if low <= tick <= high]


# --- tables ------------------------------------------------------------------------------------------------------------


def test_a_required_column_takes_no_null() -> None:
    decoded = columns(LongType(), required=True).decode(records("{}", '{"c": 1}', None, "[]", '{"c": null}'))
    assert [bad.row for bad in decoded.bad] == [0, 2, 3, 4] and decoded.bad[1].tombstone
    assert decoded.bad[0].reason == decoded.bad[3].reason == "missing or null, and the column is required"
    assert decoded.batch.column("c").to_pylist() == [1] and not decoded.batch.schema.field("c").nullable


def test_text_that_is_not_utf8_is_bad() -> None:
    decoded = columns(StringType()).decode(records('{"c": "a"}', b'{"c": "\xff"}', '{"c": "b"}'))
    assert [bad.row for bad in decoded.bad] == [1]
    assert decoded.batch.column("c").to_pylist() == ["a", "b"] and decoded.rows.to_pylist() == [0, 2]


def test_kafkas_own_fields() -> None:
    """P-1.  A timestamp is the producer's choice."""
    schema = Schema(
        NestedField(1, "c", LongType()),
        NestedField(2, "_kafka_topic", StringType()),
        NestedField(3, "_kafka_partition", IntegerType()),
        NestedField(4, "_kafka_offset", LongType()),
        NestedField(5, "_kafka_timestamp", TimestamptzType()),
    )
    found = TableColumns(schema)
    assert found.record_fields == ("value", "topic", "partition", "offset", "timestamp")
    year_40000 = 1_200_000_000_000_000_000
    more = {
        "topic": pa.array(["t"] * 3),
        "partition": pa.array([3] * 3, pa.int32()),
        "offset": pa.array([7, 9, 10], pa.int64()),
        "timestamp": pa.array([0, 1_000, year_40000], pa.timestamp("us", "UTC")),
    }
    decoded = found.decode(records('{"c": "x"}', '{"c": 1}', '{"c": 2}', **more))
    (row,) = decoded.batch.to_pylist()
    assert row.pop("_kafka_timestamp").timestamp() == 0.001
    assert row == {"c": 1, "_kafka_topic": "t", "_kafka_partition": 3, "_kafka_offset": 9}
    assert decoded.rows.to_pylist() == [1]
    assert [(bad.row, bad.column) for bad in decoded.bad] == [(0, "c"), (2, "_kafka_timestamp")]


def test_what_is_not_written_is_named() -> None:
    """At each level, with its name and the reason."""
    inner = StructType(
        NestedField(42, "fine", LongType()),
        NestedField(43, "ns", TimestamptzNanoType()),
        NestedField(44, "x.y", LongType()),
        NestedField(45, "seven", LongType(), write_default=7),
    )
    fields = [
        NestedField(1, "ns", TimestampNanoType()),
        NestedField(2, "unknown", UnknownType()),
        NestedField(3, "here", GeometryType()),
        NestedField(4, "list", ListType(40, MapType(41, StringType(), 46, inner))),
        NestedField(5, "keys", MapType(50, StructType(NestedField(51, "a", LongType())), 52, LongType())),
        NestedField(6, "nothing", StructType()),
        NestedField(20, "a.b", LongType()),
        NestedField(21, "_kafka_offset", StringType()),
        NestedField(22, "_kafka_key", StringType()),
        NestedField(23, "one", LongType(), initial_default=1, write_default=1),
        NestedField(24, "fine", LongType()),
    ]
    fields += [NestedField(60 + n, f"d{n}", case.kind) for n, case in enumerate(CASES)]
    assert unsupported(Schema(*fields)) == (
        "ns: timestamp_ns",
        "unknown: unknown",
        "here: geometry",
        "list.element.value.ns: timestamptz_ns",
        "list.element.value.x.y: a dot in its name",
        "list.element.value.seven: a write-default",
        "keys: a map whose keys are not single values",
        "nothing: a struct without fields",
        "a.b: a dot in its name",
        "_kafka_offset: string, must be long",
        "_kafka_key: string",
        "one: a write-default",
    )


def test_a_table_needs_a_column_for_records() -> None:
    assert unsupported(Schema(NestedField(1, "_kafka_offset", LongType()))) == ("no column for the fields of a record",)


def test_the_columns_travel_to_workers() -> None:
    made = columns(LongType())
    made.decode(of_column(["1"]))
    found = pickle.loads(pickle.dumps(made))
    assert found.decode(of_column(["1"])).batch.column("c").to_pylist() == [1]
