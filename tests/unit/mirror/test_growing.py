"""Iceberg tables that change themselves: what records need, and one change of the catalog for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
)

from chsink.errors import PreflightError
from chsink.errors.catalogue import from_wire
from chsink.errors.preflight import MIRROR_COLUMNS_MISSING
from chsink.mirror.files import DataFiles, data_file, entry_of
from chsink.mirror.growing import grow
from chsink.mirror.lacking import ColumnLook, encoded, joined, wanted_by
from chsink.mirror.lacking_parts import promoted
from chsink.mirror.tables import MirrorTable, PropertyKeys
from chsink.mirror.types import TableColumns
from chsink.ports import Outcome
from chsink.statemachine.commit.chain import Chain
from tests.unit.mirror.test_types import records

Open = Callable[[], Catalog]
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "n", IntegerType()),
    NestedField(3, "f", FloatType()),
    NestedField(4, "d", DecimalType(5, 2)),
    NestedField(5, "r", StringType(), required=True),
    identifier_field_ids=[1],
)


def needed(*values: dict[str, Any], schema: Schema = SCHEMA) -> dict[str, tuple[str, bool]]:
    """What the table lacks for records with these values, besides ``id`` and ``r``."""
    batch = records(*(json.dumps({"id": 1, "r": "x", **value}) for value in values))
    columns = TableColumns(schema)
    found = ColumnLook(columns).lacking(batch, columns.decode(batch).bad)
    return {name: (str(field.field_type), field.required) for name, field in found.items()}


@pytest.mark.parametrize(
    ("value", "lacks"),
    [
        ({"n": 7, "f": 1e38, "d": 999.99}, {}),
        ({"n": 2**31}, {"n": ("long", False)}),
        ({"f": 1e39}, {"f": ("double", False)}),
        ({"d": 1234.5}, {"d": ("decimal(6, 2)", False)}),
        ({"d": -0.05}, {}),
        ({"d": 10**36 - 1}, {"d": ("decimal(38, 2)", False)}),
        ({"r": None}, {"r": ("string", False)}),
        ({"new": 1, "b": [1], "e": None}, {"new": ("long", False), "b": ("list<long>", False)}),
        ({"a.b": 1, "_kafka_key": 2}, {}),
        ({"id": None}, {}),
        ({"n": "x"}, {}),
        ({"n": 2**70}, {}),
        ({"d": 1.234}, {}),
        ({"n": 2**31, "f": "x"}, {}),
    ],
)
def test_what_one_record_needs(value: dict[str, Any], lacks: dict[str, Any]) -> None:
    """A-5, A-6: a record that would not fit the wider table either needs nothing of it."""
    assert needed(value) == lacks


def test_a_tombstone_needs_nothing() -> None:
    batch, columns = records(None), TableColumns(SCHEMA)
    assert not ColumnLook(columns).lacking(batch, columns.decode(batch).bad)


VALUES = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(-(2**40), 2**40),
        "f": st.floats(allow_nan=False, allow_infinity=False),
        "d": st.integers(-(10**9), 10**9).map(lambda n: n / 4),
        "r": st.sampled_from([None, "x"]),
        "new": st.one_of(st.none(), st.booleans(), st.integers(0, 9), st.floats(0, 9), st.just("x")),
    },
)


@given(st.lists(VALUES, min_size=1, max_size=6), st.integers(0, 6), st.randoms(use_true_random=False))
def test_what_records_need_does_not_depend_on_their_order_or_batches(
    values: list[dict[str, Any]], cut: int, random: Any
) -> None:
    columns = TableColumns(SCHEMA)

    def together(*parts: list[dict[str, Any]]) -> dict[str, Any]:
        found = []
        for part in filter(None, parts):
            batch = records(*(json.dumps({"id": 1, "r": "x", **value}) for value in part))
            found.append(ColumnLook(columns).lacking(batch, columns.decode(batch).bad))
        return joined(found)

    whole = together(values)
    assert together(values[:cut], values[cut:]) == whole
    assert together(random.sample(values, len(values))) == whole


@given(st.lists(VALUES, min_size=1, max_size=6))
def test_records_fit_the_table_that_changed_for_them(values: list[dict[str, Any]]) -> None:
    batch, columns = records(*(json.dumps({"id": 1, "r": "x", **v}) for v in values)), TableColumns(SCHEMA)
    wanted = ColumnLook(columns).lacking(batch, columns.decode(batch).bad)
    have = {field.name: field for field in SCHEMA.fields}
    fields = [
        NestedField(f.field_id, f.name, promoted(f.field_type, w.field_type) or f.field_type, required=w.required)
        for f in SCHEMA.fields
        for w in [wanted.get(f.name, f)]
    ]
    fields += [NestedField(10 + i, n, w.field_type) for i, (n, w) in enumerate(wanted.items()) if n not in have]
    changed = TableColumns(Schema(*fields, identifier_field_ids=[1]))
    left = changed.decode(batch).bad
    assert not ColumnLook(changed).lacking(batch, left)
    assert not left, "every value of these fits a wider column"


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (LongType(), IntegerType()),
        (DoubleType(), FloatType()),
        (LongType(), DoubleType()),
        (IntegerType(), StringType()),
        (DecimalType(5, 2), DecimalType(6, 3)),
        (DecimalType(5, 2), DecimalType(4, 2)),
    ],
)
def test_nothing_else_ever(kind: IcebergType, wanted: IcebergType) -> None:
    """A-6."""
    assert promoted(kind, wanted) is None


def test_what_tasks_report_reaches_the_driver() -> None:
    one = joined([{"new": NestedField(0, "new", LongType()), "d": NestedField(0, "d", DecimalType(6, 2))}])
    error = MIRROR_COLUMNS_MISSING(tp="t-0", columns=encoded({"shop.orders": one}))
    other = {"new": NestedField(0, "new", DoubleType())}
    error.parts = (error, MIRROR_COLUMNS_MISSING(tp="t-1", columns=encoded({"shop.orders": other, "shop.b": other})))
    found = wanted_by(error)

    assert str(found["shop.orders"]["new"].field_type) == "double"
    assert str(found["shop.orders"]["d"].field_type) == "decimal(6, 2)"
    assert found["shop.b"]["new"].required is False
    assert wanted_by(from_wire(error.name, error.params)) == {"shop.orders": one}


WANTED = {
    "n": NestedField(0, "n", LongType()),
    "f": NestedField(0, "f", DoubleType()),
    "d": NestedField(0, "d", DecimalType(9, 2)),
    "r": NestedField(0, "r", StringType()),
    "new": NestedField(0, "new", LongType()),
}


def mirror_table(catalog: Any) -> MirrorTable:
    return MirrorTable(catalog, "shop.orders", PropertyKeys("chsink-s", "control"))


def described(catalog: Catalog) -> list[str]:
    fields = catalog.load_table("shop.orders").schema().fields
    return [f"{f.name} {f.field_type}{' required' if f.required else ''}" for f in fields]


GROWN = ["id long required", "n long", "f double", "d decimal(9, 2)", "r string", "new long"]


def test_one_change_for_all(open_catalog: Open) -> None:
    """A-5: what the table has already is not changed again."""
    catalog = open_catalog()
    catalog.create_table("shop.orders", SCHEMA)
    grow(mirror_table(catalog), WANTED, 10)
    schemas = len(catalog.load_table("shop.orders").schemas())
    grow(mirror_table(catalog), WANTED, 10)

    assert described(catalog) == GROWN
    assert len(catalog.load_table("shop.orders").schemas()) == schemas == 2


def test_many_who_change_it_agree(open_catalog: Open) -> None:
    """A-4 for changes."""
    open_catalog().create_table("shop.orders", SCHEMA)
    wants = [{**WANTED, f"own_{n}": NestedField(0, f"own_{n}", LongType())} for n in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(grow, [mirror_table(open_catalog()) for _ in wants], wants, [20] * 3))
    found = described(open_catalog())
    assert set(found) == {*GROWN, "own_0 long", "own_1 long", "own_2 long"}
    assert len(found) == 9


class Answering:
    """A catalog whose first answers to ``commit_table`` are these errors, after it applied the commit, or not."""

    def __init__(self, catalog: Catalog, *answers: tuple[Exception, bool]) -> None:
        self.catalog, self.answers = catalog, list(answers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.catalog, name)

    def commit_table(self, *args: Any) -> Any:
        """See the class."""
        error, applied = self.answers.pop(0) if self.answers else (None, True)
        if applied:
            self.catalog.commit_table(*args)
        if error is not None:
            raise error


@pytest.mark.parametrize(
    "answer",
    [
        (CommitStateUnknownException("?"), True),
        (CommitStateUnknownException("?"), False),
        (CommitFailedException("somebody was faster"), False),
    ],
)
def test_an_answer_that_is_lost(open_catalog: Open, answer: tuple[Exception, bool]) -> None:
    open_catalog().create_table("shop.orders", SCHEMA)
    grow(mirror_table(Answering(open_catalog(), answer)), WANTED, 10)
    assert described(open_catalog()) == GROWN
    assert len(open_catalog().load_table("shop.orders").schemas()) == 2


def test_what_stands_in_the_way(open_catalog: Open) -> None:
    open_catalog().create_table("shop.orders", SCHEMA)
    refusing = Answering(open_catalog(), *[(PermissionError("not allowed"), False)] * 9)
    with pytest.raises(PreflightError, match=r"CHS-282.*not allowed"):
        grow(mirror_table(refusing), WANTED, 10)
    with pytest.raises(PreflightError, match=r"CHS-289.*new"):
        grow(mirror_table(open_catalog()), WANTED, 5)


def test_a_unit_of_the_older_schema_is_committed(open_catalog: Open) -> None:
    """A-5: its file was written before the change, and is read and found as those behind it."""
    catalog = open_catalog()
    catalog.create_table("shop.orders", SCHEMA)
    table, files = mirror_table(catalog), []
    for value in ({"id": 1, "n": 7, "f": 1.5, "d": 1.25, "r": "x"}, {"id": 2, "n": 2**31, "d": 1234.5, "new": 1}):
        read = table.read()
        assert read is not None
        writer = DataFiles(read.table.metadata, read.table.io, uuid4())
        decoded = TableColumns(read.table.schema()).decode(records(json.dumps(value)))
        assert not decoded.bad
        writer.write(decoded.batch)
        files += [data_file(entry_of(file, 0)) for file in writer.close()]  # as they travel to the coordinator
        grow(table, WANTED, 10)
    read = table.read()
    assert read is not None
    assert table.append(read, files, Chain(), uuid4(), None).outcome is Outcome.APPLIED

    def found(row_filter: str) -> list[int]:
        rows = catalog.load_table("shop.orders").scan(row_filter=row_filter).to_arrow()
        return sorted(rows.column("id").to_pylist())

    assert found("n >= 0") == [1, 2]
    assert (found("n = 7"), found(f"n = {2**31}"), found("d > 999"), found("new is null")) == ([1], [2], [2], [1])
